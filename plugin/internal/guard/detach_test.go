package guard

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

const lasting = `{"namespace":"ns","policies":{"p":{"server":"srv","anonymous":true,"reply":"http","strip":true,"released_statuses":[503],"on_disconnect":"continue","wait":"5s",
	"tools":[{"match":"stop","cancel":"stop"},{"match":"*"}],"limits":{"detached":3,"detached_per_scope":2}}},"default":"p"}`

// fakeCalls are the calls that a guard makes.
type fakeCalls struct {
	made []made
	fail bool
}

type made struct {
	cluster string
	headers [][2]string
	body    string
	timeout time.Duration
}

func (c *fakeCalls) Call(cluster string, headers [][2]string, body []byte, timeout time.Duration) (uint32, error) {
	if c.fail {
		return 0, errors.New("no such cluster")
	}
	var lines [][2]string
	for _, l := range headers {
		lines = append(lines, [2]string{strings.Clone(l[0]), strings.Clone(l[1])})
	}
	c.made = append(c.made, made{strings.Clone(cluster), lines, string(body), timeout})
	return uint32(len(c.made)), nil
}

func (w *world) calling(config string) (*Guard, *fakeCalls) {
	g, calls := w.worker(config), &fakeCalls{}
	g.Calls = calls
	return g, calls
}

// ask sends a call to the cluster of its route.
func (w *world) ask(g *Guard, body string, headers ...string) *exchange {
	x := w.open(g, headers...)
	x.properties["xds.cluster_name"] = "up"
	x.arrive(body)
	return x
}

// serverSays is an answer of the server's, in memory that is the host's again afterwards.
func (w *world) serverSays(g *Guard, id uint32, status int, contentType, body string) {
	var l lent
	g.HTTPEnded(id, l.lendLines([][2]string{{":status", fmt.Sprint(status)}, {"content-type", contentType}, {"connection", "close"},
		{"x-envoy-upstream-service-time", "3"}, {"set-cookie", "a=1"}, {"set-cookie", "b=2"}}), l.lend([]byte(body)))
	l.poison()
}

// The call goes to the route's cluster as it came, but for what is of one connection and what the mesh could repeat it by; its
// answer settles the key and goes to the caller.
func TestDetached(t *testing.T) {
	w := newWorld(t)
	g, calls := w.calling(lasting)
	body := toolCall("1", `{"n":1}`)
	x := w.ask(g, body, "idempotency-key", "k", "connection", "keep-alive, X-Mine", "x-mine", "1", "te", "trailers", "content-length", fmt.Sprint(len(body)),
		"x-request-id", "r", "traceparent", "t", "x-envoy-retry-on", "5xx", "x-envoy-upstream-stream-duration-ms", "1000", "x-envoy-upstream-rq-timeout-alt-response", "1", "authorization", "Bearer b", ":authority", "a.example")
	x.wantHeld()
	if len(calls.made) != 1 {
		t.Fatalf("made %v", calls.made)
	}
	c := calls.made[0]
	got := map[string]string{}
	for _, l := range c.headers {
		got[l[0]] = l[1]
	}
	want := map[string]string{":method": "POST", ":path": "/mcp?q=1", ":authority": "a.example", "content-type": "application/json",
		"accept": "application/json, text/event-stream", "x-request-id": "r", "traceparent": "t", "authorization": "Bearer b", "x-envoy-max-retries": "0"}
	if fmt.Sprint(got) != fmt.Sprint(want) || c.cluster != "up" || c.body != body || c.timeout != 10*time.Minute {
		t.Errorf("got  %v\nwant %v\n%s, %s, %v", got, want, c.cluster, c.body, c.timeout)
	}
	if w.gauges["namespace=.=ns;.;server=.=srv;.;callonce_detached"] != 1 || x.state[stateOutcome] != outFirst {
		t.Errorf("%v, %v", w.gauges, x.state)
	}
	w.serverSays(g, 1, 200, "application/json", okResult)
	if x.status != 200 || x.reply != okResult || x.replies != 1 || x.headers["connection"] != "" || x.headers["set-cookie"] != "b=2" || x.headers["idempotency-replayed"] != "" {
		t.Errorf("got %d %v %s", x.status, x.headers, x.reply)
	}
	if x.state[stateSettled] != "completed" || x.state[stateSettledBy] != byResult {
		t.Errorf("published %v", x.state)
	}
	x.stream.Done()
	w.ask(g, toolCall("2", `{"n":1}`), "idempotency-key", "k", "authorization", "Bearer b").wantReplayed(`{"jsonrpc":"2.0","id":2,"result":{"content":[]}}`)
	w.serverSays(g, 1, 500, "text/plain", "again") // finds nobody
	wantNoCalls(t, w, g)
}

// wantNoCalls checks that nothing is left over of the filter's own calls.
func wantNoCalls(t *testing.T, w *world, g *Guard) {
	t.Helper()
	d := &g.detached
	if n := len(d.byID) + len(d.policy) + len(d.scope); n != 0 || w.gauges["namespace=.=ns;.;server=.=srv;.;callonce_detached"] != 0 {
		t.Errorf("left over: %+v, %v", d, w.gauges)
	}
}

// A caller that leaves, whatever memory its stream's is used for next, leaves the call alone: it stays in flight over ticks, its answer
// settles the key, and a repeat that waits gets it.
func TestDetachedOutlivesItsCaller(t *testing.T) {
	for name, answer := range map[string][2]string{"JSON": {"application/json", okResult}, "events": {"text/event-stream", "data: " + okResult + "\n\n"}} {
		w := newWorld(t)
		g, _ := w.calling(lasting)
		first := w.ask(g, toolCall("1", `{}`), "idempotency-key", "k")
		first.stream.Done()
		first.stream.Reuse(77)
		for range 40 { // longer than the lease
			w.pass(time.Second)
			g.Tick(w.now)
		}
		again := w.ask(g, toolCall("2", `{}`), "idempotency-key", "k")
		again.wantHeld()
		w.serverSays(g, 1, 200, answer[0], answer[1])
		again.wantReplayed(`{"jsonrpc":"2.0","id":2,"result":{"content":[]}}`)
		again.stream.Done()
		if first.replies != 0 || w.count("callonce_detached_total", "how=.=left") != 1 || w.count("callonce_settled_total", "completed") != 1 {
			t.Errorf("%s: %d replies, %v", name, first.replies, w.counts)
		}
		wantNoCalls(t, w, g)
		wantIdle(t, w, g)
	}
}

// What comes instead of the server's answer settles nothing but an unknown outcome: none at all, the proxy's own, whatever its status, and
// none within the time; the caller is told.
func TestDetachedWithoutAnAnswer(t *testing.T) {
	for name, tt := range map[string]struct {
		end    func(w *world, g *Guard)
		status int
		cause  string
	}{
		"none":                    {func(w *world, g *Guard) { g.HTTPEnded(1, nil, nil) }, 409, byReset},
		"the proxy's 503":         {func(w *world, g *Guard) { g.HTTPEnded(1, [][2]string{{":status", "503"}}, []byte("reset")) }, 503, byProxyReply},
		"the proxy's 404":         {func(w *world, g *Guard) { g.HTTPEnded(1, [][2]string{{":status", "404"}}, nil) }, 404, byProxyReply},
		"lost by the proxy":       {func(w *world, g *Guard) { w.pass(11 * time.Minute); g.Tick(w.now) }, 409, byTimeout},
		"the server's, cut short": {func(w *world, g *Guard) { w.serverSays(g, 1, 200, "application/json", okResult[:20]) }, 200, byMalformed},
	} {
		w := newWorld(t)
		g, _ := w.calling(lasting)
		x := w.ask(g, toolCall("1", `{}`), "idempotency-key", "k")
		tt.end(w, g)
		if x.status != tt.status || x.state[stateSettled] != "outcome_unknown" || x.state[stateSettledBy] != tt.cause {
			t.Errorf("%s: status %d, %v: %s", name, x.status, x.state, x.reply)
		}
		if lost := tt.status == 409; lost != (x.state[stateRefusal] == "idempotency_outcome_unknown") || lost != strings.Contains(x.reply, "no answer came") ||
			lost != (w.count("callonce_refusals_total") == 1) {
			t.Errorf("%s: told %s, %v, %d refusals", name, x.reply, x.state, w.count("callonce_refusals_total"))
		}
		x.stream.Done()
		w.ask(g, toolCall("1", `{}`), "idempotency-key", "k").wantRefused(409, "idempotency_outcome_unknown")
		wantNoCalls(t, w, g)
	}
	// The server's own status does what it does with any call.
	w := newWorld(t)
	g, calls := w.calling(lasting)
	w.ask(g, toolCall("1", `{}`), "idempotency-key", "k")
	w.serverSays(g, 1, 503, "text/plain", "busy")
	w.ask(g, toolCall("1", `{}`), "idempotency-key", "k").wantHeld()
	if len(calls.made) != 2 {
		t.Errorf("%d calls", len(calls.made))
	}
}

// More than are allowed are refused before they are sent, and so is a call that the proxy does not take; their keys are free.
func TestDetachedRefused(t *testing.T) {
	w := newWorld(t)
	g, calls := w.calling(lasting)
	send := func(key, who string) *exchange {
		return w.ask(g, toolCall("1", `{}`), "idempotency-key", key, "authorization", who)
	}
	for _, x := range []*exchange{send("a", "1"), send("b", "1"), send("c", "2")} {
		x.wantHeld()
	}
	send("d", "1").wantRefused(429, "idempotency_capacity")
	send("e", "3").wantRefused(429, "idempotency_capacity")
	if len(calls.made) != 3 {
		t.Fatalf("%d calls", len(calls.made))
	}
	for id := range uint32(3) {
		w.serverSays(g, id+1, 200, "application/json", okResult)
	}
	calls.fail = true
	send("d", "1").wantRefused(503, "idempotency_unavailable")
	calls.fail = false
	send("d", "1").wantHeld()
	if len(calls.made) != 4 {
		t.Errorf("%d calls: the key of one that was not sent is not free", len(calls.made))
	}
	if n := w.count("callonce_settled_total"); n != 3 {
		t.Errorf("settled %d times", n)
	}
	if !slices.ContainsFunc(w.logs, func(s string) bool { return strings.Contains(s, "knows no cluster") }) {
		t.Errorf("logs: %q", w.logs)
	}
}

// Where the headers went ahead the call goes with its caller, and the log says so; a policy that observes detaches nothing.
func TestCannotDetach(t *testing.T) {
	w := newWorld(t)
	g, calls := w.calling(lasting)
	g.buffering = notBuffered
	x := w.open(g, "idempotency-key", "k")
	x.body = []byte(toolCall("1", `{}`))
	x.stream.RequestHeaders(false)
	if x.stream.RequestBody(len(x.body), true) != Continue || len(calls.made) != 0 || len(w.logs) != 1 || !strings.Contains(w.logs[0], "will not outlive") {
		t.Errorf("%v, %q", calls.made, w.logs)
	}
	g, calls = w.calling(strings.Replace(lasting, `"strip"`, `"mode":"observe","strip"`, 1))
	if w.ask(g, toolCall("1", `{}`), "idempotency-key", "other").wantSent(); len(calls.made) != 0 {
		t.Errorf("%v", calls.made)
	}
}

// A cancellation ends the wait for an answer where the tool says so, and nowhere else; what the server still answers then finds nobody.
func TestCancelStops(t *testing.T) {
	w := newWorld(t)
	g, _ := w.calling(lasting)
	call := func(id, tool string) *exchange {
		return w.ask(g, strings.Replace(toolCall(id, `{}`), "charge", tool, 1), "idempotency-key", tool)
	}
	stop, other := call("1", "stop"), call("2", "other")
	for _, id := range []string{"1", "2"} {
		w.send(g, `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":`+id+`}}`, "idempotency-key", "x").stream.Done()
	}
	g.Tick(w.now)
	if stop.status != 409 || stop.state[stateSettledBy] != byCancelled || !strings.Contains(stop.reply, "idempotency_outcome_unknown") {
		t.Errorf("status %d, %v: %s", stop.status, stop.state, stop.reply)
	}
	other.wantHeld()
	w.serverSays(g, 1, 200, "application/json", okResult)
	w.serverSays(g, 2, 200, "application/json", strings.Replace(okResult, `"id":1`, `"id":2`, 1))
	if stop.replies != 1 || other.state[stateSettled] != "completed" {
		t.Errorf("%d replies, %v", stop.replies, other.state)
	}
	wantNoCalls(t, w, g)
}

// A caller whose stream the proxy has ended by itself is not answered again.
func TestDetachedCallerOutOfReach(t *testing.T) {
	w := newWorld(t)
	g, _ := w.calling(lasting)
	x := w.ask(g, toolCall("1", `{}`), "idempotency-key", "k")
	x.unreachable = true
	w.serverSays(g, 1, 200, "application/json", okResult)
	if x.replies != 0 {
		t.Error("it was answered")
	}
	x.stream.Done()
	y := w.ask(g, toolCall("1", `{}`), "idempotency-key", "k2")
	y.begin(408, "text/plain") // the proxy's own timeout
	w.serverSays(g, 2, 200, "application/json", okResult)
	if y.replies != 0 {
		t.Error("it was answered twice")
	}
	y.stream.Done()
	if n := w.count("callonce_settled_total", "completed"); n != 2 {
		t.Errorf("completed %d times", n)
	}
	wantNoCalls(t, w, g)
}

// faultyCalls are calls after each of which the caller's stream meets a fault.
type faultyCalls struct {
	*fakeCalls
	then func()
}

func (c faultyCalls) Call(cluster string, headers [][2]string, body []byte, timeout time.Duration) (uint32, error) {
	defer c.then()
	return c.fakeCalls.Call(cluster, headers, body, timeout)
}

// After a fault of our own in its caller's stream a call that has been made goes on alone: its answer is not for the stream whose memory is
// that caller's next.
func TestDetachedAfterAFault(t *testing.T) {
	w := newWorld(t)
	g, calls := w.calling(lasting)
	x := w.open(g, "idempotency-key", "k")
	x.properties["xds.cluster_name"] = "up"
	g.Calls = faultyCalls{calls, func() { x.panicsIn = "SetState" }}
	x.arrive(toolCall("1", `{}`))
	x.wantRefused(503, "idempotency_unavailable")
	if len(calls.made) != 1 || x.panicsIn != "" {
		t.Fatalf("%d calls, %q", len(calls.made), x.panicsIn)
	}
	x.stream.Done()
	x.stream.Reuse(88) // another's
	g.Calls = calls
	w.ask(g, toolCall("1", `{}`), "idempotency-key", "k").wantHeld() // in flight
	w.serverSays(g, 1, 200, "application/json", okResult)
	if x.replies != 1 || x.state[stateSettled] != "" {
		t.Errorf("another's stream: %d replies, %v: %s", x.replies-1, x.state, x.reply)
	}
	w.ask(g, toolCall("2", `{}`), "idempotency-key", "k").wantReplayed(`{"jsonrpc":"2.0","id":2,"result":{"content":[]}}`)
	wantNoCalls(t, w, g)
}

// What counts over the proxy counts over its policies: repeats that are held and calls of the filter's own too.
func TestLimitsOfTheProxyInAWorker(t *testing.T) {
	for scope, more := range map[string]bool{"policy": true, "proxy": false} {
		w := newWorld(t)
		p := strings.ReplaceAll(`{"server":"NAME","anonymous":true,"reply":"http","strip":true,"limits_scope":"SCOPE","on_disconnect":"continue","wait":"5s","limits":{"waiting":1,"detached":1}}`, "SCOPE", scope)
		g, calls := w.calling(`{"namespace":"ns","policies":{"a":` + strings.Replace(p, "NAME", "a", 1) + `,"b":` + strings.Replace(p, "NAME", "b", 1) + `},"routes":{"b":"b"},"default":"a"}`)
		send := func(route string) *exchange {
			x := w.open(g, "idempotency-key", "k")
			x.properties["xds.cluster_name"], x.properties["xds.route_name"] = "up", route
			x.arrive(toolCall("1", `{}`))
			return x
		}
		send("a").wantHeld()
		if x := send("b"); more {
			x.wantHeld()
		} else {
			x.wantRefused(429, "idempotency_capacity")
			w.serverSays(g, 1, 200, "application/json", okResult)
			send("b").wantHeld()
			send("b").wantHeld() // waits
			continue
		}
		send("a").wantHeld()
		send("b").wantHeld()
		send("a").wantRefused(409, "idempotency_in_flight")
		if len(calls.made) != 2 {
			t.Errorf("%s: %d calls", scope, len(calls.made))
		}
	}
	// A repeat under one policy takes the place of one under another.
	w := newWorld(t)
	p := `{"server":"NAME","anonymous":true,"reply":"http","limits_scope":"proxy","on_in_flight":"wait","wait":"5s","limits":{"waiting":1}}`
	g := w.worker(`{"namespace":"ns","policies":{"a":` + strings.Replace(p, "NAME", "a", 1) + `,"b":` + strings.Replace(p, "NAME", "b", 1) + `},"routes":{"b":"b"},"default":"a"}`)
	send := func(route string) *exchange {
		x := w.open(g, "idempotency-key", "k")
		x.properties["xds.route_name"] = route
		x.arrive(toolCall("1", `{}`))
		return x
	}
	a := send("a")
	a.wantSent()
	send("b").wantSent()
	held := send("a")
	held.wantHeld()
	send("b").wantRefused(409, "idempotency_in_flight")
	a.answer(200, "application/json", okResult)
	g.Look()
	held.wantReplayed(okResult)
	send("b").wantHeld()
}
