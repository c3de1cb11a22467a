package conformance

import (
	"net/http"
	"strings"
	"testing"
	"time"
)

// wait is above lease, so that whoever waits hears of a holder that was lost; idle is above wait.
const (
	troubled = `{"namespace":"cases","policies":{"p":{"reply":"http","server":"s","principal":["header:x-user"],"anonymous":true,"on_disconnect":"continue","wait":"12s","lease":"2s"}},"default":"p"}`

	troubledWait = 12 * time.Second
	troubledIdle = 20 * time.Second
)

// inTheAir is a call of the filter's own whose client has left, and repeats that wait for it.
type inTheAir struct {
	p     Proxy
	u     *upstream
	works *gate
	over  chan heard // what those that waited got, once all have it
}

type heard struct {
	said map[string]int
	took time.Duration // of the one that waited longest
}

const waitersInTheAir = 6

func takeOff(t *testing.T, f Front, s Setup) *inTheAir {
	a := &inTheAir{works: newGate(), over: make(chan heard, 1)}
	t.Cleanup(a.works.open)
	a.u = newUpstream(t, func(w http.ResponseWriter, s seen) {
		if s.Tool != "charge" || a.works.wait(s) {
			asJSON(w, s)
		}
	})
	if s.Upstream = a.u.URL; s.Config == "" {
		s.Config = troubled
	}
	a.p = f.Start(t, s)
	c := newClient(t, a.p)
	wantFirst(t, c.call("1", "quick", `{}`, "before"))
	first := c.begin(toolCall("1", "charge", `{}`), "Idempotency-Key", "k")
	a.u.await(t, 2)
	first.leave()
	since := time.Now()
	waiters := repeats(t, "charge", "k", waitersInTheAir, a.p)
	go func() {
		h := heard{said: map[string]int{}}
		for _, x := range waiters {
			h.said[wordOf(<-x.reply)]++
		}
		h.took = time.Since(since)
		a.over <- h
	}()
	eventually(t, "repeats that wait", func() bool { return a.p.Counter(t, "callonce_waiting", nil) == waitersInTheAir })
	return a
}

func wordOf(r reply) string {
	switch {
	case r.Err != nil:
		return "cut"
	case r.isRefusal() != "":
		return r.isRefusal()
	case r.Header.Get("Idempotency-Replayed") == "true":
		return "replay"
	case r.Status >= 400:
		return "the proxy's own"
	}
	return "first"
}

// words are what those that waited got. None may have waited for longer than wait, or, where the worker that held it is gone, than the
// proxy's own patience; the rest is for machines that are slow.
func (a *inTheAir) words(t *testing.T, most time.Duration) map[string]int {
	t.Helper()
	select {
	case h := <-a.over:
		if h.took > most+10*time.Second {
			t.Errorf("the last was answered after %v, want %v at most", h.took, most)
		}
		return h.said
	case <-time.After(most + longest):
		t.Fatalf("somebody still waits after %v", most+longest)
		panic("unreachable")
	}
}

func wantWords(t *testing.T, said map[string]int, only ...string) {
	t.Helper()
	n := 0
	for _, word := range only {
		n += said[word]
	}
	if n != waitersInTheAir {
		t.Errorf("those that waited got %v, want %s", said, strings.Join(only, " or "))
	}
}

// Troubles shows what becomes of calls that go on without their callers, and of repeats that wait for them, when something breaks.
func Troubles(t *testing.T, f Front) {
	for name, code := range map[string]bool{"configuration changed": false, "code changed": true} {
		t.Run(name, func(t *testing.T) {
			// Other code takes a proxy a while to load.
			patient := strings.Replace(troubled, `"wait":"12s"`, `"wait":"2m"`, 1)
			a := takeOff(t, f, Setup{Config: patient, Changes: true, Drain: 3 * time.Minute})
			a.p.Change(t, strings.Replace(patient, `"wait":"2m"`, `"wait":"110s"`, 1), code)
			late := newClient(t, a.p).begin(toolCall("9", "charge", `{}`), "Idempotency-Key", "k")
			a.works.open()
			wantWords(t, a.words(t, 2*time.Minute), "replay")
			wantReplay(t, late.wait(t))
			wantReplay(t, newClient(t, a.p).call("9", "charge", `{}`, "k"))
			wantRuns(t, a.u, 2)
		})
	}
	t.Run("configuration drained away", func(t *testing.T) {
		a := takeOff(t, f, Setup{Changes: true, Drain: time.Second})
		a.p.Change(t, strings.Replace(troubled, `"wait":"12s"`, `"wait":"11s"`, 1), false)
		// Cut with the configuration that holds them, or told before.
		wantWords(t, a.words(t, troubledWait), "cut", unknownOutcome, "the proxy's own")
		wantRefusal(t, newClient(t, a.p).call("9", "charge", `{}`, "k"), 409, unknownOutcome)
		a.works.open()
		wantRefusal(t, newClient(t, a.p).call("9", "charge", `{}`, "k"), 409, unknownOutcome)
		wantReplay(t, newClient(t, a.p).call("9", "quick", `{}`, "before"))
		wantRuns(t, a.u, 2)
	})
	t.Run("worker dies", func(t *testing.T) {
		a := takeOff(t, f, Setup{Workers: 1, Faults: true, IdleTimeout: troubledIdle})
		newClient(t, a.p).kill("overflow")
		c := newClient(t, a.p)
		eventually(t, "service after the reload", func() bool { return !unserved(c.call("4", "quick", `{}`, "before")) })
		// One that comes now waits for the holder, which is lost.
		wantRefusal(t, c.call("9", "charge", `{}`, "k"), 409, unknownOutcome)
		a.works.open()
		wantRefusal(t, c.call("9", "charge", `{}`, "k"), 409, unknownOutcome)
		wantWords(t, a.words(t, troubledIdle), "cut", "the proxy's own")
		wantRuns(t, a.u, 2)
		wantCount(t, a.p, "callonce_settled_total", map[string]string{"how": "orphaned", "server": "s"}, 1)
	})
	t.Run("server restarts", func(t *testing.T) {
		a := takeOff(t, f, Setup{Workers: 2})
		a.u.CloseClientConnections()
		wantWords(t, a.words(t, troubledWait), unknownOutcome)
		wantRefusal(t, newClient(t, a.p).call("9", "charge", `{}`, "k"), 409, unknownOutcome)
		a.works.open()
		wantFirst(t, newClient(t, a.p).call("9", "charge", `{}`, "another"))
		wantRuns(t, a.u, 3)
		eventually(t, "nothing left over", func() bool {
			return a.p.Counter(t, "callonce_waiting", nil)+a.p.Counter(t, "callonce_detached", nil) == 0
		})
	})
	t.Run("server silent beyond wait", func(t *testing.T) {
		a := takeOff(t, f, Setup{Workers: 2})
		wantWords(t, a.words(t, troubledWait), "idempotency_in_flight")
		a.works.open()
		wantReplay(t, newClient(t, a.p).call("9", "charge", `{}`, "k"))
		wantRuns(t, a.u, 2)
	})
}
