package e2e_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/callonce/callonce/e2e/hostsimcmd"
	"github.com/callonce/callonce/e2e/tools"
)

// The configuration of make run is the demo's, and lets its page see and resolve keys.
func TestRunIsTheDemo(t *testing.T) {
	root := must(t, tools.Root)
	text := func(name string) string {
		b, err := os.ReadFile(filepath.Join(root, "e2e", "testdata", name))
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	const operators = `      "operators": {"path": "/callonce/keys", "principal": ["metadata:callonce.serve/operator=page"]},` + "\n"
	if run := text("run.json"); !strings.Contains(run, operators) || strings.Replace(run, operators, "", 1) != text("demo.json") {
		t.Errorf("want the demo's configuration and\n%s, got\n%s", operators, run)
	}
}

// losing is a server that loses its first answer to each call, and counts what it ran.
type losing struct {
	*httptest.Server
	mu  sync.Mutex
	ran map[string]int
}

func startLosing(t *testing.T) *losing {
	f := &losing{ran: map[string]int{}}
	f.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		_, name, _ := strings.Cut(string(body), `"name":"`)
		name, _, _ = strings.Cut(name, `"`)
		f.mu.Lock()
		f.ran[name]++
		first := f.ran[name] == 1
		f.mu.Unlock()
		if first {
			panic(http.ErrAbortHandler)
		}
		w.Header().Set("Content-Type", "application/json")
		io.WriteString(w, `{"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":"done"}]}}`)
	}))
	t.Cleanup(f.Close)
	return f
}

func (f *losing) runs(tool string) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.ran[tool]
}

// The page lists keys, and resolves one each way, from the keyboard alone, on narrow screens and dark ones; the repeat gets what was said.
func TestPageResolvesKeys(t *testing.T) {
	b := startBrowser(t)
	server := startLosing(t)
	config := filepath.Join(t.TempDir(), "config.json")
	const text = `{"policies":{"p":{"server":"p","anonymous":true,"strip":true,"tools":[{"match":"alpha"},{"match":"beta"},{"match":"gamma"}],
		"operators":{"path":"/callonce/keys","principal":["metadata:callonce.serve/operator=page"]}}},"default":"p"}`
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	h, err := hostsimcmd.Start(t.Context(), hostsimcmd.Options{Binary: must(t, buildCommand), Plugin: must(t, buildPlugin), Config: config, Upstream: server.URL, More: []string{"--admin", "127.0.0.1:0"}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(h.Stop)
	call := func(tool string) string {
		t.Helper()
		resp, body := send(t, "POST", h.URL(), toolCall("1", tool, `{"a":"secret-argument"}`), "Idempotency-Key", "secret-key-"+tool)
		return outcome(resp, body)
	}
	tools := []string{"alpha", "beta", "gamma"}
	for _, tool := range tools {
		if got := call(tool); got == "first" {
			t.Fatalf("%s: want a lost answer, got %s", tool, got)
		}
		if got := call(tool); got != "idempotency_outcome_unknown" {
			t.Fatalf("%s: want an unknown outcome, got %s", tool, got)
		}
	}

	b.size(1400)
	b.do("Page.navigate", map[string]any{"url": h.Page()})
	const column = `[...document.querySelectorAll('#keyrows td')].filter(e => e.dataset.name === '%s').map(e => e.textContent).sort().join()`
	b.until(fmt.Sprintf(column, "tool"), "alpha,beta,gamma")
	b.until(fmt.Sprintf(column, "state"), "outcome_unknown,outcome_unknown,outcome_unknown")
	b.until(fmt.Sprintf(column, "cause"), "reset,reset,reset")
	b.until(`document.querySelector('#keysum').textContent`, "3 keys.")
	b.shot("keys")
	if text := b.eval(`document.documentElement.outerHTML`); strings.Contains(text, "secret-") {
		t.Error("the page shows what was sent")
	}

	// Without a reason nothing is done, and Escape leaves all as it is.
	button := func(tool string) string {
		return fmt.Sprintf(`[...document.querySelectorAll('#keyrows tr')].find(e => e.textContent.includes('%s')).querySelector('button')`, tool)
	}
	b.eval(button("alpha") + `.focus()`)
	b.press("Enter")
	b.until(`document.querySelector('#ask').open`, "true")
	b.until(`document.querySelectorAll('#choices input').length`, "3")
	b.shot("resolve")
	b.press(" ")
	b.press("Enter")
	b.until(`document.querySelector('#ask').open`, "true")
	b.press("Escape")
	b.until(`document.querySelector('#ask').open`, "false")

	for i, way := range []string{"completed_elsewhere", "released", "refused"} {
		b.eval(button(tools[i]) + `.focus()`)
		b.press("Enter")
		b.until(`document.querySelector('#ask').open`, "true")
		b.until(`document.activeElement.value`, "completed_elsewhere") // the first of the three
		for range i {
			b.press("ArrowDown")
		}
		b.press(" ")
		b.until(`document.querySelector('#choices input:checked').value`, way)
		b.press("Tab")
		b.until(`document.activeElement.id`, "reason")
		b.do("Input.insertText", map[string]any{"text": "looked into the books"})
		b.press("Enter")
		b.until(`document.querySelector('#ask').open`, "false")
	}
	b.until(fmt.Sprintf(column, "tool"), "gamma")
	b.until(fmt.Sprintf(column, "resolved"), "refused")

	// What each repeat gets.
	if got := call("alpha"); got != "replay" || server.runs("alpha") != 1 {
		t.Errorf("completed elsewhere: want a replay of what was said and no run, got %s, %d runs", got, server.runs("alpha"))
	}
	if got := call("beta"); got != "first" || server.runs("beta") != 2 {
		t.Errorf("released: want a run, got %s, %d runs", got, server.runs("beta"))
	}
	if got := call("gamma"); got != "idempotency_outcome_unknown" || server.runs("gamma") != 1 {
		t.Errorf("refused: want the refusal, got %s, %d runs", got, server.runs("gamma"))
	}

	b.press("k")
	b.until(`document.activeElement.id`, "keystate")
	b.eval(`(s => { s.value = ''; s.dispatchEvent(new Event('change')) })(document.querySelector('#keystate'))`)
	b.until(fmt.Sprintf(column, "tool"), "alpha,beta,gamma")
	b.do("Emulation.setEmulatedMedia", map[string]any{"features": []any{map[string]any{"name": "prefers-color-scheme", "value": "dark"}}})
	b.shot("keys-dark")
	b.size(360)
	b.until(`document.documentElement.scrollWidth <= innerWidth`, "true")
	b.shot("keys-narrow")
	b.eval(button("gamma") + `.click()`)
	b.until(`document.querySelector('#ask').open`, "true")
	b.until(`document.querySelector('#ask').getBoundingClientRect().right <= innerWidth`, "true")
	b.shot("resolve-narrow")
}

// Nobody but the page itself comes to the operators' part, and a configuration that does not name the page has none.
func TestPageIsForItselfOnly(t *testing.T) {
	server := startLosing(t)
	start := func(config string) *hostsimcmd.Hostsim {
		h, err := hostsimcmd.Start(t.Context(), hostsimcmd.Options{Binary: must(t, buildCommand), Plugin: must(t, buildPlugin), Config: config, Upstream: server.URL, More: []string{"--admin", "127.0.0.1:0"}})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(h.Stop)
		return h
	}
	root := must(t, tools.Root)
	with, without := start(filepath.Join(root, "e2e", "testdata", "run.json")), start(filepath.Join(root, "e2e", "testdata", "demo.json"))
	ask := func(h *hostsimcmd.Hostsim, method, path, host string, headers ...string) int {
		t.Helper()
		req, err := http.NewRequest(method, h.Page()+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		if host != "" {
			req.Host = host
		}
		for i := 0; i+1 < len(headers); i += 2 {
			req.Header.Set(headers[i], headers[i+1])
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		return resp.StatusCode
	}
	if got := ask(with, "GET", "filter/keys", ""); got != 200 {
		t.Errorf("the page itself: want 200, got %d", got)
	}
	for name, got := range map[string]int{
		"a name that stands for this address": ask(with, "GET", "filter/keys", "rebound.example"),
		"a page of another site":              ask(with, "POST", "filter/keys/0123456789abcdef?to=released&reason=x", "", "Sec-Fetch-Site", "cross-site"),
	} {
		if got != 403 {
			t.Errorf("%s: want 403, got %d", name, got)
		}
	}
	if got := ask(without, "GET", "filter/keys", ""); got != 404 {
		t.Errorf("a configuration without the page: want 404, got %d", got)
	}
	// Who comes by the proxy has no such metadata, whatever it says.
	if resp, _ := send(t, "GET", strings.TrimSuffix(with.URL(), "/")+"/callonce/keys", "", "callonce.serve", "page"); resp.StatusCode != 403 {
		t.Errorf("by the proxy: want 403, got %s", resp.Status)
	}
}
