package schedule

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/callonce/callonce/hostsim"
)

// code is the project's filter with a table of a handful of buckets, so that every key meets every other.
var code *hostsim.Code

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "schedule")
	if err == nil {
		code, err = compileFilter(dir)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	status := m.Run()
	code.Close(context.Background())
	os.RemoveAll(dir)
	os.Exit(status)
}

func compileFilter(dir string) (*hostsim.Code, error) {
	out := filepath.Join(dir, "filter.wasm")
	cmd := exec.Command("go", "build", "-buildmode=c-shared", "-ldflags=-s -w", "-tags=smalltable", "-o", out, "github.com/callonce/callonce/plugin")
	cmd.Env = append(os.Environ(), "GOOS=wasip1", "GOARCH=wasm")
	if text, err := cmd.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("the filter does not build: %v\n%s", err, text)
	}
	wasm, err := os.ReadFile(out)
	if err != nil {
		return nil, err
	}
	c := hostsim.Config{Wasm: wasm}
	if cache, err := os.UserCacheDir(); err == nil {
		c.CacheDir = filepath.Join(cache, "callonce", "hostsim-tests")
	}
	return hostsim.Compile(context.Background(), c)
}

// ask is one call of a tool: the key says which intent.
type ask struct {
	worker int
	key    string
	user   string
	// once names a key whose call must be at the server before this one is made.
	once string
}

// game is a scenario of calls, and everything that is known of one run of it.
type game struct {
	// Answers end in their workers' goroutines, of which two may be past their last host call at once.
	ends *sync.Mutex

	limits  string // JSON members
	lease   time.Duration
	clients [][]ask
	// ticks is how often the clock may move on by a second; sweeps are single ticks of single workers.
	ticks    int
	onceTick string
	sweeps   []int
	faults   []Fault
	// tamper makes a hook that plants a fault in the ledger, for one run.
	tamper func() func(*hostsim.Call) hostsim.Verdict
	// later lets the server answer in a step of its own instead of at once.
	later bool
	// last are keys asked for when all have been idle, by the worker of that number: it then holds places ahead.
	last []string
	// expired says that what was known before the game has expired when it begins.
	expired bool
	// lies is how many entries must lie in the table once all is prepared.
	lies int
	// mute lets the server answer only when the game is over.
	mute bool
	// second is how far the clock moves at once, 0 = a second. idle is how long all have been idle when the game begins.
	second, idle time.Duration
	ttl          time.Duration
	// stalls says that a worker may be held up for longer than its lease.
	stalls bool
	// awake lets every worker do all it has to do before the clock moves on.
	awake bool
	// whole says that every order is tried: then the clock may move on even when nothing waits for it.
	whole bool
	// sheds and evicts say that a reply, or an entry, may be given up.
	sheds, evicts bool

	// tally counts the answers by kind, over all runs.
	tally map[string]int

	workers int // 0 = 2, or as many as clients ask
	runs    map[string]int
	replies map[string]string // by key: what some client got with a 200
	open    map[string]*call
	waiting []*served
	next    []int // by client: the ask that comes next
	played  int
	wrong   error
	watch   *watch
	ended   bool
	before  *known // for runs that begin where another did; nil = none does
}

type call struct {
	ask    ask
	id     string
	began  string // what was known of the key's reply at the start
	stream *hostsim.Stream
	client int
	since  time.Duration
	left   bool
}

// clientPatience is how long a client waits before it may give up.
const clientPatience = 30 * time.Second

type served struct {
	name    string
	worker  int
	a       *hostsim.Arrival
	key, id string
	run     int
	due     time.Duration
}

// scenario makes a new run of the game.
func (g game) scenario() Scenario {
	g.runs, g.replies, g.open, g.ends = map[string]int{}, map[string]string{}, map[string]*call{}, new(sync.Mutex)
	g.next = make([]int, len(g.clients))
	if g.workers == 0 {
		g.workers = 2
	}
	for _, asks := range g.clients {
		for _, a := range asks {
			g.workers = max(g.workers, a.worker+1)
		}
	}
	if g.lease == 0 {
		g.lease = 2 * time.Second
	}
	g.watch = newWatch(g.lease)
	limits := g.limits
	if limits == "" {
		limits = `"entries":4096,"entries_per_principal":4096,"entries_per_scope":4096`
	}
	if g.ttl == 0 {
		g.ttl = time.Hour
	}
	if g.second == 0 {
		g.second = time.Second
	}
	if b := g.before; b != nil && b.runs != nil {
		g.runs, g.replies, g.played, g.watch.most.keys, g.watch.most.bytes = maps.Clone(b.runs), maps.Clone(b.replies), b.played, b.keys, b.bytes
	}
	var before func(*hostsim.Call) hostsim.Verdict
	if g.tamper != nil {
		before = g.tamper()
	}
	config := fmt.Sprintf(`{"namespace":"t","policies":{"p":{"server":"s","principal":["header:x-user"],"ttl":"%v","lease":"%v","limits":{%s}}},"default":"p"}`, g.ttl, g.lease, limits)
	g.watch.readLimits(limits)
	s := Scenario{Faults: g.faults, Prepare: g.prepare, Offer: g.offer, Check: g.check, End: g.end}
	if g.limits != "" {
		s.Compared = func(c *hostsim.Call) bool { return strings.Contains(string(c.Key), "/b/") }
	}
	s.Host = hostsim.Config{Code: code, PluginConfig: []byte(config), VMID: "v", Workers: g.workers, HoldHeaders: true, FailReload: true,
		Log: g.watch.log, Hooks: hostsim.Hooks{Before: before, After: g.watch.after}}
	return s
}

func (g *game) offer(w *World) []Option {
	var out []Option
	for c, asks := range g.clients {
		n := g.next[c]
		if n >= 0 && n < len(asks) {
			a := asks[n]
			if a.once != "" && g.runs[a.once] == 0 {
				continue
			}
			out = append(out, Option{Name: fmt.Sprintf("client %d asks for %s on worker %d", c, a.key, a.worker), Actor: fmt.Sprint("client ", c), Touches: []Touch{},
				Do: func() { g.next[c] = -1 - n; g.begin(w, c, a, fmt.Sprint(1000*(c+1)+n)) }})
		}
	}
	for i, s := range g.waiting {
		if s.a.Gone() || w.Clock.Mono() < s.due {
			continue
		}
		out = append(out, Option{Name: "server answers " + s.name, Touches: []Touch{}, Do: func() {
			g.waiting = append(g.waiting[:i:i], g.waiting[i+1:]...)
			g.answer(w, s)
		}})
	}
	for _, id := range slices.Sorted(maps.Keys(g.open)) {
		if c := g.open[id]; !c.left && w.Clock.Mono()-c.since >= clientPatience {
			out = append(out, Option{Name: "the client of call " + id + " gives up", Touches: []Touch{}, Do: func() {
				c.left = true
				c.stream.Leave()
			}})
		}
	}
	if len(g.sweeps) > 0 {
		n := g.sweeps[0]
		out = append(out, Option{Name: fmt.Sprintf("tick of worker %d", n), Actor: "sweeps", Touches: []Touch{}, Do: func() { g.sweeps = g.sweeps[1:]; w.Host.TickWorker(n) }})
	}
	if g.awake && w.Busy() {
		return out
	}
	if g.onceTick != "" && g.runs[g.onceTick] == 0 {
		return out
	}
	if g.ticks > 0 && (g.whole || len(out) > 0 || len(g.open) > 0 || len(g.waiting) > 0) {
		var touches []Touch
		if !g.awake {
			touches = []Touch{}
		}
		out = append(out, Option{Name: fmt.Sprintf("%v pass", g.second), Weight: 1, Touches: touches, Do: func() {
			g.ticks--
			if by, jump := w.StrikeBy(ClockJump); jump {
				w.Note("and the wall clock jumps by %v", by)
				w.Clock.Step(by)
			}
			w.Advance(g.second)
			if g.awake {
				if err := w.Drain(); err != nil {
					g.wrong = err
				}
			}
		}})
	}
	return out
}

// extra begins a call that is none of the clients'.
func (g *game) extra(w *World, a ask) (id string) {
	g.played++
	id = fmt.Sprint(100_000 + g.played)
	g.begin(w, -1, a, id)
	return id
}

func (g *game) begin(w *World, client int, a ask, id string) {
	w.Touch("reply of "+a.key, false)
	c := &call{ask: a, id: id, began: g.replies[a.key], client: client, since: w.Clock.Mono()}
	g.ends.Lock()
	g.open[c.id] = c
	g.ends.Unlock()
	body := fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"method":"tools/call","params":{"name":"charge","arguments":{"key":%q}}}`, c.id, a.key)
	stream, err := w.Host.Play(a.worker, hostsim.Request{Method: "POST", Path: "/mcp", Authority: "h", Body: []byte(body),
		Headers: []hostsim.Header{{Name: "content-type", Value: "application/json"}, {Name: "accept", Value: "application/json"},
			{Name: "idempotency-key", Value: a.key}, {Name: "x-request-id", Value: id}, {Name: "x-user", Value: cmpOr(a.user, "u")}},
		Server: func(arrival *hostsim.Arrival) { g.arrived(w, c, arrival) },
		Done: func(r hostsim.Reply) {
			g.ends.Lock()
			defer g.ends.Unlock()
			delete(g.open, c.id)
			if client >= 0 && g.next[client] < 0 {
				g.next[client] = -g.next[client]
			}
			if err := g.judge(w, c, r); err != nil && g.wrong == nil {
				g.wrong = err
			}
		}})
	if err != nil {
		g.wrong = err
		return
	}
	c.stream = stream
	if !g.ended && w.Strike(ClientGone) {
		w.Note("and leaves")
		c.left = true
		stream.Leave()
	}
}

func cmpOr(a, b string) string {
	if a != "" {
		return a
	}
	return b
}

// arrived is the scripted server: every request that reaches it whole runs the tool.
func (g *game) arrived(w *World, c *call, a *hostsim.Arrival) {
	var m struct {
		ID     json.RawMessage
		Params struct{ Arguments struct{ Key string } }
	}
	if err := json.Unmarshal(a.Body, &m); err != nil || m.Params.Arguments.Key != c.ask.key {
		g.wrong = fmt.Errorf("the server got another body than was sent: %q", a.Body)
		return
	}
	s := &served{name: "call " + c.id, worker: c.ask.worker, a: a, key: c.ask.key, id: string(m.ID)}
	if !g.ended && w.Strike(ResetBefore) {
		w.Note("the server breaks the connection before it runs anything")
		a.Reset()
		return
	}
	w.Touch("runs of "+s.key, true)
	g.runs[s.key]++
	s.run = g.runs[s.key]
	if s.run > 1 && !g.evicts {
		g.wrong = fmt.Errorf("key %s ran %d times", s.key, s.run)
	}
	if g.ended || !g.later && !g.mute {
		g.answer(w, s)
		return
	}
	if g.mute {
		return
	}
	if by, slow := w.StrikeBy(Slow); slow {
		w.Note("the server takes %v", by)
		s.due = w.Clock.Mono() + by
	}
	if w.Strike(Dead) {
		w.Note("the server will never answer")
		return
	}
	g.waiting = append(g.waiting, s)
}

func text(key string, run int) string { return fmt.Sprintf("key %s run %d", key, run) }

func (g *game) answer(w *World, s *served) {
	body := fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":{"content":[{"type":"text","text":"%s"}]}}`, s.id, text(s.key, s.run))
	headers := []hostsim.Header{{Name: "content-type", Value: "application/json"}}
	switch {
	case !g.ended && w.Strike(ResetAfterBody):
		w.Note("the server runs it and breaks the connection")
		s.a.Reset()
	case !g.ended && w.Strike(CutReply):
		w.Note("the server breaks off")
		s.a.Cut(200, headers, []byte(body[:len(body)/2]))
	default:
		s.a.Respond(200, headers, []byte(body))
	}
}

// judge compares what a client got with what may be.
func (g *game) judge(w *World, c *call, r hostsim.Reply) error {
	if !r.Whole {
		g.count("lost")
		return nil // a lost reply is a fault's work, and says nothing
	}
	var m struct {
		ID     json.RawMessage
		Result struct{ Content []struct{ Text string } }
		Error  struct{ Data struct{ Type string } }
	}
	parsed := json.Unmarshal(r.Body, &m) == nil
	kind := m.Error.Data.Type
	g.count(fmt.Sprint(r.Status, " ", kind, r.Header("idempotency-replayed")))
	switch {
	case r.Status == 200 && parsed && len(m.Result.Content) == 1:
		got := m.Result.Content[0].Text
		if string(m.ID) != c.id {
			return fmt.Errorf("call %s got a reply for id %s", c.id, m.ID)
		}
		if !strings.HasPrefix(got, "key "+c.ask.key+" run ") {
			return fmt.Errorf("call %s for key %s got the reply %q", c.id, c.ask.key, got)
		}
		if c.began != "" && got != c.began && !g.evicts {
			return fmt.Errorf("call %s got %q where %q had been answered", c.id, got, c.began)
		}
		w.Touch("reply of "+c.ask.key, g.replies[c.ask.key] != got)
		g.replies[c.ask.key] = got
	case kind == "idempotency_in_flight", kind == "idempotency_capacity", kind == "idempotency_unavailable":
	case kind == "idempotency_outcome_unknown":
		if c.began != "" && g.calm(w) && !g.stalls {
			return fmt.Errorf("call %s: the outcome of key %s is called unknown, but %q has been answered", c.id, c.ask.key, c.began)
		}
		if g.blameless(w) && !g.stalls {
			return fmt.Errorf("call %s: the outcome of key %s is called unknown, but nothing has gone wrong", c.id, c.ask.key)
		}
	case kind == "idempotency_response_not_replayable":
		if !g.sheds && g.calm(w) && !g.stalls {
			return fmt.Errorf("call %s: the reply of key %s is gone, but nothing may have shed it", c.id, c.ask.key)
		}
	case r.Status == 502 || r.Status == 503: // a reset, a dead VM
	default:
		return fmt.Errorf("call %s got %d %s", c.id, r.Status, r.Body)
	}
	return nil
}

func (g *game) count(what string) {
	if g.tally != nil && !g.ended {
		g.tally[what]++
	}
}

// calm says that no worker has crashed and no write was refused, so that what was answered has been kept.
func (g *game) calm(w *World) bool { return w.Struck(Crash) == 0 && w.Struck(RefuseCAS) == 0 }

// blameless says that no fault at all has struck.
func (g *game) blameless(w *World) bool {
	for k := range kindNames {
		if Kind(k) != ClockJump && Kind(k) != Slow && w.Struck(Kind(k)) > 0 {
			return false
		}
	}
	return true
}

func (g *game) check(w *World) error {
	if g.wrong != nil {
		return g.wrong
	}
	g.watch.store, g.watch.now = w.Host.Store(), w.Clock.Mono()
	return g.watch.check()
}
