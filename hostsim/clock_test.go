package hostsim

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestManualClockFiresInOrder(t *testing.T) {
	c := NewManualClock(time.Unix(100, 0))
	var fired []string
	note := func(name string) func() {
		return func() { fired = append(fired, fmt.Sprintf("%s@%d", name, c.Now().Unix())) }
	}
	c.AfterFunc(3*time.Second, note("c"))
	c.AfterFunc(time.Second, func() { note("a")(); c.AfterFunc(time.Second, note("b")) })
	c.AfterFunc(10*time.Second, note("late"))
	c.AfterFunc(2*time.Second, note("stopped"))()
	c.Advance(5 * time.Second)
	if got := strings.Join(fired, " "); got != "a@101 b@102 c@103" {
		t.Errorf("fired: got %q", got)
	}
	before := c.Mono()
	c.Step(-time.Hour)
	if c.Mono() != before || c.Now().Unix() != 105-3600 {
		t.Errorf("after a step back of the wall: mono moved by %v, wall is %d", c.Mono()-before, c.Now().Unix())
	}
}

// The module's clocks are the host's: they stand still until moved.
func TestModuleGoesByTheHostsClock(t *testing.T) {
	clock := NewManualClock(time.Unix(1234, 5))
	r := newRig(t, func(c *Config, _ *ProxyOptions) { c.Clock = clock })
	ask := func(name string) (wall, since string) {
		r.do("POST", "/ok", name, "rh time; rh since", "x")
		for _, l := range r.end(name) {
			if rest, ok := strings.CutPrefix(l, "rh time  -> "); ok {
				wall = rest
			}
			if rest, ok := strings.CutPrefix(l, "rh since  -> "); ok {
				since = rest
			}
		}
		return wall, since
	}
	if wall, since := ask("A"); wall != "1234000000005" || since != "0" {
		t.Errorf("at first: wall %s, since the start %s ms", wall, since)
	}
	clock.Step(time.Hour)
	clock.Advance(1500 * time.Millisecond)
	if wall, since := ask("B"); wall != "4835500000005" || since != "1500" {
		t.Errorf("after a step of an hour and 1.5 s: wall %s, since the start %s ms, want 4835500000005 and 1500", wall, since)
	}
}

// Every VM that lives ticks, the one on the main thread too, at its own period.
func TestTicks(t *testing.T) {
	clock := NewManualClock(time.Unix(0, 0))
	r := newRig(t, func(c *Config, _ *ProxyOptions) {
		c.Clock, c.Workers = clock, 2
		c.PluginConfig = []byte("start every 100\ntick counter ticks 1\n")
	})
	ticks := func() int64 { return r.host.Metrics()["ticks"] }
	clock.Advance(99 * time.Millisecond)
	if got := ticks(); got != 0 {
		t.Errorf("before the period: %d ticks", got)
	}
	clock.Advance(951 * time.Millisecond)
	if got := ticks(); got != 3*10 {
		t.Errorf("after 1050 ms at 100 ms in 3 VMs: got %d ticks, want 30", got)
	}
	r.host.Tick()
	if got := ticks(); got != 33 {
		t.Errorf("after Tick: got %d, want 33", got)
	}
}

// A new period counts from the next tick on, and 0 ends the ticks.
func TestTickPeriodChanges(t *testing.T) {
	clock := NewManualClock(time.Unix(0, 0))
	r := newRig(t, func(c *Config, _ *ProxyOptions) {
		c.Clock = clock
		c.PluginConfig = []byte("start every 100\ntick counter ticks 1\n")
	})
	r.do("POST", "/ok", "A", "rh every 1000", "x") // in the worker alone
	clock.Advance(100 * time.Millisecond)
	if got := r.host.Metrics()["ticks"]; got != 2 {
		t.Fatalf("first tick of both: got %d", got)
	}
	clock.Advance(900 * time.Millisecond)
	if got := r.host.Metrics()["ticks"]; got != 11 {
		t.Errorf("the main thread goes on, the worker has slowed: got %d, want 11", got)
	}
	r.do("POST", "/ok", "B", "rh every 0", "x")
	clock.Advance(5 * time.Second)
	if got := r.host.Metrics()["ticks"]; got != 61 {
		t.Errorf("the worker has stopped: got %d, want 61", got)
	}
	r.host.Tick()
	if got := r.host.Metrics()["ticks"]; got != 63 {
		t.Errorf("Tick reaches it all the same: got %d, want 63", got)
	}
}

// A queue belongs to whoever registered it last, and a message runs there, in the plugin context.
func TestQueueBelongsToTheLastRegistration(t *testing.T) {
	r := newRig(t, func(c *Config, o *ProxyOptions) {
		c.Workers = 2
		c.PluginConfig = nil
		o.Pick = pickByHeader
	})
	r.do("POST", "/ok", "A", "rh register shared", "x", "x-worker", "0")
	r.do("POST", "/ok", "B", "rh register shared", "x", "x-worker", "1")
	r.do("POST", "/ok", "C", "rh pause; rb pause; re pause; re send shared C; queue resume", "x", "x-worker", "1")
	if got := r.end("C"); !hasPrefix(got, "queue resume") {
		t.Errorf("the last to register was not told: %q", got)
	}
	done := make(chan answer, 1)
	go func() {
		done <- r.do("POST", "/ok", "D", "rh pause; rb pause; re pause; re send shared D; queue resume", "x", "x-worker", "0")
	}()
	// The message of D reaches the VM of worker 1, which has no stream D.
	r.book.wait(t, "queue ctx=1 ready=", func(l []string) bool {
		return slices.ContainsFunc(l, func(s string) bool { return strings.HasSuffix(s, "msg=D") })
	})
	r.host.Wait()
	if got := r.book.all("D "); hasPrefix(got, "queue resume") {
		t.Errorf("the first to register was told: %q", got)
	}
	r.proxy.Close()
	<-done
}
