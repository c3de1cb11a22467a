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
