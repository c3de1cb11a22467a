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
	p       Proxy
	u       *upstream
	works   *gate
	waiters []*underway
	since   time.Time
}

const waitersInTheAir = 6

func takeOff(t *testing.T, f Front, s Setup) *inTheAir {
	a := &inTheAir{works: newGate()}
	t.Cleanup(a.works.open)
	a.u = newUpstream(t, func(w http.ResponseWriter, s seen) {
		if s.Tool != "charge" || a.works.wait(s) {
			asJSON(w, s)
		}
	})
	s.Config, s.Upstream = troubled, a.u.URL
	a.p = f.Start(t, s)
	c := newClient(t, a.p)
	wantFirst(t, c.call("1", "quick", `{}`, "before"))
	first := c.begin(toolCall("1", "charge", `{}`), "Idempotency-Key", "k")
	a.u.await(t, 2)
	first.leave()
	a.since = time.Now()
	a.waiters = repeats(t, "charge", "k", waitersInTheAir, a.p)
	eventually(t, "repeats that wait", func() bool { return a.p.Counter(t, "callonce_waiting", nil) == waitersInTheAir })
	return a
}

// words are what those that waited got. None may have waited for longer than wait, or, where the worker that held it is gone, than the
// proxy's own patience; the rest is for machines that are slow.
func (a *inTheAir) words(t *testing.T, most time.Duration) map[string]int {
	t.Helper()
	said := map[string]int{}
	for _, x := range a.waiters {
		r := x.wait(t)
		switch {
		case r.Err != nil:
			said["cut"]++
		case r.isRefusal() != "":
			said[r.isRefusal()]++
		case r.Header.Get("Idempotency-Replayed") == "true":
			said["replay"]++
		case r.Status >= 400:
			said["the proxy's own"]++
		default:
			said["first"]++
		}
	}
	if took := time.Since(a.since); took > most+10*time.Second {
		t.Errorf("the last was answered after %v, want %v at most", took, most)
	}
	return said
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
			a := takeOff(t, f, Setup{Changes: true})
			a.p.Change(t, strings.Replace(troubled, `"wait":"12s"`, `"wait":"11s"`, 1), code)
			late := newClient(t, a.p).begin(toolCall("9", "charge", `{}`), "Idempotency-Key", "k")
			a.works.open()
			wantWords(t, a.words(t, troubledWait), "replay")
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
