package etcd

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/callonce/callonce/plugin/internal/etcd/etcdsim"
	"github.com/callonce/callonce/plugin/internal/ledger"
	"github.com/callonce/callonce/plugin/internal/ledger/state"
)

// What clients and streams saw of a schedule, judged by porcupine: is there an order in time in which one ledger would have said the
// same? It knows neither records nor leases, only what a key may go through.

// deed is one operation on one key. What became of it is part of it: the history is written when it is over.
type deed struct {
	kind    deedKind
	key     byte
	retry   bool
	verdict ledger.Verdict
	fence   uint64 // of the run that was won, replayed or settled
	holder  uint64
	event   ledger.Event
	sure    bool // of a settlement: it was told to be taken

	call, ret int64 // ret 0 = never
}

type deedKind uint8

const (
	claims   deedKind = iota // answered
	haunts                   // a claim that nobody was told to have won: it may be there all the same,
	vanishes                 // and goes again
	settles
	dies    // a holder does not live any more
	rests   // everything has come to rest
	nothing // came of it
)

// history is what happened in a world.
type history struct {
	time  int64
	deeds []*deed
	said  map[uint64][]*deed // words on runs, by the number of the policy, which tells claims apart
	alive map[uint64]bool
}

func (h *history) now() int64 {
	h.time++
	return h.time
}

func (h *history) add(d deed) *deed {
	d.call = h.now()
	h.deeds = append(h.deeds, &d)
	return &d
}

// vanished notes the holders that have gone since it was called last.
func (w *world) vanished() {
	now := map[uint64]bool{}
	for k := range w.Keys {
		var n uint64
		if _, err := fmt.Sscanf(k, "/callonce/h/%x", &n); err == nil {
			now[n] = true
		}
	}
	for n := range w.alive {
		if !now[n] {
			for key := range byte(4) {
				d := w.add(deed{kind: dies, key: key, holder: n})
				d.ret = w.history.now()
			}
		}
	}
	w.alive = now
}

// answered notes what a client was told. Whoever is told that the store cannot answer, or has left, may have claimed all the same.
func (k *worker) answered(q *ask, a ledger.Answer) {
	d := q.deed
	d.ret, d.verdict = k.history.now(), a.Verdict
	switch a.Verdict {
	case ledger.First:
		d.fence, d.holder = a.Lease.Fence, a.Lease.Holder
	case ledger.Replay:
		var key byte
		if _, err := fmt.Sscanf(string(a.Reply.Message), "key %d run %d", &key, &d.fence); err != nil || key != q.key {
			k.violated("key %d is answered with %q", q.key, a.Reply.Message)
		}
	case ledger.RefusedUnavailable:
		d.kind, d.ret = haunts, 0
	}
}

// settles notes a word on a run; the next of settledLate and counted says what became of it.
func (w *world) settles(r *run, ev ledger.Event) {
	if w.said == nil {
		w.said = map[uint64][]*deed{}
	}
	w.said[r.lease.Policy] = append(w.said[r.lease.Policy], w.add(deed{kind: settles, key: r.key, fence: r.lease.Fence, event: ev}))
}

func (k *worker) settledLate(policy uint64, ev ledger.Event) {
	k.taken(policy, ev)
	if said := k.said[policy]; len(said) > 0 {
		said[0].sure, said[0].ret = said[0].event == ev, k.history.now()
		k.said[policy] = said[1:]
	}
}

// counted notes that a settlement was found to be fenced, and all that follow it. A release, or an unknown outcome, may have been taken all
// the same: its answer was lost, and somebody claimed the key before it was tried again.
func (k *worker) counted(what ledger.Notice, policy uint64) {
	if what == ledger.LateFenced {
		for _, d := range k.said[policy] {
			d.ret = k.history.now()
			if d.event == ledger.Complete || d.event == ledger.MarkNotReplayable {
				d.kind = nothing // nobody claims what it would have left
			}
		}
		delete(k.said, policy)
	}
}

// atRest bounds what was under way, and says that nothing is in flight any more.
func (w *world) atRest() {
	for _, q := range w.asks {
		if q.deed.kind == claims && q.answer == nil {
			q.deed.kind = haunts // its client has left, or its worker
		}
	}
	for _, d := range w.deeds {
		if d.kind != haunts || d.ret != 0 {
			continue
		}
		// It can vanish from when it began; of a worker that has died it need not.
		v := w.add(deed{kind: vanishes, key: d.key, holder: d.holder})
		v.call = d.call
		d.ret, v.ret = w.history.now(), w.history.now()
	}
	for _, said := range w.said {
		for _, d := range said {
			if d.ret == 0 {
				d.ret = w.history.now()
			}
		}
	}
	for key := range byte(4) {
		w.add(deed{kind: rests, key: key}).ret = w.history.now()
	}
}

// keyState is what a key has come to.
type keyState struct {
	state  ledger.State
	dead   bool // in flight, and its holder does not live
	ghost  bool // in flight for nobody
	was    bool // what the ghost took over was unknown
	fence  uint64
	holder uint64
}

func (k keyState) claimable(retry bool) bool {
	return k.state == ledger.Free || retry && (k.state == ledger.Unknown || k.state == ledger.InFlight && k.dead)
}

// step gives what may come of a deed; nothing where no ledger could have said that.
func (k keyState) step(d *deed) []keyState {
	same := []keyState{k}
	allowed := func(ok bool) []keyState {
		if ok {
			return same
		}
		return nil
	}
	switch d.kind {
	case rests:
		return allowed(k.state != ledger.InFlight || k.dead)
	case dies:
		if k.state == ledger.InFlight && k.holder == d.holder {
			k.dead = true
		}
		return []keyState{k}
	case haunts:
		if k.claimable(d.retry) {
			return append(same, keyState{state: ledger.InFlight, ghost: true, was: k.state != ledger.Free, holder: d.holder})
		}
		return same
	case vanishes:
		if k.ghost && k.holder == d.holder {
			if k.was {
				return append(same, keyState{state: ledger.Unknown})
			}
			return append(same, keyState{})
		}
		return same
	case settles:
		next, ok := state.Next(k.state, d.event)
		mine := k.fence == d.fence && !k.ghost && ok
		after := keyState{state: next, fence: k.fence, holder: k.holder}
		if next == ledger.Free {
			after = keyState{}
		}
		switch {
		case d.sure && mine:
			return []keyState{after}
		case d.sure:
			return allowed(d.event == ledger.Release && k.state == ledger.Free)
		case mine:
			return append(same, after)
		}
		return same
	}
	switch d.verdict {
	case ledger.First:
		if k.claimable(d.retry) {
			return []keyState{{state: ledger.InFlight, fence: d.fence, holder: d.holder}}
		}
		return nil
	case ledger.RefusedInFlight:
		return allowed(k.state == ledger.InFlight)
	case ledger.Replay:
		return allowed(k.state == ledger.Completed && k.fence == d.fence)
	case ledger.RefusedUnknown:
		return allowed(k.state == ledger.Unknown || k.state == ledger.InFlight && k.dead)
	case ledger.RefusedNotReplayable:
		return allowed(k.state == ledger.NotReplayable)
	}
	return nil
}

var oneLedger = (&porcupine.NondeterministicModel{
	Partition: func(h []porcupine.Operation) [][]porcupine.Operation {
		parts := make([][]porcupine.Operation, 4)
		for _, o := range h {
			key := o.Input.(*deed).key
			parts[key] = append(parts[key], o)
		}
		return parts
	},
	Init: func() []any { return []any{keyState{}} },
	Step: func(state, input, _ any) (out []any) {
		for _, k := range state.(keyState).step(input.(*deed)) {
			out = append(out, k)
		}
		return out
	},
}).ToModel()

// judge says whether one ledger could have said all that.
func (h *history) judge() bool { return h.judgeWithin(0) == porcupine.Ok }

// judgeWithin is judge, unless that takes longer: to show that no order explains a history, all must be tried. 0 = however long.
func (h *history) judgeWithin(d time.Duration) porcupine.CheckResult {
	var ops []porcupine.Operation
	end := h.now()
	for i, d := range h.deeds {
		if d.kind == nothing {
			continue
		}
		ret := d.ret
		if ret == 0 {
			ret = end
		}
		ops = append(ops, porcupine.Operation{ClientId: i, Input: d, Call: d.call, Return: ret})
	}
	return porcupine.CheckOperationsTimeout(oneLedger, ops, d)
}

// The judge lets nothing pass that it should not.
func TestJudge(t *testing.T) {
	seq := func(deeds ...deed) *history {
		h := &history{}
		for _, d := range deeds {
			h.add(d).ret = h.now()
		}
		return h
	}
	first := func(fence uint64) deed { return deed{kind: claims, verdict: ledger.First, fence: fence, holder: 1} }
	said := func(v ledger.Verdict, fence uint64) deed { return deed{kind: claims, verdict: v, fence: fence} }
	done := deed{kind: settles, fence: 5, event: ledger.Complete, sure: true}
	for name, c := range map[string]struct {
		h    *history
		fine bool
	}{
		"a call and its replay":   {seq(first(5), said(ledger.RefusedInFlight, 0), done, said(ledger.Replay, 5)), true},
		"two runs":                {seq(first(5), first(6)), false},
		"another run's reply":     {seq(first(5), done, said(ledger.Replay, 6)), false},
		"a key forgotten":         {seq(first(5), done, first(6)), false},
		"in flight after its end": {seq(first(5), done, said(ledger.RefusedInFlight, 0)), false},
		"unknown while it lives":  {seq(first(5), said(ledger.RefusedUnknown, 0)), false},
		"unknown when it is dead": {seq(first(5), deed{kind: dies, holder: 1}, said(ledger.RefusedUnknown, 0)), true},
		"stuck":                   {seq(deed{kind: haunts, holder: 1}, said(ledger.RefusedInFlight, 0), deed{kind: rests}), false},
		"a ghost that goes":       {seq(deed{kind: haunts, holder: 1}, said(ledger.RefusedInFlight, 0), deed{kind: vanishes, holder: 1}, deed{kind: rests}), true},
	} {
		if got := c.h.judge(); got != c.fine {
			t.Errorf("%s: judged %v", name, got)
		}
	}
}

// Every history of the schedules is one that a single ledger could have.
func TestHistories(t *testing.T) {
	deeds := 0
	for seed := range uint64(*histories) {
		w, err := playSeed(seed+1, nil)
		if err != nil {
			t.Fatalf("seed %d: %v", seed+1, err)
		}
		if deeds += len(w.deeds); !w.judge() {
			t.Fatalf("seed %d: no order explains the history:\n%s", seed+1, w.history.String())
		}
	}
	t.Logf("%d histories of %d operations", *histories, deeds)
}

// The same bugs, and some that only answers show, seen by nothing but what clients and streams were told.
func TestPlantedFaultsShowInHistories(t *testing.T) {
	all := plants()
	// The settled record vanishes with its worker.
	all["settled record on the alive lease"] = rewriteHolders(func(x *etcdsim.Txn, alive int64) {
		if st, i := putsState(x); st > ledger.InFlight {
			x.Then[i].Lease = alive
		}
	})
	// Whether a holder lives is asked of a key that is not there.
	all["every holder is dead"] = rewriteTxn(func(x *etcdsim.Txn) bool {
		if len(x.Compares) == 0 && len(x.Then) > 0 {
			x.Then[0].Key += "0"
		}
		return false
	})
	all["completed in place of unknown"] = rewriteTxn(func(x *etcdsim.Txn) bool {
		if st, i := putsState(x); st == ledger.Unknown {
			r, _ := decodeRecord(x.Then[i].Value)
			r.state = ledger.NotReplayable
			x.Then[i].Value = r.encode()
		}
		return false
	})
	// Where the first seed that shows a bug is far, it is begun there.
	from := map[string]uint64{"settlement without revision": 380, "no release after a lost answer": 245, "settlements not tried again": 25}
	for name, plant := range all {
		if name == "release given up too early" || name == "second incarnation not taken" {
			continue // what these lead to is told to somebody too seldom: the rules see it (TestPlantedFaultsAreFound)
		}
		t.Run(name, func(t *testing.T) {
			for seed := max(from[name], 1); seed <= from[name]+600; seed++ {
				w, _ := playSeed(seed, func(w *world) {
					w.blind, w.steady = true, true
					plant(w)
				})
				if w.judgeWithin(2*time.Second) == porcupine.Illegal {
					t.Logf("found by seed %d", seed)
					return
				}
			}
			t.Errorf("not found")
		})
	}
}

// rewriteHolders plants a bug that needs the alive lease of the worker that writes.
func rewriteHolders(f func(x *etcdsim.Txn, alive int64)) func(*world) {
	return func(w *world) {
		rewriteTxn(func(x *etcdsim.Txn) bool {
			if st, i := putsState(x); st != ledger.Free {
				r, _ := decodeRecord(x.Then[i].Value)
				for _, k := range w.workers {
					if r.holder == k.store.self.incarnation {
						f(x, k.store.self.alive.id)
					}
				}
			}
			return false
		})(w)
	}
}

// String tells a history, one operation a line.
func (h *history) String() string {
	var b strings.Builder
	for _, d := range h.deeds {
		fmt.Fprintf(&b, "%+v\n", *d)
	}
	return b.String()
}
