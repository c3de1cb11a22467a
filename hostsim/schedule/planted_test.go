package schedule

import (
	"encoding/binary"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/callonce/callonce/hostsim"
)

// planted are faults of the ledger, made by changing what it writes to shared data on the way. Each must be found, by the words of
// the violation that it leads to.
var planted = []struct {
	name   string
	tamper func() func(*hostsim.Call) hostsim.Verdict
	game   func(seed uint64) game
	want   string
}{
	{"get, then set: buckets are written with cas 0", onSet("/b/", func(c *hostsim.Call) bool { c.CAS = 0; return true }), quiet, "ran 2 times"},
	{"a bucket's write is lost and answered ok", loseBuckets, quiet, "ran 2 times"},
	{"pages are not written, and answered ok", onSet("/p/", func(c *hostsim.Call) bool { return false }), capped, "limit 2"},
	{"pages are written with cas 0", onSet("/p/", func(c *hostsim.Call) bool { c.CAS = 0; return true }), capped, "limit 2"},
	{"a reply's bytes are another key's", swapReplies, quiet, "got the reply"},
	{"replies are not written, and answered ok", onSet("/r/", func(c *hostsim.Call) bool { return false }), quiet, "may have shed it"},
	{"a living holder's signs of life are lost", onSet("/h/", func(c *hostsim.Call) bool { return c.CAS == hostsim.InsertOnly }), slow, "is called unknown"},
	{"a dead holder seems to live", onSet("/h/", func(c *hostsim.Call) bool {
		last := binary.LittleEndian.Uint64(c.Value[12:])
		binary.LittleEndian.PutUint64(c.Value[12:], last+uint64(10*time.Hour))
		return true
	}), crashing, "nobody holds it"},
	{"a reply takes 4 MiB whatever its length", onSet("/r/", func(c *hostsim.Call) bool {
		if len(c.Value) > 0 {
			c.Value = append(c.Value, make([]byte, 4<<20-len(c.Value))...)
		}
		return true
	}), tight, "bytes of shared data"},
}

// onSet applies change to every write of a key that has part in it; where change is false the write is dropped, but answered ok. The
// writes of the main thread are left alone.
func onSet(part string, change func(*hostsim.Call) bool) func() func(*hostsim.Call) hostsim.Verdict {
	return tamperWith(0, part, change)
}

// onEverySet is onSet for the main thread too.
func onEverySet(part string, change func(*hostsim.Call) bool) func() func(*hostsim.Call) hostsim.Verdict {
	return tamperWith(hostsim.MainThread, part, change)
}

func tamperWith(from int, part string, change func(*hostsim.Call) bool) func() func(*hostsim.Call) hostsim.Verdict {
	return func() func(*hostsim.Call) hostsim.Verdict {
		return func(c *hostsim.Call) hostsim.Verdict {
			if c.Worker >= from && c.Function == setData && strings.Contains(string(c.Key), part) && !change(c) {
				return hostsim.Fail(hostsim.StatusOK)
			}
			return hostsim.Proceed()
		}
	}
}

// loseBuckets drops one write in five.
func loseBuckets() func(*hostsim.Call) hostsim.Verdict {
	n := 0
	return onSet("/b/", func(*hostsim.Call) bool { n++; return n%5 != 0 })()
}

// replyHead is what of a reply's record stands before the message: magic, id, fence, status, place of the id.
const replyHead = 54

func swapReplies() func(*hostsim.Call) hostsim.Verdict {
	var last []byte
	return onSet("/r/", func(c *hostsim.Call) bool {
		if len(c.Value) <= replyHead {
			return true
		}
		mine := slices.Clone(c.Value[replyHead:])
		if len(last) == len(mine) {
			copy(c.Value[replyHead:], last)
		}
		last = mine
		return true
	})()
}

// quiet is a storm without faults, in which nobody is held up for as long as a lease.
func quiet(seed uint64) game {
	g := storm(seed, 40)
	g.ticks, g.stalls, g.later = 0, false, true
	return g
}

func capped(seed uint64) game {
	g := quiet(seed)
	g.limits = `"in_flight":2,"in_flight_per_principal":2,"in_flight_per_scope":2`
	return g
}

// slow has servers that take longer than a lease; the workers are awake all the while.
func slow(seed uint64) game {
	g := quiet(seed)
	g.ticks, g.lease = 60, 10*time.Second
	g.faults = []Fault{{Kind: Slow, OneIn: 2, Max: 10, By: 25 * time.Second}}
	g.awake = true
	return g
}

func crashing(seed uint64) game {
	return storm(seed, 40, Fault{Kind: Crash, OneIn: 50, Max: 4})
}

// tight has a small stated maximum of bytes.
func tight(seed uint64) game {
	g := quiet(seed)
	g.limits, g.sheds = `"entries":64,"entries_per_principal":64,"entries_per_scope":64,"in_flight":32,"in_flight_per_principal":32,"in_flight_per_scope":32,"tombstones_per_scope":32,"stored_bytes":2048,"reply_bytes":1024`, true
	return g
}

// The checker finds every planted fault, its seed finds it again by the same steps, and without the fault the same seeds find nothing.
func TestPlantedFaultsAreFound(t *testing.T) {
	const seeds = 20
	for _, p := range planted {
		t.Run(p.name, func(t *testing.T) {
			for seed := uint64(1); seed <= seeds; seed++ {
				g := p.game(seed)
				if err := Play(t.Context(), g.scenario(), Random(seed)); err != nil {
					t.Fatalf("without the fault: %v", err)
				}
				g.tamper = p.tamper
				f, found := violation(Play(t.Context(), g.scenario(), Random(seed)))
				if !found {
					continue
				}
				if !strings.Contains(f.Error(), p.want) {
					t.Fatalf("found, but not as %q: %v", p.want, f)
				}
				again, _ := violation(Play(t.Context(), g.scenario(), Random(seed)))
				if again == nil || again.Err.Error() != f.Err.Error() || !slices.Equal(again.Steps, f.Steps) {
					t.Fatalf("seed %d does not find the same again: %v", seed, again)
				}
				t.Logf("seed %d, after %d steps: %v", seed, len(f.Steps), f.Err)
				return
			}
			t.Errorf("not found with %d seeds", seeds)
		})
	}
}

// Faults of which a small scenario shows each, in some order.
var plantedInSmall = []struct {
	name, scenario string
	tamper         func() func(*hostsim.Call) hostsim.Verdict
	want           string
}{
	{"buckets are written with cas 0", "claim against claim", onSet("/b/", func(c *hostsim.Call) bool { c.CAS = 0; return true }), "ran 2 times"},
	{"pages are written with cas 0", "claim against claim of the last place", onSet("/p/", func(c *hostsim.Call) bool { c.CAS = 0; return true }), "limit 1"},
	{"pages are not written, and answered ok", "claim against claim of the last place", onSet("/p/", func(c *hostsim.Call) bool { return false }), "limit 1"},
	{"a reply's bytes are another key's", "claim against claim of the last place", swapReplies, "got the reply"},
	{"replies are not written, and answered ok", "claim against claim", onSet("/r/", func(c *hostsim.Call) bool { return false }), "may have shed it"},
	{"the sweep writes buckets with cas 0", "sweep against claim: the bucket is visited", onEverySet("/b/", func(c *hostsim.Call) bool {
		if c.Worker == hostsim.MainThread {
			c.CAS = 0
		}
		return true
	}), "is called unknown"},
}

// Exploration finds them, and by the same steps again.
func TestPlantedFaultsAreFoundInSmallScenarios(t *testing.T) {
	for _, p := range plantedInSmall {
		t.Run(p.name, func(t *testing.T) {
			for _, s := range small {
				if s.name != p.scenario {
					continue
				}
				g := s.g
				g.tamper, g.whole = p.tamper, true
				var steps []string
				for range 2 {
					g.before = &known{}
					e, err := Every(t.Context(), s.schedules, g.scenario)
					f, found := violation(err)
					if !found || !strings.Contains(f.Error(), p.want) {
						t.Fatalf("after %d of %d schedules want %q, got %v", e.Schedules, s.schedules, p.want, err)
					}
					if steps != nil && !slices.Equal(steps, f.Steps) {
						t.Fatalf("not by the same steps again: %v", f)
					}
					if steps == nil {
						t.Logf("after %d of %d schedules: %v", e.Schedules, s.schedules, f.Err)
					}
					steps = f.Steps
				}
				return
			}
			t.Fatalf("no scenario %q", p.scenario)
		})
	}
}
