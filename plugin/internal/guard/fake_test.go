package guard

import (
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/callonce/callonce/plugin/internal/ledger"
	"github.com/callonce/callonce/plugin/internal/ledger/shared"
	"github.com/callonce/callonce/plugin/internal/policy"
)

// memory is the host's shared data: cas 0 overwrites, InsertIfAbsent creates.
type memory struct {
	values map[string]cell
	cas    uint32
	broken bool                  // every call fails
	full   func(key string) bool // which writes fail, nil = none
	lent   lent
}

type cell struct {
	value []byte
	cas   uint32
}

func (m *memory) Get(key string) ([]byte, uint32, bool, error) {
	if m.broken {
		return nil, 0, false, errors.New("broken")
	}
	c, ok := m.values[key]
	return m.lent.lend(c.value), c.cas, ok, nil
}

func (m *memory) Set(key string, value []byte, cas uint32) (bool, error) {
	if m.broken || m.full != nil && m.full(key) {
		return false, errors.New("broken")
	}
	if c, ok := m.values[key]; ok && cas != 0 && cas != c.cas {
		return false, nil
	}
	m.cas++
	m.values[key] = cell{slices.Clone(value), m.cas}
	return true, nil
}

// world is one process: a table, a clock, counters, and any number of workers.
type world struct {
	t      testing.TB
	memory *memory
	now    ledger.Mono
	counts map[string]uint64
	gauges map[string]uint64
	logs   []string
	ids    uint32
	guards []*Guard
}

func newWorld(t testing.TB) *world {
	return &world{t: t, memory: &memory{values: map[string]cell{}}, counts: map[string]uint64{}, gauges: map[string]uint64{}}
}

type fakeCounter struct {
	w    *world
	name string
}

func (c fakeCounter) Add(n uint64) { c.w.counts[c.name] += n }

type fakeGauge struct {
	w    *world
	name string
}

func (g fakeGauge) Set(v uint64) { g.w.gauges[g.name] = v }

func (g fakeGauge) Add(n int64) { g.w.gauges[g.name] += uint64(n) }

func (g fakeGauge) Value() uint64 { return g.w.gauges[g.name] }

func (w *world) Gauge(name string) Gauge { return fakeGauge{w, name} }

func (w *world) Counter(name string) Counter { return fakeCounter{w, name} }

// count sums the counters whose full names contain all parts.
func (w *world) count(parts ...string) uint64 {
	for _, g := range w.guards {
		g.counts.tell()
	}
	var n uint64
	for name, v := range w.counts {
		if !slices.ContainsFunc(parts, func(p string) bool { return !strings.Contains(name, p) }) {
			n += v
		}
	}
	return n
}

// worker is one VM with a configuration.
func (w *world) worker(config string) *Guard {
	w.t.Helper()
	c, mistakes := policy.Parse([]byte(config))
	if len(mistakes) > 0 {
		w.t.Fatal(mistakes)
	}
	// Tests look at whatever field they like, unless they say which there are.
	for _, p := range c.Policies {
		if !strings.Contains(config, `"log":`) {
			p.Log = ^policy.Fields(0)
		}
	}
	log := func(text string) { w.logs = append(w.logs, text) }
	g := New(c, w, log)
	err := g.Open(ledger.Env{
		Table: w.memory, Now: func() ledger.Mono { return w.now }, Log: log,
		Random: func(b []byte) { w.ids++; binary.BigEndian.PutUint32(b, w.ids) },
	}, shared.Layout{Buckets: 4, Ways: 64, PieceBytes: 4096})
	if err != nil {
		w.t.Fatal(err)
	}
	w.guards = append(w.guards, g)
	return g
}

// fakeHost is the proxy as one stream sees it, and what was done to it. What it lends is
// overwritten once it may not be used any more (poison_test.go).
type fakeHost struct {
	lent       lent // until the callback returns
	head       lent // while the stream waits
	request    [][2]string
	body       []byte
	response   [][2]string
	chunk      []byte
	properties map[string]string
	metadata   []byte // what the property "metadata" gives, nil = none
	state      map[string]string

	status   int // of our reply, 0 = none
	headers  map[string]string
	reply    string
	replies  int
	resumed  bool
	woken    int
	size     uint64
	crowded  bool
	bodyGone bool   // the response's body cannot be changed any more
	panicsIn string // name of the method that panics once
	gone     bool   // the headers went on: they are out of reach

	edits int // of the request's headers that were asked for

	unreachable bool // Enter fails
	fixed       bool // request headers cannot be changed
}

func (h *fakeHost) in(method string) {
	if h.panicsIn == method {
		h.panicsIn = ""
		var none []int
		_ = none[len(h.body)]
	}
}

func (h *fakeHost) HasRequestHeader(name string) bool {
	h.in("HasRequestHeader")
	return slices.ContainsFunc(h.request, func(l [2]string) bool { return l[0] == name })
}

func (h *fakeHost) RequestHeaders() ([][2]string, error) {
	if h.in("RequestHeaders"); h.gone {
		return nil, errors.New("out of reach")
	}
	h.head.poison()
	return h.head.lendLines(h.request), nil
}

func (h *fakeHost) RequestBody(size int) ([]byte, error) {
	h.in("RequestBody")
	return h.lent.lend(h.body[:size]), nil
}

func (h *fakeHost) SetRequestHeader(name, value string) error {
	if h.in("SetRequestHeader"); h.fixed {
		return errors.New("cannot be changed")
	}
	h.edits++
	h.request = slices.DeleteFunc(h.request, func(l [2]string) bool { return l[0] == name })
	h.request = append(h.request, [2]string{strings.Clone(name), strings.Clone(value)})
	return nil
}

func (h *fakeHost) RemoveRequestHeader(name string) error {
	h.edits++
	h.request = slices.DeleteFunc(h.request, func(l [2]string) bool { return l[0] == name })
	return nil
}

func (h *fakeHost) ReplaceRequestBody(body []byte) error {
	h.in("ReplaceRequestBody")
	h.body = slices.Clone(body)
	return nil
}

func (h *fakeHost) RemoveResponseHeader(name string) error {
	h.response = slices.DeleteFunc(h.response, func(l [2]string) bool { return l[0] == name })
	return nil
}

func (h *fakeHost) ReplaceResponseBody(chunk []byte) error {
	h.in("ReplaceResponseBody")
	if h.bodyGone {
		return errors.New("out of reach")
	}
	h.chunk = slices.Clone(chunk)
	return nil
}

func (h *fakeHost) ResponseHeaders() ([][2]string, error) {
	h.in("ResponseHeaders")
	return h.lent.lendLines(h.response), nil
}

func (h *fakeHost) ResponseBody(size int) ([]byte, error) {
	h.in("ResponseBody")
	return h.lent.lend(h.chunk[:size]), nil
}

func (h *fakeHost) Property(path []string) ([]byte, bool) {
	v, ok := h.properties[strings.Join(path, ".")]
	if strings.Join(path, ".") == "request.path" {
		for _, l := range h.request {
			if l[0] == ":path" {
				v, ok = l[1], true
			}
		}
	}
	if !ok && len(path) == 1 {
		v, ok = h.state[path[0]]
	}
	return h.lent.lend([]byte(v)), ok
}

// Attribute gives what properties has; a value that is null there, and the whole of the metadata, come from metadata.
func (h *fakeHost) Attribute(path []string) ([]byte, Presence) {
	dotted := strings.Join(path, ".")
	if dotted == "metadata" && h.metadata != nil {
		return h.lent.lend(h.metadata), Present
	}
	v, ok := h.properties[dotted]
	switch {
	case !ok:
		return nil, Missing
	case v == unreadableProperty:
		return nil, Unreadable
	}
	return h.lent.lend([]byte(v)), Present
}

// unreadableProperty is the value of a property that the proxy cannot hand over.
const unreadableProperty = "\x00unreadable"

func (h *fakeHost) SetState(name, value string) {
	h.in("SetState")
	h.state[name] = strings.Clone(value)
}

func (h *fakeHost) Reply(status int, headers [][2]string, body []byte) error {
	h.status, h.reply, h.headers = status, string(body), map[string]string{}
	h.replies++
	for _, l := range headers {
		h.headers[strings.Clone(l[0])] = strings.Clone(l[1])
	}
	return nil
}

func (h *fakeHost) Crowded() bool     { return h.crowded }
func (h *fakeHost) Resume() error     { h.resumed = true; return nil }
func (h *fakeHost) TotalSize() uint64 { return h.size }

func (h *fakeHost) Enter() error {
	if h.unreachable {
		return errors.New("out of reach")
	}
	return nil
}

func (h *fakeHost) Wake() { h.woken++ }

func (h *fakeHost) header(name string) (values []string) {
	for _, l := range h.request {
		if l[0] == name {
			values = append(values, l[1])
		}
	}
	return values
}

// exchange drives one stream through the callbacks as a proxy that buffers headers
// does.
type exchange struct {
	*fakeHost
	t      testing.TB
	w      *world
	stream driven
	sent   bool // the request went on to the server
}

var streams uint32

// send plays a request. headers is a list of name, value, …; those of an ordinary
// MCP POST stand in front of them unless the list names them.
func (w *world) send(g *Guard, body string, headers ...string) *exchange {
	x := w.open(g, headers...)
	x.arrive(body)
	return x
}

func (w *world) open(g *Guard, headers ...string) *exchange {
	x := &exchange{t: w.t, w: w, fakeHost: &fakeHost{
		state: map[string]string{}, properties: map[string]string{"response.code_details": "via_upstream", "xds.virtual_host_name": "vh"},
	}}
	usual := map[string]string{":method": "POST", ":path": "/mcp?q=1", "content-type": "application/json", "accept": "application/json, text/event-stream", "accept-encoding": "gzip"}
	for i := 0; i < len(headers); i += 2 {
		delete(usual, headers[i])
	}
	for _, k := range slices.Sorted(maps.Keys(usual)) {
		x.request = append(x.request, [2]string{k, usual[k]})
	}
	for i := 0; i < len(headers); i += 2 {
		if headers[i+1] != "(none)" {
			x.request = append(x.request, [2]string{headers[i], headers[i+1]})
		}
	}
	streams++
	x.drive(g.NewStream(streams, x))
	return x
}

// arrive gives headers and body.
func (x *exchange) arrive(body string) {
	x.body = []byte(body)
	if x.stream.RequestHeaders(body == "") == Continue {
		x.sent, x.gone = true, true
		if body != "" && x.stream.RequestBody(len(body), true) == Pause {
			x.t.Fatal("a request that goes on was held")
		}
		return
	}
	if x.status != 0 || body == "" {
		return
	}
	if half := len(body) / 2; x.stream.RequestBody(half, false) == Continue && x.status == 0 {
		x.sent = true
		return
	}
	if x.status == 0 && x.stream.RequestBody(len(body), true) == Continue {
		x.sent = true
	}
}

// answer plays a response that arrives whole, in chunks of at most n bytes, with the
// end as a callback of its own.
func (x *exchange) answer(status int, contentType, body string, headers ...string) {
	x.t.Helper()
	if !x.sent {
		x.t.Fatalf("nothing was sent: status %d %s", x.status, x.reply)
	}
	x.begin(status, contentType, headers...)
	x.chunks(body, 7)
	x.stream.ResponseBody(0, true)
	x.stream.Done()
}

func (x *exchange) begin(status int, contentType string, headers ...string) {
	x.response = [][2]string{{":status", fmt.Sprint(status)}}
	if contentType != "" {
		x.response = append(x.response, [2]string{"content-type", contentType})
	}
	for i := 0; i < len(headers); i += 2 {
		x.response = append(x.response, [2]string{headers[i], headers[i+1]})
	}
	x.stream.ResponseHeaders(false)
}

func (x *exchange) chunks(body string, n int) {
	for len(body) > 0 {
		part := body[:min(n, len(body))]
		x.chunk, body = []byte(part), body[len(part):]
		if x.stream.ResponseBody(len(part), false) == Pause {
			x.t.Fatal("a response was held back")
		}
	}
}

// Refusals have a status of their own in the configurations of most tests, so that they show.
const (
	plain = `{"namespace":"ns","policies":{"p":{"server":"srv","anonymous":true,"reply":"http","limits":{"reply_bytes":2000}}},"default":"p"}`
	must  = `{"namespace":"ns","policies":{"p":{"server":"srv","anonymous":true,"reply":"http","tools":[{"match":"charge","guard":"required","status_tool":"get_charge"}]}},"default":"p"}`
)

func toolCall(id, args string) string {
	return `{"jsonrpc":"2.0","id":` + id + `,"method":"tools/call","params":{"name":"charge","arguments":` + args + `}}`
}

const okResult = `{"jsonrpc":"2.0","id":1,"result":{"content":[]}}`

// wantRefused checks that the request was answered with a refusal and nothing went
// on.
func (x *exchange) wantRefused(status int, kind string) {
	x.t.Helper()
	if x.sent || x.status != status || !strings.Contains(x.reply, `"type":"`+kind+`"`) || x.replies != 1 {
		x.t.Fatalf("expected one refusal %d %s, found sent %v, %d replies, status %d: %s", status, kind, x.sent, x.replies, x.status, x.reply)
	}
}

func (x *exchange) wantReplayed(body string) {
	x.t.Helper()
	if x.sent || x.headers["idempotency-replayed"] != "true" || x.reply != body {
		x.t.Fatalf("expected the replay %s, found sent %v, status %d, %v: %s", body, x.sent, x.status, x.headers, x.reply)
	}
}

func (x *exchange) wantSent() {
	x.t.Helper()
	if !x.sent || x.status != 0 {
		x.t.Fatalf("expected the request to go on, found status %d: %s", x.status, x.reply)
	}
}

func (w *world) pass(d time.Duration) { w.now += ledger.Mono(d) }
