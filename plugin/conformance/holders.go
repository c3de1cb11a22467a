package conformance

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"
)

// Holders that leave, stall or die while a call runs.
var holders = []Case{
	{6, "the-client-leaves-and-repeats", true, clientLeaves},
	{13, "a-worker-dies-in-mid-call", true, workerDies},
	{14, "slower-than-the-lease", true, slowerThanLease},
	{14, "a-holder-that-was-gone-comes-back", true, holderComesBack},
	{31, "panics-stay-with-their-call", true, panics},
	{31, "a-vm-that-dies", true, vmDies},
	{32, "half-of-the-repeats-leave", false, repeatsLeave},
}

// brief has a short lease, of several ticks, so that a busy machine is not taken for a
// dead one.
const brief = `{"namespace":"cases","policies":{"p":{"reply":"http","server":"s","principal":["header:x-user"],"anonymous":true,"lease":"4s"}},"default":"p"}`

// fault is the header that orders a fault of the filter's own.
const fault = "X-Callonce-Fault"

func clientLeaves(t *testing.T, f Front) {
	works := newGate()
	finished := make(chan struct{}, 8) // more than it should need: a test that fails must end
	c, u, p := serve(t, f, func(w http.ResponseWriter, s seen) {
		<-works.opened // a tool that does not notice that nobody waits
		asJSON(w, s)
		finished <- struct{}{}
	})
	t.Cleanup(works.open)
	first := c.begin(toolCall("1", "charge", `{}`), "Idempotency-Key", "k")
	u.await(t, 1)
	wantRefusal(t, c.call("2", "charge", `{}`, "k"), 409, "idempotency_in_flight")
	first.leave()
	c.callUntil(unknownOutcome, "charge", `{}`, "k", inFlightYet)
	works.open()
	<-finished
	for i := range 3 {
		wantRefusal(t, c.call(fmt.Sprint(4+i), "charge", `{}`, "k"), 409, unknownOutcome)
	}
	wantRuns(t, u, 1)
	wantCount(t, p, "callonce_settled_total", map[string]string{"how": "outcome_unknown"}, 1)
}

// unserved is what a worker whose VM is dead says: an empty 503.
func unserved(r reply) bool { return r.Err == nil && r.Status == 503 && r.Body == "" }

func workerDies(t *testing.T, f Front) {
	u := newUpstream(t, func(w http.ResponseWriter, s seen) { <-s.Gone })
	p := f.Start(t, Setup{Config: brief, Upstream: u.URL, Workers: 1, Faults: true, IdleTimeout: 20 * time.Second})
	c := newClient(t, p)
	first := c.begin(toolCall("1", "charge", `{}`), "Idempotency-Key", "k")
	defer first.leave()
	u.await(t, 1)
	c.kill("overflow")
	inFlight := 0
	r := c.callUntil(unknownOutcome, "charge", `{}`, "k", func(r reply) bool {
		if r.isRefusal() == "idempotency_in_flight" {
			inFlight++
			return true
		}
		return unserved(r) // until the VM is back
	})
	if inFlight == 0 {
		t.Error("no repeat was told that the call is in flight before the lease had passed")
	}
	if got := r.refusal(t); got.Error.Data.MayHaveRun != "unknown" {
		t.Errorf("may_have_run: expected unknown, found %s", got.Error.Data.MayHaveRun)
	}
	for i := range 3 {
		wantRefusal(t, c.call(fmt.Sprint(4+i), "charge", `{}`, "k"), 409, unknownOutcome)
	}
	wantRuns(t, u, 1)
	wantCount(t, p, "callonce_settled_total", map[string]string{"how": "orphaned", "server": "s"}, 1)
}

// kill ends the VM of the worker that serves this client, in the way of a fault.
func (c *client) kill(how string) {
	c.t.Helper()
	if r := c.call("3", "charge", `{}`, "killer-"+how, fault, how+" RequestBody"); !unserved(r) {
		c.t.Fatalf("expected an empty 503 where the VM dies of %s, found %d %v %s", how, r.Status, r.Err, r.Body)
	}
}

func slowerThanLease(t *testing.T, f Front) {
	works := newGate()
	u := newUpstream(t, func(w http.ResponseWriter, s seen) {
		if works.wait(s) {
			asJSON(w, s)
		}
	})
	c := newClient(t, f.Start(t, Setup{Config: brief, Upstream: u.URL}))
	first := c.begin(toolCall("1", "charge", `{}`), "Idempotency-Key", "k")
	u.await(t, 1)
	for begun := time.Now(); time.Since(begun) < 6*time.Second; time.Sleep(100 * time.Millisecond) {
		wantRefusal(t, c.call("2", "charge", `{}`, "k"), 409, "idempotency_in_flight")
	}
	works.open()
	wantFirst(t, first.wait(t))
	wantReplay(t, c.call("3", "charge", `{}`, "k"))
	wantRuns(t, u, 1)
}

// holderComesBack lets a worker stand still for longer than the lease, with the
// server's answer in its hands.
func holderComesBack(t *testing.T, f Front) {
	u := newUpstream(t, asJSON)
	p := f.Start(t, Setup{Config: brief, Upstream: u.URL, Faults: true})
	c := newClient(t, p)
	first := c.begin(toolCall("1", "charge", `{}`), "Idempotency-Key", "k", fault, "stall=10s ResponseHeaders")
	u.await(t, 1)
	// Repeats that come to the worker that stands still are answered when it goes on.
	unknown := func() bool {
		again := newClient(t, p).begin(toolCall("2", "charge", `{}`), "Idempotency-Key", "k")
		select {
		case r := <-again.reply:
			if kind := r.isRefusal(); kind != unknownOutcome && kind != "idempotency_in_flight" && !(c.eventual > 0 && kind == "idempotency_unavailable") {
				t.Fatalf("while the holder stands still: %d %v %s", r.Status, r.Err, r.Body)
			}
			return r.isRefusal() == unknownOutcome
		case <-time.After(500 * time.Millisecond):
			return false
		}
	}
	eventually(t, "the lease's end", unknown)
	select {
	case <-first.reply:
		t.Fatal("the holder came back before its lease had ended: this shows nothing")
	default:
	}
	r := first.wait(t)
	if r.Err != nil || r.Status != 200 {
		t.Errorf("the server's answer did not reach its caller: %d %v", r.Status, r.Err)
	}
	if c.eventual > 0 {
		// In a ledger outside of the proxy the holder settles what nobody has taken over: whoever asks then gets the answer.
		eventually(t, "the holder's settlement", func() bool {
			r := newClient(t, p).call("5", "charge", `{}`, "k")
			if kind := r.isRefusal(); kind != "" && kind != unknownOutcome && kind != "idempotency_unavailable" {
				t.Fatalf("once the holder is back: %s", r.Body)
			}
			return r.Header.Get("Idempotency-Replayed") == "true"
		})
		wantRuns(t, u, 1)
		return
	}
	for i := range 4 {
		wantRefusal(t, newClient(t, p).call(fmt.Sprint(5+i), "charge", `{}`, "k"), 409, unknownOutcome)
	}
	wantRuns(t, u, 1)
	eventually(t, "a count of the late write", func() bool {
		return p.Counter(t, "callonce_settled_total", map[string]string{"how": "fenced", "server": "s"}) == 1
	})
	if n := p.Counter(t, "callonce_settled_total", map[string]string{"how": "completed"}); n != 0 {
		t.Errorf("counted %d completed calls, expected none", n)
	}
}

// ticking is an answer that goes on until the test lets it end.
func ticking(end *gate) func(http.ResponseWriter, seen) {
	return func(w http.ResponseWriter, s seen) {
		if s.Tool != "slow" {
			asJSON(w, s)
			return
		}
		for i := 0; ; i++ {
			event(w, fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progress":%d}}`, i))
			select {
			case <-end.opened:
				event(w, result(s))
				return
			case <-s.Gone:
				return
			case <-time.After(20 * time.Millisecond):
			}
		}
	}
}

func panics(t *testing.T, f Front) {
	end := newGate()
	u := newUpstream(t, ticking(end))
	p := f.Start(t, Setup{Config: brief, Upstream: u.URL, Workers: 1, Faults: true})
	c := newClient(t, p)
	bystander := c.begin(toolCall("1", "slow", `{}`), "Idempotency-Key", "bystander")
	u.await(t, 1)
	for _, at := range []struct {
		place  string
		status int    // of the call that meets the fault
		repeat string // what its repeat is told, "" = it runs
		runs   int
	}{
		{"RequestBody", 503, "", 1},
		{"SetRequestHeader", 503, unknownOutcome, 0},
		{"ResponseHeaders", 503, unknownOutcome, 1},
		{"ResponseBody", 200, unknownOutcome, 1}, // the headers have gone out
	} {
		before := u.Runs()
		r := c.once("POST", toolCall("7", "charge", `{}`), headers{"Idempotency-Key", at.place, fault, "panic " + at.place})
		if at.status == 503 {
			if f := wantRefusal(t, r, 503, "idempotency_unavailable"); string(f.ID) != "7" && at.place != "RequestBody" {
				t.Errorf("%s: the refusal has the id %s", at.place, f.ID)
			}
		} else if r.Err != nil || r.Status != at.status {
			t.Errorf("%s: expected %d, found %d %v %s", at.place, at.status, r.Status, r.Err, r.Body)
		}
		r = c.call("8", "charge", `{}`, at.place)
		if at.repeat == "" {
			wantFirst(t, r)
		} else {
			wantRefusal(t, r, 409, at.repeat)
		}
		if n := u.Runs() - before; n != at.runs {
			t.Errorf("%s: ran %d times, expected %d", at.place, n, at.runs)
		}
	}
	// An unguarded call that meets one goes on.
	if r := c.call("9", "charge", `{}`, "", fault, "panic RequestBody"); r.Status != 200 {
		t.Errorf("an unguarded call: expected 200, found %d %s", r.Status, r.Body)
	}
	c.call("9", "charge", `{}`, "", fault, "panic tick")
	const contained = "a fault of the filter's own was contained"
	eventually(t, "the tick's fault", func() bool { return strings.Count(p.Logs(), contained) == 6 })
	wantFirst(t, c.call("10", "charge", `{}`, "after"))
	wantReplay(t, c.call("11", "charge", `{}`, "after"))
	end.open()
	r := bystander.wait(t)
	wantFirst(t, r)
	if !strings.Contains(r.Body, "run 1 of slow") {
		t.Errorf("another stream of the worker suffered: %s", r.Body)
	}
	wantReplay(t, c.call("12", "slow", `{}`, "bystander"))
}

// vmDies kills the only worker's VM: its streams suffer, new calls get 503 and then
// service, what was in flight becomes unknown, what it had buffered ends by the idle timeout.
func vmDies(t *testing.T, f Front) {
	end := newGate()
	u := newUpstream(t, ticking(end))
	p := f.Start(t, Setup{Config: brief, Upstream: u.URL, Workers: 1, Faults: true, IdleTimeout: 4 * time.Second})
	c := newClient(t, p)
	wantFirst(t, c.call("1", "charge", `{}`, "kept"))
	running := c.begin(toolCall("1", "slow", `{}`), "Idempotency-Key", "orphan")
	u.await(t, 2)
	held, finish := io.Pipe()
	defer finish.Close()
	heldReply := make(chan reply, 1)
	go func() {
		res, err := c.open(t.Context(), "POST", held, headers{"Idempotency-Key", "held"})
		if err != nil {
			heldReply <- reply{Err: err}
			return
		}
		heldReply <- readAll(res)
	}()
	_, _ = io.WriteString(finish, toolCall("1", "charge", `{}`)[:20])
	wantReplay(t, c.call("2", "charge", `{}`, "kept")) // by now the held one is there, or soon will be
	c.kill("overflow")
	if r := running.wait(t); r.Err == nil && strings.Contains(r.Body, `"result"`) {
		t.Errorf("a stream of a VM that died ended well: %s", r.Body)
	}
	servesAgain := func() {
		t.Helper()
		eventually(t, "service after the reload", func() bool {
			r := c.call("4", "charge", `{}`, "kept")
			if !unserved(r) {
				wantReplay(t, r)
			}
			return !unserved(r)
		})
	}
	servesAgain()
	c.callUntil(unknownOutcome, "slow", `{}`, "orphan", inFlightYet)
	select {
	case r := <-heldReply:
		if r.Err == nil && r.Status < 400 {
			t.Errorf("a stream that the dead VM held: expected an end by the idle timeout, found %d %s", r.Status, r.Body)
		}
	case <-time.After(longest):
		t.Error("a stream that the dead VM held never ended")
	}
	wantFirst(t, c.call("5", "charge", `{}`, "held")) // its call never ran
	c.kill("exhaust")
	servesAgain()
	wantFirst(t, c.call("6", "charge", `{}`, "killer-overflow"))
	wantRuns(t, u, 4)
}

func repeatsLeave(t *testing.T, f Front) {
	works := newGate()
	c, u, p := serve(t, f, func(w http.ResponseWriter, s seen) {
		if works.wait(s) {
			asJSON(w, s)
		}
	})
	first := c.begin(toolCall("1", "charge", `{}`), "Idempotency-Key", "k")
	u.await(t, 1)
	const repeats = 500
	var all, left sync.WaitGroup
	answers := make(chan reply, repeats)
	for i := range repeats {
		all.Add(1)
		if i%2 == 1 {
			left.Add(1)
		}
		go func() {
			defer all.Done()
			body := toolCall(fmt.Sprint(i), "charge", `{}`)
			if i%2 == 0 {
				answers <- c.post(body, "Idempotency-Key", "k")
				return
			}
			// Leaves while the filter holds it: its body is not there yet.
			r, w := io.Pipe()
			go func() {
				_, _ = io.WriteString(w, body[:len(body)/2])
				_ = w.CloseWithError(io.ErrUnexpectedEOF)
				left.Done()
			}()
			if res, err := c.open(t.Context(), "POST", r, headers{"Idempotency-Key", "k"}); err == nil {
				_ = res.Body.Close()
			}
		}()
	}
	all.Wait()
	left.Wait()
	close(answers)
	n := 0
	for r := range answers {
		wantRefusal(t, r, 409, "idempotency_in_flight")
		n++
	}
	if n != repeats/2 {
		t.Errorf("%d answers, expected %d", n, repeats/2)
	}
	works.open()
	wantFirst(t, first.wait(t))
	wantReplay(t, c.call("2", "charge", `{}`, "k"))
	wantRuns(t, u, 1)
	eventually(t, "the end of every stream", func() bool { return len(p.AccessLog(t)) == repeats+2 })
	for how, want := range map[string]int64{"": 1, "completed": 1} {
		labels := map[string]string{}
		if how != "" {
			labels["how"] = how
		}
		wantCount(t, p, "callonce_settled_total", labels, want)
	}
}
