package e2e_test

import (
	"bufio"
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/callonce/callonce/e2e/hostsimcmd"
	"github.com/callonce/callonce/e2e/payments"
	"github.com/callonce/callonce/e2e/tools"
)

// browser is a headless Chromium, spoken to over a pair of pipes: messages of its DevTools protocol, each ended by a zero byte.
type browser struct {
	t    *testing.T
	to   *os.File
	from *bufio.Reader
	id   int
	page string // the session of its one tab
}

// startBrowser skips the test only on machines for which there is no pinned Chromium.
func startBrowser(t *testing.T) *browser {
	t.Helper()
	chromium, err := tools.Chromium()
	if errors.Is(err, tools.ErrNoBrowser) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	inRead, inWrite, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	outRead, outWrite, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(chromium.Binary, "--headless=shell", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--remote-debugging-pipe", "--user-data-dir="+filepath.Join(t.TempDir(), "profile"))
	cmd.ExtraFiles, cmd.Env = []*os.File{inRead, outWrite}, append(os.Environ(), chromium.Env...)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	b := &browser{t: t, to: inWrite, from: bufio.NewReader(outRead)}
	inRead.Close()
	outWrite.Close()
	t.Cleanup(func() {
		inWrite.Close() // it ends with its pipe
		ended := make(chan struct{})
		go func() { _ = cmd.Wait(); close(ended) }()
		select {
		case <-ended:
		case <-time.After(10 * time.Second):
			_ = cmd.Process.Kill()
			<-ended
		}
		outRead.Close()
	})
	target := b.do("Target.createTarget", map[string]any{"url": "about:blank"})["targetId"]
	b.page, _ = b.do("Target.attachToTarget", map[string]any{"targetId": target, "flatten": true})["sessionId"].(string)
	return b
}

// do carries out one command, and gives its result.
func (b *browser) do(method string, params map[string]any) map[string]any {
	b.t.Helper()
	b.id++
	m := map[string]any{"id": b.id, "method": method, "params": params}
	if b.page != "" {
		m["sessionId"] = b.page
	}
	text, err := json.Marshal(m)
	if err != nil {
		b.t.Fatal(err)
	}
	if _, err := b.to.Write(append(text, 0)); err != nil {
		b.t.Fatal(err)
	}
	for {
		line, err := b.from.ReadBytes(0)
		if err != nil {
			b.t.Fatalf("%s: the browser is gone: %v", method, err)
		}
		var got struct {
			ID     int
			Result map[string]any
			Error  json.RawMessage
		}
		if err := json.Unmarshal(bytes.TrimSuffix(line, []byte{0}), &got); err != nil {
			b.t.Fatal(err)
		}
		if got.ID != b.id {
			continue // an event
		}
		if got.Error != nil {
			b.t.Fatalf("%s: %s", method, got.Error)
		}
		return got.Result
	}
}

// eval gives the text of an expression's value.
func (b *browser) eval(expression string) string {
	b.t.Helper()
	r := b.do("Runtime.evaluate", map[string]any{"expression": "String(" + expression + ")", "awaitPromise": true})
	result, _ := r["result"].(map[string]any)
	return fmt.Sprint(result["value"])
}

func (b *browser) until(expression, want string) {
	b.t.Helper()
	got := ""
	for deadline := time.Now().Add(30 * time.Second); time.Now().Before(deadline); time.Sleep(100 * time.Millisecond) {
		if got = b.eval(expression); got == want {
			return
		}
	}
	b.t.Fatalf("%s: %q, want %q", expression, got, want)
}

// keyCodes are those of keys that do something by themselves.
var keyCodes = map[string]int{"Tab": 9, "Enter": 13, "Escape": 27, " ": 32, "ArrowDown": 40}

func (b *browser) press(key string) {
	b.t.Helper()
	for _, kind := range []string{"keyDown", "keyUp"} {
		m := map[string]any{"type": kind, "key": key, "windowsVirtualKeyCode": keyCodes[key]}
		switch {
		case kind == "keyUp":
		case key == "Enter":
			m["text"] = "\r"
		case len(key) == 1:
			m["text"] = key
		}
		b.do("Input.dispatchKeyEvent", m)
	}
}

// shot keeps a picture of the page, where go test is given -artifacts.
func (b *browser) shot(name string) {
	b.t.Helper()
	data, _ := b.do("Page.captureScreenshot", map[string]any{"format": "png"})["data"].(string)
	picture, err := base64.StdEncoding.DecodeString(data)
	if err != nil {
		b.t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(b.t.ArtifactDir(), name+".png"), picture, 0o644); err != nil {
		b.t.Fatal(err)
	}
}

func (b *browser) size(width int) {
	b.do("Emulation.setDeviceMetricsOverride", map[string]any{"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": false})
}

// The page shows calls as they come: how each was decided, settled and repeated. It works from the keyboard, on narrow screens and dark ones, and
// asks nobody else for anything.
func TestPage(t *testing.T) {
	b := startBrowser(t)
	server := startPayments(t, payments.Options{Stateless: true})
	h, err := hostsimcmd.Start(t.Context(), hostsimcmd.Options{Binary: must(t, buildCommand), Plugin: must(t, buildPlugin), Upstream: server.URL(), More: []string{"--admin", "127.0.0.1:0"}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(h.Stop)
	if h.Page() == "" {
		t.Fatal("no page")
	}
	b.size(1400)
	b.do("Page.navigate", map[string]any{"url": h.Page()})
	b.until(`document.querySelector('#sum')?.textContent`, "Waiting for the first request …")
	call := func(amount int) {
		t.Helper()
		resp, _ := send(t, "POST", h.URL(), strings.Replace(chargeBody, "1200", fmt.Sprint(amount), 1), "Idempotency-Key", "secret-key", "X-User", "me", "Mcp-Session-Id", "<img src=x onerror=document.title='run'>")
		if resp.StatusCode != http.StatusOK {
			t.Fatal(resp.Status)
		}
	}
	for _, amount := range []int{1200, 1200, 9900} {
		call(amount)
	}
	b.until(`document.querySelector('#sum').textContent`, "3 requests, 1 of them answered by the server, 2 in its stead")
	const column = `[...document.querySelectorAll('#rows tr:not([hidden]) td')].filter(e => e.dataset.name === '%s').map(e => e.textContent).join()`
	for name, want := range map[string]string{
		"outcome": "conflict,replay,first", "tool": "charge,charge,charge", "answered by": "the filter or proxy,the filter or proxy,the server",
		"settled": ",,completed", "settled by": ",,result", "source": ",transport,",
	} {
		b.until(fmt.Sprintf(column, name), want)
	}
	b.until(`[...document.querySelectorAll('th')].find(e => e.textContent === 'mode').hidden`, "true")
	b.until(`[...document.querySelectorAll('dt')].some(e => e.textContent.includes('callonce_build_info'))`, "true")
	b.until(`[...document.querySelectorAll('dt')].find(e => e.textContent.includes('state=completed'))?.nextSibling.textContent`, "1")
	if text := b.eval(`document.documentElement.outerHTML`); strings.Contains(text, "secret-key") || b.eval(`document.title`) != "Requests as they come" {
		t.Error("the page shows what was sent, or runs it")
	}
	if got := b.eval(`performance.getEntriesByType('resource').filter(e => !e.name.startsWith(location.origin)).length`); got != "0" {
		t.Errorf("%s things come from elsewhere", got)
	}

	// By the keyboard alone.
	b.press("/")
	b.until(`document.activeElement.id`, "filter")
	for _, c := range "replay" {
		b.do("Input.insertText", map[string]any{"text": string(c)})
	}
	b.until(fmt.Sprintf(column, "outcome"), "replay")
	b.press("Escape")
	b.until(`document.activeElement.id`, "")
	b.press("p")
	b.until(`document.querySelector('#pause').getAttribute('aria-pressed')`, "true")
	call(1200)
	time.Sleep(2500 * time.Millisecond)
	b.until(`document.querySelectorAll('#rows tr').length`, "3")
	b.press("p")
	b.until(`document.querySelectorAll('#rows tr').length`, "4")

	// Nothing hangs over the edge, however narrow; and dark is dark, with text that can be read.
	for _, width := range []int{1400, 800, 360} {
		b.size(width)
		b.until(`document.documentElement.scrollWidth <= innerWidth`, "true")
		b.shot(fmt.Sprint("requests-", width))
	}
	const light = `getComputedStyle(document.body).backgroundColor + getComputedStyle(document.body).color`
	b.until(light, "rgb(255, 255, 255)rgb(27, 31, 36)")
	b.do("Emulation.setEmulatedMedia", map[string]any{"features": []any{map[string]any{"name": "prefers-color-scheme", "value": "dark"}}})
	b.until(light, "rgb(13, 17, 23)rgb(230, 237, 243)")
}
