package e2e_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	callonce "github.com/callonce/callonce/clients/go"
	"github.com/callonce/callonce/e2e/payments"
	"github.com/callonce/callonce/e2e/tools"
)

// orders are what a helper (clients/python, clients/typescript, clients/go) is told to
// do; clients/helper.py says more.
type orders struct {
	URL      string  `json:"url"`
	Store    string  `json:"store"`
	Patience float64 `json:"patience"` // seconds
	Calls    []order `json:"calls"`
}

type order struct {
	Intent    string         `json:"intent"`
	Tool      string         `json:"tool,omitempty"` // none: forget the intent
	Arguments map[string]any `json:"arguments,omitempty"`
}

// carriedOut is what a helper made of an order.
type carriedOut struct {
	Kind     string `json:"kind"` // result, tool_error, forgotten, the helper's error, exception
	Text     string `json:"text"`
	Replayed bool   `json:"replayed"`
	Charge   string `json:"charge"`
	Refusal  string `json:"refusal"`
}

var helpers = []struct {
	name string
	do   func(ctx context.Context, o orders) ([]carriedOut, error)
}{
	{"go", helpGo},
	{"python 1.x", func(ctx context.Context, o orders) ([]carriedOut, error) { return helpPython(ctx, tools.Python, o) }},
	{"python 2.x", func(ctx context.Context, o orders) ([]carriedOut, error) { return helpPython(ctx, tools.Python2, o) }},
	{"typescript 1.x", func(ctx context.Context, o orders) ([]carriedOut, error) { return helpTypeScript(ctx, "1", o) }},
	{"typescript 2.x", func(ctx context.Context, o orders) ([]carriedOut, error) { return helpTypeScript(ctx, "2", o) }},
}

func helpPython(ctx context.Context, python func() (string, error), o orders) ([]carriedOut, error) {
	binary, err := python()
	if err != nil {
		return nil, err
	}
	return helpScript(exec.CommandContext(ctx, binary, "clients/helper.py"), o)
}

// buildTypeScript compiles clients/typescript and returns its main file.
var buildTypeScript = sync.OnceValues(func() (string, error) {
	root, err := tools.Root()
	if err != nil {
		return "", err
	}
	tsc, err := tools.TypeScript()
	if err != nil {
		return "", err
	}
	dir := filepath.Join(out, "typescript")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}
	// Node takes the nearest package.json for what says that these are modules.
	if err := os.WriteFile(filepath.Join(dir, "package.json"), []byte(`{"type":"module"}`), 0o600); err != nil {
		return "", err
	}
	cmd := exec.Command(tsc[0], append(tsc[1:], "--project", filepath.Join(root, "clients", "typescript"), "--outDir", dir)...)
	if text, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("%v: %w\n%s", cmd.Args, err, text)
	}
	return filepath.Join(dir, "index.js"), nil
})

func helpTypeScript(ctx context.Context, generation string, o orders) ([]carriedOut, error) {
	node, err := tools.NodeTools()
	if err != nil {
		return nil, err
	}
	helper, err := buildTypeScript()
	if err != nil {
		return nil, err
	}
	return helpScript(exec.CommandContext(ctx, node.Binary, "clients/helper.mjs", helper, node.Modules, generation), o)
}

func helpScript(cmd *exec.Cmd, o orders) ([]carriedOut, error) {
	in, err := json.Marshal(o)
	if err != nil {
		return nil, err
	}
	var told strings.Builder
	cmd.Stdin, cmd.Stderr = strings.NewReader(string(in)), &told
	text, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("%s: %w: %s", cmd.Args[1], err, told.String())
	}
	var answer struct{ Calls []carriedOut }
	if err := json.Unmarshal(text, &answer); err != nil {
		return nil, fmt.Errorf("%s: want one JSON object, got %q: %w", cmd.Args[1], text, err)
	}
	return answer.Calls, nil
}

func helpGo(ctx context.Context, o orders) (done []carriedOut, err error) {
	client := mcp.NewClient(&mcp.Implementation{Name: "callonce-e2e", Version: "1.0.0"}, nil)
	session, err := client.Connect(ctx, &mcp.StreamableClientTransport{
		Endpoint: o.URL, HTTPClient: &http.Client{Transport: callonce.Transport{}},
	}, nil)
	if err != nil {
		return nil, err
	}
	defer session.Close()
	caller := &callonce.Caller{Store: callonce.NewFileStore(o.Store)}
	for _, order := range o.Calls {
		done = append(done, orderGo(ctx, session, caller, o.Patience, order))
	}
	return done, ctx.Err()
}

func orderGo(ctx context.Context, session *mcp.ClientSession, caller *callonce.Caller, patience float64, o order) carriedOut {
	if o.Tool == "" {
		if err := caller.Forget(o.Intent); err != nil {
			return carriedOut{Kind: "exception", Text: err.Error()}
		}
		return carriedOut{Kind: "forgotten"}
	}
	ctx, cancel := context.WithTimeout(ctx, time.Duration(patience*float64(time.Second)))
	defer cancel()
	var result *mcp.CallToolResult
	outcome, err := caller.Do(ctx, o.Intent, func(ctx context.Context) (err error) {
		result, err = session.CallTool(ctx, &mcp.CallToolParams{Name: o.Tool, Arguments: o.Arguments})
		return err
	})
	if err != nil {
		c := carriedOut{Kind: "exception", Text: err.Error()}
		for kind, is := range map[string]error{
			"ReconcileFirst": callonce.ErrReconcileFirst, "KeyConflict": callonce.ErrKeyConflict,
			"NotSettled": callonce.ErrNotSettled, "Refused": callonce.ErrRefused,
		} {
			if errors.Is(err, is) {
				c.Kind = kind
			}
		}
		if r, found := errors.AsType[*callonce.Refusal](err); found {
			c.Refusal = r.Type
		}
		return c
	}
	c := carriedOut{Kind: "result", Replayed: outcome.Replayed}
	if result.IsError {
		c.Kind = "tool_error"
	}
	structured, _ := result.StructuredContent.(map[string]any)
	c.Charge, _ = structured["charge_id"].(string)
	return c
}

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

// trouble at a server or on the way is ordered by a call's note.
const (
	cutBefore = "cut-before" // on the way back to the client, once: nothing arrives
	cutWithin = "cut-within" // the same, in the middle of the answer
	lose      = "lose"       // the server does its work, and its answer is lost
	crash     = "crash"      // the server dies before its work
	broken    = "broken"     // the server does its work and answers 500
)

// fragile is a payments server that crashes and loses answers.
func fragile(t *testing.T) (*payments.Book, string) {
	book := new(payments.Book)
	handler := payments.NewHandler(book, payments.Options{Stateless: true})
	url := serveFunc(t, func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		r.Body = io.NopCloser(strings.NewReader(string(body)))
		switch noteOf(body) {
		case crash:
			panic(http.ErrAbortHandler)
		case lose:
			handler.ServeHTTP(nowhere{}, r)
			panic(http.ErrAbortHandler)
		case broken:
			handler.ServeHTTP(nowhere{}, r)
			http.Error(w, "something broke", http.StatusInternalServerError)
		default:
			handler.ServeHTTP(w, r)
		}
	})
	return book, url
}

// nowhere takes an answer that nobody gets.
type nowhere struct{}

func (nowhere) Header() http.Header         { return http.Header{} }
func (nowhere) Write(p []byte) (int, error) { return len(p), nil }
func (nowhere) WriteHeader(int)             {}
func (nowhere) Flush()                      {}

// noteOf is the note of a charge; "" of anything else.
func noteOf(body []byte) string {
	var m struct {
		Params struct {
			Arguments struct {
				Note string `json:"note"`
			} `json:"arguments"`
		} `json:"params"`
	}
	_ = json.Unmarshal(body, &m) // what is no call has no note
	return m.Params.Arguments.Note
}

// cutting stands between clients and the filter, and cuts an answer once for each body.
func cutting(t *testing.T, upstream string) string {
	var mu sync.Mutex
	cut := map[string]bool{}
	return serveFunc(t, func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		req, err := http.NewRequestWithContext(r.Context(), r.Method, upstream+r.URL.Path, strings.NewReader(string(body)))
		if err != nil {
			panic(err)
		}
		req.Header = r.Header.Clone()
		resp, err := http.DefaultTransport.RoundTrip(req)
		if err != nil {
			panic(http.ErrAbortHandler)
		}
		defer resp.Body.Close()
		for name, values := range resp.Header {
			w.Header()[name] = values
		}
		note := noteOf(body)
		w.WriteHeader(resp.StatusCode)
		if note != cutBefore && note != cutWithin {
			_, _ = io.Copy(w, resp.Body)
			return
		}
		answer, err := io.ReadAll(resp.Body)
		if err != nil {
			panic(http.ErrAbortHandler)
		}
		intent := r.Header.Get(callonce.Header)
		mu.Lock()
		first := !cut[intent]
		cut[intent] = true
		mu.Unlock()
		if !first {
			_, _ = w.Write(answer)
			return
		}
		if note == cutWithin {
			_, _ = w.Write(answer[:len(answer)/2])
			http.NewResponseController(w).Flush()
		}
		panic(http.ErrAbortHandler)
	})
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
