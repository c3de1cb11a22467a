package e2e_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/callonce/callonce/e2e/payments"
	"github.com/callonce/callonce/e2e/tools"
)

// The helpers' own tests, which need neither an SDK nor a filter.
func TestHelpersByThemselves(t *testing.T) {
	clients := filepath.Join(must(t, tools.Root), "clients")
	node, err := tools.NodeTools()
	if err != nil {
		t.Fatal(err)
	}
	typescript := exec.CommandContext(t.Context(), node.Binary, "--test", filepath.Join(clients, "typescript", "test", "caller.test.mjs"))
	typescript.Env = append(os.Environ(), "CALLONCE="+must(t, buildTypeScript))
	for _, cmd := range []*exec.Cmd{
		typescript,
		exec.CommandContext(t.Context(), must(t, tools.Python), "-m", "unittest", "discover", filepath.Join(clients, "python", "tests")),
		exec.CommandContext(t.Context(), "go", "test", "-C", filepath.Join(clients, "go"), "./..."),
	} {
		if text, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("%v: %v\n%s", cmd.Args, err, text)
		}
	}
}

// The TypeScript helper takes the clients of both generations as they are, without a cast.
func TestHelperTypes(t *testing.T) {
	node, err := tools.NodeTools()
	if err != nil {
		t.Fatal(err)
	}
	tsc, err := tools.TypeScript()
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile("clients/types.mts")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	err = errors.Join(
		os.Symlink(node.Modules, filepath.Join(dir, "node_modules")),
		os.Symlink(filepath.Dir(must(t, buildTypeScript)), filepath.Join(dir, "callonce")),
		os.WriteFile(filepath.Join(dir, "types.mts"), text, 0o600),
	)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), tsc[0], append(tsc[1:], "--noEmit", "--strict", "--skipLibCheck", "--module", "nodenext", "--target", "es2022", "--types", "node", "types.mts")...)
	cmd.Dir = dir
	if text, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v: %v\n%s", cmd.Args, err, text)
	}
}

// The helpers, over official clients of both generations: each intent runs once, and
// what can be settled is.
func TestHelpers(t *testing.T) {
	for _, host := range []struct {
		proxy int // in proxies
		shape string
	}{{0, "http"}, {0, "jsonrpc"}, {0, "tool_result"}, {1, "http"}} {
		proxy := proxies[host.proxy]
		t.Run(proxy.name+"/"+host.shape, func(t *testing.T) {
			book, server := fragile(t)
			filter := proxy.start(t, server, `{"policies":{"p":{"server":"s","anonymous":true,"reply":"`+host.shape+`","limits":{"in_flight":1},
				"tools":[{"match":"charge","guard":"required"},{"match":"*","guard":"off"}]}},"default":"p"}`)
			url := cutting(t, filter)
			for _, helper := range helpers {
				t.Run(helper.name, func(t *testing.T) {
					h := helped{t, book, filter, url, t.TempDir(), helper.name, helper.do}
					h.settles()
					h.stops()
					h.waits()
					h.leaves()
				})
			}
		})
	}
}

// helped is one helper before one filter.
type helped struct {
	t                   *testing.T
	book                *payments.Book
	filter, url, dir, n string
	do                  func(ctx context.Context, o orders) ([]carriedOut, error)
}

// pay is the order to charge a customer of this helper, named after the intent.
func (h helped) pay(intent string, cents int, note string, more ...any) order {
	args := map[string]any{"customer": h.customer(intent), "amount_cents": cents}
	if note != "" {
		args["note"] = note
	}
	for i := 0; i < len(more); i += 2 {
		args[more[i].(string)] = more[i+1]
	}
	return order{intent, "charge", args}
}

func (h helped) customer(intent string) string { return h.n + ", " + intent }

// process is one process of the helper, which knows only what is in the file.
func (h helped) process(patience float64, calls ...order) []carriedOut {
	h.t.Helper()
	done, err := h.do(h.t.Context(), orders{h.url + "/mcp", filepath.Join(h.dir, "keys.json"), patience, calls})
	if err != nil {
		h.t.Fatal(err)
	}
	if len(done) != len(calls) {
		h.t.Fatalf("want %d answers, got %+v", len(calls), done)
	}
	return done
}

func (h helped) check(what string, got carriedOut, kind, refusal string, replayed bool) {
	h.t.Helper()
	if got.Kind != kind || got.Refusal != refusal || got.Replayed != replayed || (kind == "result") != (got.Charge != "") {
		h.t.Errorf("%s: want %s %s, replayed %t, got %+v", what, kind, refusal, replayed, got)
	}
}

// ran checks how often the intent's charge was made.
func (h helped) ran(intent string, want int) {
	h.t.Helper()
	if n := h.book.CountFor(h.customer(intent)); n != want {
		h.t.Errorf("%s: want %d charges at the server, got %d", intent, want, n)
	}
}

// settles: lost answers are fetched, and a new process goes on with the same keys.
func (h helped) settles() {
	h.t.Helper()
	done := h.process(60, h.pay("plain", 1, ""), h.pay("plain", 1, ""), h.pay("nothing came", 1, cutBefore), h.pay("half came", 1, cutWithin))
	again := h.process(60, h.pay("plain", 1, ""), h.pay("half came", 1, cutWithin))
	h.check("the first call", done[0], "result", "", false)
	h.check("the same again", done[1], "result", "", true)
	h.check("whose answer was lost", done[2], "result", "", true)
	h.check("whose answer was cut", done[3], "result", "", true)
	h.check("after a restart", again[0], "result", "", true)
	h.check("whose answer was cut, after a restart", again[1], "result", "", true)
	if done[0].Charge != again[0].Charge {
		h.t.Errorf("want the same charge after a restart, got %s and %s", done[0].Charge, again[0].Charge)
	}
	for _, intent := range []string{"plain", "nothing came", "half came"} {
		h.ran(intent, 1)
	}
}

// stops where a repeat could do harm; what is forgotten then runs.
func (h helped) stops() {
	h.t.Helper()
	done := h.process(60,
		h.pay("lost", 1, lose), h.pay("broken", 1, broken), h.pay("crashed", 1, crash),
		order{Intent: "crashed"}, h.pay("crashed", 1, ""),
		h.pay("plain", 2, ""), h.pay("plain", 1, ""),
		order{"wrong", "charge", map[string]any{"customer": h.customer("wrong"), "amount_cents": 0}})
	for i, what := range []string{"lost at the server", "answered 500", "crashed"} {
		h.check(what, done[i], "ReconcileFirst", "idempotency_outcome_unknown", false)
	}
	h.check("forgotten, then called", done[4], "result", "", false)
	h.check("other arguments", done[5], "KeyConflict", "idempotency_key_conflict", false)
	h.check("the same connection goes on", done[6], "result", "", true)
	h.check("a tool's own error", done[7], "tool_error", "", false)
	h.ran("lost", 1)
	h.ran("broken", 1)
	h.ran("crashed", 1)
	h.ran("plain", 1)
}

// waits while the call runs under the same key, and while there is no room.
func (h helped) waits() {
	h.t.Helper()
	kept := "kept-by-" + key(h.n)
	keys := filepath.Join(h.dir, "keys.json")
	var file struct {
		Version int                       `json:"version"`
		Intents map[string]map[string]any `json:"intents"`
	}
	text, err := os.ReadFile(keys)
	if err == nil {
		err = json.Unmarshal(text, &file)
	}
	if err != nil || file.Intents["plain"]["key"] == "" {
		h.t.Fatalf("the helper's file: %v: %s", err, text)
	}
	file.Intents["runs already"] = map[string]any{"key": kept, "sent": 0, "done": false}
	if text, err = json.Marshal(file); err == nil {
		err = os.WriteFile(keys, text, 0o600)
	}
	if err != nil {
		h.t.Fatal(err)
	}
	// Another process has a file of its own with the same key in it.
	other := filepath.Join(h.dir, "other.json")
	if err := os.WriteFile(other, text, 0o600); err != nil {
		h.t.Fatal(err)
	}
	running := h.pay("runs already", 1, "", "delay_ms", 4000)
	before := h.book.Running()
	ended := make(chan carriedOut, 1)
	go func() {
		first, err := h.do(h.t.Context(), orders{h.url + "/mcp", other, 60, []order{running}})
		if err != nil || len(first) != 1 {
			first = []carriedOut{{Text: fmt.Sprint(err)}}
		}
		ended <- first[0]
	}()
	h.until(func() bool { return h.book.Running() > before })
	done := h.process(60, h.pay("no room", 1, ""), running)
	h.check("without room at first", done[0], "result", "", false)
	h.check("while it runs", done[1], "result", "", true)
	first := <-ended
	h.check("which ran", first, "result", "", false)
	if first.Charge != done[1].Charge {
		h.t.Errorf("want the first call's charge %s, got %s", first.Charge, done[1].Charge)
	}
	h.ran("no room", 1)
	h.ran("runs already", 1)
}

// leaves: a server that hangs ends the helper's patience, and a helper that dies with a
// call under way does not make it twice.
func (h helped) leaves() {
	h.t.Helper()
	hangs := h.pay("hangs", 1, "", "delay_ms", 6000)
	done := h.process(2, hangs)
	if got := done[0]; got.Kind != "NotSettled" {
		h.t.Errorf("a server that hangs: want NotSettled, got %+v", got)
	}
	h.until(func() bool { return h.book.Running() == 0 })
	dies := h.pay("dies", 1, "", "delay_ms", 3000)
	ctx, cancel := context.WithCancel(h.t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_, _ = h.do(ctx, orders{h.url + "/mcp", filepath.Join(h.dir, "keys.json"), 60, []order{dies}}) // killed
	}()
	h.until(func() bool { return h.book.Running() > 0 })
	cancel()
	<-ended
	done = h.process(60, dies, hangs)
	for i, what := range []string{"killed in mid call", "given up"} {
		h.check(what, done[i], "ReconcileFirst", "idempotency_outcome_unknown", false)
	}
	h.until(func() bool { return h.book.Running() == 0 })
	h.ran("hangs", 1)
	h.ran("dies", 1)
}

func (h helped) until(is func() bool) {
	h.t.Helper()
	for deadline := time.Now().Add(time.Minute); !is(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			h.t.Fatal("not so after a minute")
		}
	}
}
