package etcd

import (
	"fmt"
	"strings"

	"github.com/callonce/callonce/plugin/internal/etcd/etcdsim"
	"github.com/callonce/callonce/plugin/internal/ledger"
	"github.com/callonce/callonce/plugin/internal/ledger/state"
)

// watch holds every change of a record against the table of states.
func (w *world) watch(key string, before, after *etcdsim.Entry) {
	if !strings.Contains(key, "/k/") {
		return
	}
	w.noteWrite(before, after)
	if after != nil {
		r, ok := decodeRecord(after.Value)
		if ok && r.state == ledger.InFlight && w.Keys[fmt.Sprintf("/callonce/h/%016x", r.holder)] == nil {
			w.violated("a claim of a worker that is not alive to the others")
		}
	}
	if before == nil {
		return
	}
	old, ok := decodeRecord(before.Value)
	if !ok {
		w.violated("a record that cannot be read was written")
		return
	}
	next := record{nonce: old.nonce}
	if after != nil {
		if next, ok = decodeRecord(after.Value); !ok {
			w.violated("a record that cannot be read is written")
			return
		}
	}
	alive := w.Keys[fmt.Sprintf("/callonce/h/%016x", old.holder)] != nil
	switch {
	case next.nonce == old.nonce && after == nil:
		if old.state != ledger.InFlight {
			w.violated("a record of state %d is deleted", old.state)
		}
	case next.nonce == old.nonce:
		for ev := ledger.Complete; ev <= ledger.MarkNotReplayable; ev++ {
			if to, ok := state.Next(old.state, ev); ok && to == next.state {
				return
			}
		}
		w.violated("state %d becomes %d", old.state, next.state)
	case next.state != ledger.InFlight:
		w.violated("a settlement of another claim overwrites state %d", old.state)
	case next.attempt != old.attempt+1:
		w.violated("attempt %d follows %d", next.attempt, old.attempt)
	case old.state == ledger.Unknown, old.state == ledger.InFlight && !alive:
	default:
		w.violated("a claim takes state %d over, whose holder lives: %v", old.state, alive)
	}
}

// noteWrite remembers what has become of each claim.
func (w *world) noteWrite(before, after *etcdsim.Entry) {
	e, st := after, ledger.Free
	if e == nil {
		e = before
	}
	r, ok := decodeRecord(e.Value)
	if !ok {
		return
	}
	if after != nil {
		if st = r.state; st == ledger.InFlight {
			w.wrote[after.Mod] = r.nonce
		}
	}
	if w.came[r.nonce] == nil {
		w.came[r.nonce] = map[ledger.State]bool{}
	}
	w.came[r.nonce][st] = true
}

// taken holds a word that is told to be taken against what the claim's record has been.
func (w *world) taken(policy uint64, ev ledger.Event) {
	for _, r := range w.runs {
		if r.lease.Policy != policy {
			continue
		}
		st, _ := state.Next(ledger.InFlight, ev)
		if was := w.came[w.wrote[int64(r.lease.Fence)]]; !was[st] {
			w.violated("event %d of key %d is told to be taken, and never was", ev, r.key)
		}
	}
}
