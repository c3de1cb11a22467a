package hostsim

import (
	"strings"
	"sync"
	"testing"
	"time"
)

// barrier holds calls of one function until n of them have come.
type barrier struct {
	mu   sync.Mutex
	n    int
	open chan struct{}
}

func newBarrier(n int) *barrier { return &barrier{n: n, open: make(chan struct{})} }

func (b *barrier) arrive() {
	b.mu.Lock()
	if b.n--; b.n == 0 {
		close(b.open)
	}
	b.mu.Unlock()
	select {
	case <-b.open:
	case <-time.After(patience):
	}
}

// claims runs two requests on two workers, each held between its get and its set, and counts the sets that say OK.
func claims(t *testing.T, plan string) int {
	b := newBarrier(2)
	r := newRig(t, func(c *Config, o *ProxyOptions) {
		c.Workers = 2
		c.Hooks.Before = func(call *Call) Verdict {
			if call.Function == "proxy_set_shared_data" && string(call.Key) == "claim" {
				b.arrive()
			}
			return Proceed()
		}
	})
	var wg sync.WaitGroup
	for _, name := range []string{"A", "B"} {
		wg.Go(func() { r.do("POST", "/ok", name, plan, "x") })
	}
	wg.Wait()
	owners := 0
	for _, name := range []string{"A", "B"} {
		for _, l := range r.end(name) {
			if strings.HasPrefix(l, "rh sharedset") && strings.HasSuffix(l, "<nil>") {
				owners++
			}
		}
	}
	return owners
}

// Case 28: what the barrier is for.
func TestBarrierShowsTheDoubleClaim(t *testing.T) {
	if got := claims(t, "rh sharedget claim; rh sharedset claim me 0"); got != 2 {
		t.Errorf("get, then set with cas 0: got %d owners, want the 2 that a race gives", got)
	}
	if got := claims(t, "rh sharedget claim; rh sharedset claim me max"); got != 1 {
		t.Errorf("insert only: got %d owners, want 1", got)
	}
}

func TestHookChangesAndRefusesCalls(t *testing.T) {
	refuse := func(call *Call) Verdict {
		switch {
		case call.Function != "proxy_set_shared_data":
		case string(call.Key) == "refused":
			return Fail(StatusCasMismatch)
		case string(call.Key) == "changed":
			call.Key, call.Value, call.CAS = []byte("other"), []byte("by the hook"), 0
		}
		return Proceed()
	}
	var mu sync.Mutex
	results := map[string]int{}
	r := newRig(t, func(c *Config, _ *ProxyOptions) {
		c.Hooks.Before = refuse
		c.Hooks.After = func(call *Call, s Status) {
			mu.Lock()
			results[call.Function+" "+s.String()]++
			mu.Unlock()
		}
	})
	r.do("POST", "/ok", "A", "rh sharedset refused v 0; rh sharedset changed v max", "x")
	lines := strings.Join(r.end("A"), "\n")
	if !strings.Contains(lines, "sharedset refused v 0 -> \"\" error status returned by host: cas mismatch") {
		t.Errorf("the refusal did not reach the module:\n%s", lines)
	}
	s := r.host.Store()
	if v, _, _ := s.Get("vmid", "other"); string(v) != "by the hook" {
		t.Errorf("changed call: got %q", v)
	}
	for _, key := range []string{"refused", "changed"} {
		if _, _, ok := s.Get("vmid", key); ok {
			t.Errorf("%s was set all the same", key)
		}
	}
	mu.Lock()
	defer mu.Unlock()
	if results["proxy_set_shared_data cas mismatch"] != 1 || results["proxy_set_shared_data ok"] != 1 {
		t.Errorf("After saw %v", results)
	}
}

// A hook may end the VM at a call: nothing after it happens, and what came before stays.
func TestHookCrashesAtACall(t *testing.T) {
	clock := NewManualClock(time.Unix(1e9, 0))
	r := newRig(t, func(c *Config, _ *ProxyOptions) {
		c.Clock, c.FailReload = clock, true
		c.Hooks.Before = func(call *Call) Verdict {
			if string(call.Key) == "second" {
				return Crash()
			}
			return Proceed()
		}
	})
	if a := r.do("POST", "/ok", "A", "rh sharedset first v 0; rh sharedset second v 0; rh sharedset third v 0", "x"); a.status != 503 || a.body != "" {
		t.Errorf("crashed: got %d %q, want an empty 503", a.status, a.body)
	}
	if got := strings.Join(r.host.Store().Keys("vmid"), " "); got != "first" {
		t.Errorf("keys: got %q, want only the first", got)
	}
	if a := r.do("POST", "/ok", "B", "", "x"); a.status != 503 {
		t.Errorf("before the backoff: got %d, want 503", a.status)
	}
	clock.Advance(time.Second)
	if a := r.do("POST", "/ok", "C", "rh sharedget first", "x"); a.status != 200 {
		t.Errorf("after the backoff: got %d, want 200", a.status)
	}
	if got := r.end("C"); !hasPrefix(got, `rh sharedget first -> "v"`) {
		t.Errorf("shared data did not survive the VM: %q", got)
	}
}

func TestEventHookNamesEveryStep(t *testing.T) {
	var mu sync.Mutex
	seen := map[string]bool{}
	r := newRig(t, func(c *Config, _ *ProxyOptions) {
		c.Hooks.Event = func(worker int, name string) {
			mu.Lock()
			seen[name] = true
			mu.Unlock()
		}
	})
	c := dial(t, r.address)
	c.send("POST /chunks HTTP/1.1\r\nhost: h\r\nx-name: A\r\nx-do: rh enqueue A\r\ncontent-length: 1\r\n\r\n")
	r.book.wait(t, "A rh", func(l []string) bool { return len(l) > 0 })
	c.send("x")
	c.answer("POST")
	r.end("A")
	r.host.Tick()
	mu.Lock()
	defer mu.Unlock()
	for _, name := range []string{"start", "request headers", "request body", "queue", "response headers", "response body", "tick"} {
		if !seen[name] {
			t.Errorf("no step %q among %v", name, seen)
		}
	}
}

// What a hook hands over is what the module gets, and only where the function hands something over.
func TestHandsOtherBytes(t *testing.T) {
	r := newRig(t, func(c *Config, _ *ProxyOptions) {
		c.Hooks.Hands = func(call *Call, b []byte) []byte {
			if call.Function == "proxy_get_shared_data" && string(b) == "v" {
				return []byte("another value")
			}
			return b
		}
	})
	r.do("POST", "/ok", "A", "rh sharedset first v 0", "x")
	r.end("A")
	r.do("POST", "/ok", "B", "rh sharedget first", "x")
	if got := r.end("B"); !hasPrefix(got, `rh sharedget first -> "another value"`) {
		t.Errorf("got %q", got)
	}
	if v, _, _ := r.host.Store().Get("vmid", "first"); string(v) != "v" {
		t.Errorf("the value itself was changed: %q", v)
	}
}
