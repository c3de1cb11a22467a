package guard

import (
	"encoding/binary"
	"testing"
	"time"
)

// What ended a stream without a whole answer is told by the proxy's flags, before its line of
// the access log is written; the end of the stream itself changes nothing any more.
func TestCausesOfLoss(t *testing.T) {
	for _, c := range []struct {
		name  string
		flags uint64
		want  string
	}{
		{"the client left", flagClientTermination, "client_gone"},
		{"the client reset its stream", flagClientReset, "client_gone"},
		{"the server's connection ended", flagTermination, "reset"},
		{"the server reset the stream", flagRemoteReset, "reset"},
		{"the server broke the protocol", flagServerProtocolError, "reset"},
		{"nothing moved", flagStreamIdleTimeout, "timeout"},
		{"the route's timeout, which resets the server's stream", flagRequestTimeout | flagLocalReset, "timeout"},
		{"it went on for too long", flagMaxDuration, "timeout"},
		{"the connection went on for too long", flagDurationTimeout, "timeout"},
		{"nothing is said", 0, "cut_short"},
	} {
		for _, begun := range []bool{false, true} {
			w := newWorld(t)
			x := w.send(w.worker(plain), toolCall("1", `{}`), "idempotency-key", "k")
			if begun {
				x.begin(200, "application/json")
				x.chunks(okResult[:20], 7)
			}
			x.properties["response.flags"] = string(binary.LittleEndian.AppendUint64(nil, c.flags))
			x.stream.Ended()
			if x.state[stateSettled] != "outcome_unknown" || x.state[stateSettledBy] != c.want {
				t.Errorf("%s, answer begun %v: expected outcome_unknown by %s, found %s by %s", c.name, begun, c.want, x.state[stateSettled], x.state[stateSettledBy])
			}
			x.stream.Done()
			if n := w.count("callonce_settled_total"); n != 1 {
				t.Errorf("%s: settled %d times", c.name, n)
			}
		}
	}
}

// A reply of the proxy's own says by its flags what it stands for.
func TestCausesOfProxyReplies(t *testing.T) {
	for _, c := range []struct {
		details string
		flags   uint64
		want    [2]string
	}{
		{"no_healthy_upstream", flagNoHealthyUpstream, [2]string{"released", "nothing_sent"}},
		{"upstream_reset_before_response_started{connection_termination}", flagTermination, [2]string{"outcome_unknown", "reset"}},
		{"response_timeout", flagRequestTimeout, [2]string{"outcome_unknown", "timeout"}},
		{"request_payload_too_large", 0, [2]string{"outcome_unknown", "proxy_reply"}},
	} {
		w := newWorld(t)
		x := w.send(w.worker(plain), toolCall("1", `{}`), "idempotency-key", "k")
		x.properties["response.code_details"] = c.details
		x.properties["response.flags"] = string(binary.LittleEndian.AppendUint64(nil, c.flags))
		x.answer(503, "text/plain", "x")
		if got := [2]string{x.state[stateSettled], x.state[stateSettledBy]}; got != c.want {
			t.Errorf("%s: expected %v, found %v", c.details, c.want, got)
		}
	}
}

// A holder that was taken for dead has not settled its call, whatever came back for it.
func TestCauseHolderLost(t *testing.T) {
	w := newWorld(t)
	g, other := w.worker(plain), w.worker(plain)
	x := w.send(g, toolCall("1", `{}`), "idempotency-key", "k")
	for range 60 {
		w.pass(time.Second)
		other.Tick(w.now)
	}
	x.answer(200, "application/json", okResult)
	if x.state[stateSettled] != "outcome_unknown" || x.state[stateSettledBy] != "holder_lost" {
		t.Errorf("expected outcome_unknown by holder_lost, found %s by %s", x.state[stateSettled], x.state[stateSettledBy])
	}
}

// An answer that turns out worse than it was judged is told as that.
func TestCauseOfTheLastSettlement(t *testing.T) {
	w := newWorld(t)
	g := w.worker(plain)
	for key, want := range map[string][2]string{"more-follows": {"not_replayable", "malformed"}, "a-fault": {"outcome_unknown", "fault"}} {
		x := w.send(g, toolCall("1", `{}`), "idempotency-key", key)
		x.begin(200, "application/json")
		x.chunks(okResult, 60)
		if x.state[stateSettled] != "completed" || x.state[stateSettledBy] != "result" {
			t.Fatalf("expected completed by result, found %v", x.state)
		}
		if key == "a-fault" {
			x.panicsIn = "ResponseBody"
		}
		x.chunks("}", 1)
		x.stream.ResponseBody(0, true)
		x.stream.Done()
		if got := [2]string{x.state[stateSettled], x.state[stateSettledBy]}; got != want {
			t.Errorf("%s: expected %v, found %v", key, want, got)
		}
	}
}

// Calls that nothing was claimed for settle nothing.
func TestNoCauseWithoutAClaim(t *testing.T) {
	w := newWorld(t)
	g := w.worker(plain)
	w.send(g, toolCall("1", `{}`), "idempotency-key", "k").answer(200, "application/json", okResult)
	unkeyed := w.send(g, toolCall("2", `{}`))
	unkeyed.answer(200, "application/json", okResult)
	for name, x := range map[string]*exchange{
		"a replay": w.send(g, toolCall("2", `{}`), "idempotency-key", "k"), "a conflict": w.send(g, toolCall("2", `{"a":1}`), "idempotency-key", "k"), "a call without a key": unkeyed,
	} {
		x.stream.Ended()
		x.stream.Done()
		if x.state[stateSettled]+x.state[stateSettledBy] != "" {
			t.Errorf("%s is said to have settled: %v", name, x.state)
		}
	}
}
