package policy_test

import (
	"testing"
	"time"
)

// A tool says for itself whether and how long repeats wait, else the policy does, else nobody waits.
func TestWait(t *testing.T) {
	p := one(t, policyWith(`"on_in_flight":"wait","tools":[{"match":"a"},{"match":"b","on_in_flight":"refuse"},{"match":"c","wait":"5s"}]`))
	for name, want := range map[string]time.Duration{"a": 20 * time.Second, "b": 0, "c": 5 * time.Second, "other": 20 * time.Second} {
		if got := p.Tool(name).Wait; got != want {
			t.Errorf("%s waits %v, want %v", name, got, want)
		}
	}
	p = one(t, policyWith(`"wait":"7s","tools":[{"match":"a","on_in_flight":"wait"},{"match":"b"}]`))
	for name, want := range map[string]time.Duration{"a": 7 * time.Second, "b": 0, "other": 0} {
		if got := p.Tool(name).Wait; got != want {
			t.Errorf("%s waits %v, want %v", name, got, want)
		}
	}
}

// on_disconnect: continue is detach and waiting; each can be said otherwise, of a tool or of the policy.
func TestOnDisconnect(t *testing.T) {
	p := one(t, policyWith(`"on_disconnect":"continue","detach_timeout":"1h","tools":[{"match":"a"},{"match":"b","on_disconnect":"stop"},{"match":"c","detach":false,"wait":"5s"},
		{"match":"d","on_in_flight":"refuse","detach_timeout":"1m","detach_cluster":"inner","cancel":"stop"},{"match":"e","guard":"off"}]`))
	for name, want := range map[string]struct {
		detach  bool
		timeout time.Duration
		wait    time.Duration
	}{
		"a": {true, time.Hour, 20 * time.Second}, "b": {}, "c": {wait: 5 * time.Second}, "d": {true, time.Minute, 0}, "other": {true, time.Hour, 20 * time.Second},
	} {
		if got := p.Tool(name); got.Detach != want.detach || got.DetachTimeout != want.timeout || got.Wait != want.wait {
			t.Errorf("%s: %v, %v, %v", name, got.Detach, got.DetachTimeout, got.Wait)
		}
	}
	if d := p.Tool("d"); d.DetachCluster != "inner" || !d.CancelStops || p.Tool("e").Detach {
		t.Errorf("%+v", d)
	}
	p = one(t, policyWith(`"on_in_flight":"wait","tools":[{"match":"a","on_disconnect":"stop"},{"match":"b","detach":true}]`))
	if p.Tool("a").Wait == 0 || p.Tool("a").Detach || p.Tool("b").DetachTimeout != 10*time.Minute {
		t.Errorf("%+v", p.Tools)
	}
}
