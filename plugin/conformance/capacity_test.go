package conformance

import (
	"net/http"
	"strconv"
	"testing"
	"time"
)

// A ledger that is full of unknown outcomes says when it has room, on whatever worker it
// is asked, and keeps its word.
func TestRetryAfterOfCapacity(t *testing.T) {
	const config = `{"namespace":"cases","policies":{"p":{"reply":"http","server":"s","anonymous":true,"limits":{"tombstones_per_scope":1}}},"default":"p"}`
	c, u, _, clock := timed(t, simulator{}, config, func(w http.ResponseWriter, s seen) {
		if s.Run == 1 {
			w.WriteHeader(http.StatusBadGateway)
			return
		}
		asJSON(w, s)
	})
	call := func(worker int, key string) reply {
		return c.call("1", "charge", `{}`, key, on(worker)...)
	}
	if r := call(0, "k"); r.Status != http.StatusBadGateway {
		t.Fatalf("the first: %d", r.Status)
	}
	said := 0
	for _, after := range []time.Duration{0, 20 * time.Second, 278 * time.Second} {
		clock.Advance(after)
		said = 0
		for worker := range 2 {
			r := call(worker, "another")
			wantRefusal(t, r, 429, "idempotency_capacity")
			n, err := strconv.Atoi(r.Header.Get("Retry-After"))
			if err != nil {
				t.Fatal(err)
			}
			said = max(said, n)
		}
		t.Logf("%v later: come again in %d s", after, said)
		if after == 0 && (said < 300 || said > 310) || after == 278*time.Second && (said < 2 || said > 12) {
			t.Errorf("%v later: come again in %d s", after, said)
		}
	}
	for range said {
		clock.Advance(time.Second)
	}
	wantFirst(t, call(1, "another"))
	wantRuns(t, u, 2)
}
