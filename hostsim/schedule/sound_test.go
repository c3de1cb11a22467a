package schedule

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/callonce/callonce/hostsim"
	"github.com/callonce/callonce/hostsim/explore"
)

// A step that can be taken no more once another has been is beyond what the explorer can reduce, and it says so.
func TestStepsThatVanish(t *testing.T) {
	_, err := Every(t.Context(), 10, func() Scenario {
		gone := false
		s := Scenario{Host: hostsim.Config{Code: code, PluginConfig: []byte(`{"policies":{}}`)}}
		taken := map[string]bool{}
		s.Offer = func(*World) []Option {
			var out []Option
			for _, name := range []string{"a", "b"} {
				if !taken[name] && !gone {
					out = append(out, Option{Name: name, Touches: []Touch{}, Do: func() { taken[name], gone = true, true }})
				}
			}
			return out
		}
		return s
	})
	if err == nil || !strings.Contains(err.Error(), `step "b" could be taken before "a", and not after it`) {
		t.Fatalf("got %v", err)
	}
}

// A run that does not repeat says so, and is no violation.
func TestNoViolation(t *testing.T) {
	n := 0
	_, err := Every(t.Context(), 10, func() Scenario {
		n++
		s := Scenario{Host: hostsim.Config{Code: code, PluginConfig: []byte(`{"policies":{}}`)}}
		taken := map[string]bool{}
		s.Offer = func(*World) []Option {
			var out []Option
			for _, actor := range []string{"a", "b", "c"} {
				if !taken[actor] {
					out = append(out, Option{Name: fmt.Sprint(actor, n), Actor: actor, Do: func() { taken[actor] = true }})
				}
			}
			return out
		}
		return s
	})
	var f *Failure
	if err == nil || errors.As(err, &f) {
		t.Fatalf("want an error that is no violation, got %v", err)
	}
}

// What holds for toys holds for the filter, sound or not: a claim against a visit of the sweep, in every order and in those that are
// played.
func TestReductionLosesNothingOfTheFilter(t *testing.T) {
	for name, tamper := range map[string]func() func(*hostsim.Call) hostsim.Verdict{
		"as it is":                       nil,
		"buckets are written with cas 0": onEverySet("/b/", func(c *hostsim.Call) bool { c.CAS = 0; return true }),
	} {
		t.Run(name, func(t *testing.T) {
			g := game{idle: 2 * time.Second, sweeps: []int{hostsim.MainThread}, last: []string{"b"}, clients: [][]ask{{{worker: 0, key: "a"}}},
				mute: true, workers: 1, whole: true, tamper: tamper}
			want, all := endStates(t, g, true)
			got, some := endStates(t, g, false)
			if !slices.Equal(slices.Sorted(maps.Keys(got)), slices.Sorted(maps.Keys(want))) {
				t.Errorf("all orders end in %d states, those that were played in %d", len(want), len(got))
			}
			t.Logf("%d orders of %d to %d steps end in %d states; %d were played", all.Schedules, all.Shortest, all.Longest, len(want), some.Schedules)
			if len(want) < 2 || some.Schedules*4 > all.Schedules {
				t.Error("this shows nothing")
			}
		})
	}
}

// endStates are the states of shared data in which a game ends.
func endStates(t *testing.T, g game, plain bool) (map[string]int, Explored) {
	out := map[string]int{}
	g.before = &known{}
	x := &exploring{explore.Explorer{Plain: plain}}
	st := stage{again: true}
	defer st.close()
	e, err := x.Every(1<<30, func() error {
		s := g.scenario()
		s.End = func(w *World) error {
			out[stored(w.Host.Store())]++
			return nil
		}
		return st.play(t.Context(), s, x)
	})
	if err != nil {
		t.Fatal(err)
	}
	return out, e
}

// stored is what lies in shared data.
func stored(s *hostsim.Store) string {
	var out strings.Builder
	for _, key := range s.Keys("v") {
		value, _, _ := s.Get("v", key)
		fmt.Fprintf(&out, "%s=%x\n", key, value)
	}
	return out.String()
}
