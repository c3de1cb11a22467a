package schedule

import (
	"slices"
	"testing"
)

// A run on a host that has been brought back is the run on a new one: the same steps, the same shared data, and the VMs' memory the same
// to the last byte.
func TestHostBroughtBack(t *testing.T) {
	play := func(st *stage, before *known, seed uint64) ([]string, string) {
		g := quiet(3)
		g.clients, g.before = g.clients[:5], before
		var steps []string
		s := g.scenario()
		end := s.End
		s.End = func(w *World) error {
			err := end(w)
			steps = append(slices.Clone(w.steps), stored(w.Host.Store()))
			return err
		}
		if err := st.play(t.Context(), s, Random(seed)); err != nil {
			t.Fatal(err)
		}
		st.host.Wait()
		m, err := st.host.Save()
		if err != nil {
			t.Fatal(err)
		}
		return steps, string(m.Sum())
	}
	used, before := stage{again: true}, &known{}
	defer used.close()
	for seed := uint64(1); seed <= 4; seed++ {
		steps, memory := play(&used, before, seed)
		fresh := stage{again: true}
		wantSteps, wantMemory := play(&fresh, &known{}, seed)
		fresh.close()
		if !slices.Equal(steps, wantSteps) {
			t.Fatalf("seed %d: the steps differ", seed)
		}
		if memory != wantMemory {
			t.Errorf("seed %d: the memory of the VMs differs", seed)
		}
	}
	if used.restored == 0 {
		t.Error("no host was brought back")
	}
	t.Logf("%d new hosts, %d brought back", used.fresh, used.restored)
}

// A host that has been used up, here because a VM died, is replaced.
func TestHostReplaced(t *testing.T) {
	st := stage{again: true}
	defer st.close()
	for range 3 {
		g := game{faults: []Fault{{Kind: Crash, At: 2}}, clients: [][]ask{{{worker: 0, key: "a"}}}}
		if err := st.play(t.Context(), g.scenario(), Random(1)); err != nil {
			t.Fatal(err)
		}
	}
	if st.fresh != 3 || st.restored != 0 {
		t.Errorf("%d new hosts and %d brought back, want 3 and 0", st.fresh, st.restored)
	}
}
