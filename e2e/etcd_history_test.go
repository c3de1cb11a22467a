package e2e_test

import (
	"context"
	"encoding/binary"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/callonce/callonce/e2e/envoytest"
)

// What clients were told, and what etcd says of the claims and settlements meanwhile, judged by porcupine: is there an order in time in
// which one ledger would have said the same? It knows neither leases nor what the filter sends, only what a key may go through.

// happening is one thing that was seen of one key: an answer to a client, or a change in etcd.
type happening struct {
	kind   string // an answer's, as of payOnce; or one of the changes below
	charge string // that was answered, or is kept
	seq    int    // of a change: etcd's own order; from 1

	call, ret time.Duration
}

// Changes in etcd.
const (
	claimed       = "claimed"
	completed     = "completed"
	markedUnknown = "marked unknown"
	gone          = "gone"
	holderDies    = "holder dies"
	otherwise     = "something else"
)

// keyInEtcd is what a key has come to.
type keyInEtcd struct {
	seq    int
	is     string // "" = free, claimed, completed or markedUnknown
	dead   bool   // claimed, and its holder does not live
	charge string // that its run was answered with, as far as that is known
}

func (k keyInEtcd) step(h *happening) (bool, keyInEtcd) {
	if h.seq > 0 {
		ok := h.seq == k.seq+1
		k.seq = h.seq
		switch h.kind {
		case claimed:
			return ok && k.is == "", keyInEtcd{seq: k.seq, is: claimed}
		case completed:
			ok = ok && k.is == claimed && (k.charge == "" || k.charge == h.charge)
			return ok, keyInEtcd{seq: k.seq, is: completed, charge: h.charge}
		case markedUnknown:
			return ok && (k.is == claimed || k.is == completed), keyInEtcd{seq: k.seq, is: markedUnknown}
		case gone:
			return ok && k.is == claimed && k.charge == "", keyInEtcd{seq: k.seq}
		case holderDies:
			k.dead = k.is == claimed
			return ok, k
		}
		return false, k
	}
	switch h.kind {
	case "first":
		ok := k.is == claimed && k.charge == ""
		k.charge = h.charge
		return ok, k
	case "replay":
		return k.is == completed && k.charge == h.charge, k
	case inFlight:
		return k.is == claimed, k
	case outcomeUnknown:
		return k.is == markedUnknown || k.is == claimed && k.dead, k
	case unavailable, "":
		return true, k // nobody was told anything; what it left in etcd is seen there
	}
	return false, k
}

// oneKey is porcupine's view of it.
var oneKey = porcupine.Model{
	Init: func() any { return keyInEtcd{} },
	Step: func(state, input, _ any) (bool, any) {
		ok, next := state.(keyInEtcd).step(input.(*happening))
		return ok, next
	},
}

// judge says whether one ledger could have said all that. Of answers that say the same, one that was asked and given within the time of
// another says all that the other does; and those that say nothing are left out.
func judge(all []*happening) porcupine.CheckResult {
	reads := map[happening][]*happening{}
	var ops []porcupine.Operation
	add := func(h *happening) {
		ops = append(ops, porcupine.Operation{ClientId: len(ops), Input: h, Call: int64(h.call), Return: int64(h.ret)})
	}
	for _, h := range all {
		switch same := (happening{kind: h.kind, charge: h.charge}); {
		case h.kind == unavailable || h.kind == "":
		case h.seq > 0 || h.kind == "first":
			add(h)
		default:
			reads[same] = append(reads[same], h)
		}
	}
	for _, same := range reads {
		slices.SortFunc(same, func(a, b *happening) int { return int(a.ret - b.ret) })
		latest := time.Duration(-1)
		for _, h := range same {
			if h.call > latest { // else one that ended before it began after it
				add(h)
				latest = h.call
			}
		}
	}
	return porcupine.CheckOperationsTimeout(oneKey, ops, time.Minute)
}

// Whatever no ledger could have said is found.
func TestEtcdJudge(t *testing.T) {
	seq := func(all ...happening) (out []*happening) {
		n := 0
		for i, h := range all {
			h.call, h.ret = time.Duration(2*i), time.Duration(2*i+1)
			switch h.kind {
			case claimed, completed, markedUnknown, gone, holderDies, otherwise:
				n++
				h.seq = n
			}
			out = append(out, &h)
		}
		return out
	}
	at := func(kind string) happening { return happening{kind: kind} }
	of := func(kind, charge string) happening { return happening{kind: kind, charge: charge} }
	for name, c := range map[string]struct {
		h    []*happening
		fine bool
	}{
		"a call and its repeats":                {seq(at(claimed), at(inFlight), of("first", "a"), at(inFlight), of(completed, "a"), of("replay", "a")), true},
		"a claim that is released, and another": {seq(at(claimed), at(inFlight), at(gone), at(claimed), of("first", "b"), of(completed, "b")), true},
		"a holder that died":                    {seq(at(claimed), at(holderDies), at(outcomeUnknown)), true},
		"it settles after all":                  {seq(at(claimed), at(holderDies), at(outcomeUnknown), of(completed, "a"), of("replay", "a")), true},
		"two first answers":                     {seq(at(claimed), of("first", "a"), of("first", "b")), false},
		"a first answer that nobody claimed":    {seq(of("first", "a")), false},
		"a key forgotten":                       {seq(at(claimed), of("first", "a"), of(completed, "a"), at(gone)), false},
		"claimed twice":                         {seq(at(claimed), at(claimed)), false},
		"claimed though it completed":           {seq(at(claimed), of(completed, "a"), at(claimed)), false},
		"released though it was answered":       {seq(at(claimed), of("first", "a"), at(gone)), false},
		"another call's answer":                 {seq(at(claimed), of("first", "a"), of(completed, "b")), false},
		"another answer replayed":               {seq(at(claimed), of("first", "a"), of(completed, "a"), of("replay", "b")), false},
		"a replay before the settlement":        {seq(at(claimed), of("first", "a"), of("replay", "a"), of(completed, "a")), false},
		"in flight after its end":               {seq(at(claimed), of(completed, "a"), at(inFlight)), false},
		"unknown while it lives":                {seq(at(claimed), at(outcomeUnknown)), false},
		"unknown after its end":                 {seq(at(claimed), of(completed, "a"), at(outcomeUnknown)), false},
		"a conflict with itself":                {seq(at(claimed), at("idempotency_key_conflict")), false},
		"a record by another hand":              {seq(at(claimed), at(otherwise)), false},
	} {
		if got := judge(c.h) == porcupine.Ok; got != c.fine {
			t.Errorf("%s: judged %v", name, got)
		}
	}
	// What is left out for another that says as much is said by that other.
	wide, narrow := &happening{kind: inFlight, call: 0, ret: 100}, &happening{kind: inFlight, call: 70, ret: 80}
	h := []*happening{{kind: claimed, seq: 1, call: 1, ret: 2}, wide, {kind: completed, charge: "a", seq: 2, call: 3, ret: 60}}
	if judge(h) != porcupine.Ok || judge(append(h, narrow)) != porcupine.Illegal {
		t.Error("an answer within the time of another is overlooked")
	}
}

// history is what happened to the keys of a run, of which one at a time is called.
type history struct {
	t     *testing.T
	began time.Time
	close func()

	mu      sync.Mutex
	keys    []*keyHistory
	records map[string]*keyHistory // by their keys in etcd
	reached int64                  // etcd's revision up to which it is told
}

type keyHistory struct {
	name, record  string
	began, lasts  time.Duration // when it was called first, and how long the call takes at least
	all           []*happening
	seq           int
	last          string
	nonce, holder uint64
}

// observe begins to watch etcd.
func observe(t *testing.T, members []*member) *history {
	t.Helper()
	h := &history{t: t, began: time.Now(), records: map[string]*keyHistory{}}
	var endpoints []string
	for _, m := range members {
		endpoints = append(endpoints, m.addr)
	}
	c, err := clientv3.New(clientv3.Config{Endpoints: endpoints, Logger: zap.NewNop(), DialTimeout: 5 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	now, err := c.Get(ctx, "/callonce/", clientv3.WithPrefix())
	if err != nil {
		t.Fatal(err)
	}
	for _, kv := range now.Kvs {
		h.records[string(kv.Key)] = nil // none of ours
	}
	h.reached = now.Header.Revision
	var watching sync.WaitGroup
	changes := c.Watch(clientv3.WithRequireLeader(ctx), "/callonce/", clientv3.WithPrefix(), clientv3.WithRev(h.reached+1))
	watching.Go(func() {
		for {
			for r := range changes {
				h.mu.Lock()
				for _, e := range r.Events {
					h.changed(e)
				}
				h.mu.Unlock()
			}
			// Without a leader the watch ends; it goes on where it was.
			if ctx.Err() != nil {
				return
			}
			time.Sleep(20 * time.Millisecond)
			h.mu.Lock()
			from := h.reached + 1
			h.mu.Unlock()
			changes = c.Watch(clientv3.WithRequireLeader(ctx), "/callonce/", clientv3.WithPrefix(), clientv3.WithRev(from))
		}
	})
	h.close = sync.OnceFunc(func() {
		stop()
		watching.Wait()
		c.Close()
	})
	t.Cleanup(h.close)
	return h
}

func (h *history) now() time.Duration { return time.Since(h.began) }

// changed takes one change of etcd, in their order.
func (h *history) changed(e *clientv3.Event) {
	h.reached = max(h.reached, e.Kv.ModRevision)
	key := string(e.Kv.Key)
	if i := strings.Index(key, "/h/"); i >= 0 {
		var holder uint64
		if _, err := fmt.Sscanf(key[i+3:], "%x", &holder); err != nil {
			h.t.Errorf("key %s: %v", key, err)
		}
		for _, k := range h.records {
			if k != nil && k.holder == holder && k.last == claimed && e.Type == clientv3.EventTypeDelete {
				h.add(k, holderDies, "")
			}
		}
		return
	}
	k, seen := h.records[key]
	if seen && k == nil {
		return
	}
	if !seen {
		if k = h.keys[len(h.keys)-1]; k.record != "" {
			h.t.Errorf("%s has two records, %s and %s", k.name, k.record, key)
		}
		k.record = key
		h.records[key] = k
	}
	if e.Type == clientv3.EventTypeDelete {
		k.nonce, k.holder = 0, 0
		h.add(k, gone, "")
		return
	}
	// As docs/etcd.md has it for operators.
	b := e.Kv.Value
	if len(b) < 88 {
		h.add(k, otherwise, "")
		return
	}
	holder, nonce := binary.LittleEndian.Uint64(b[40:]), binary.LittleEndian.Uint64(b[48:])
	kind := otherwise
	switch {
	case b[3] == 1 && nonce != k.nonce:
		kind = claimed
		k.nonce, k.holder = nonce, holder
	case b[3] == 2 && nonce == k.nonce && holder == k.holder:
		kind = completed
	case b[3] == 3 && nonce == k.nonce && holder == k.holder:
		kind = markedUnknown
	}
	h.add(k, kind, chargeIn(string(b[88:])))
}

// add notes a change. It was made before it was told, and not before the first call; a settlement not before the call may have ended.
func (h *history) add(k *keyHistory, kind, charge string) {
	k.seq++
	k.last = kind
	c := &happening{kind: kind, charge: charge, seq: k.seq, call: k.began, ret: h.now()}
	if kind == completed {
		c.call += k.lasts
	}
	c.ret = max(c.ret, c.call)
	k.all = append(k.all, c)
}

// chargeIn finds the charge that an answer names.
func chargeIn(text string) string {
	_, rest, ok := strings.Cut(text, `"charge_id":"`)
	if !ok {
		return ""
	}
	id, _, _ := strings.Cut(rest, `"`)
	return id
}

// begin says which key is called from now on.
func (h *history) begin(key string, delayMS int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.keys = append(h.keys, &keyHistory{name: key, began: h.now(), lasts: time.Duration(delayMS) * time.Millisecond})
}

// pay is payOnce for the key that was begun, and noted.
func (h *history) pay(e *envoytest.Envoy) string {
	h.mu.Lock()
	k := h.keys[len(h.keys)-1]
	h.mu.Unlock()
	call := h.now()
	kind, text := payText(h.t, e.URL(), k.name, int(k.lasts.Milliseconds()))
	ret := h.now()
	h.mu.Lock()
	defer h.mu.Unlock()
	k.all = append(k.all, &happening{kind: kind, charge: chargeIn(text), call: call, ret: ret})
	return kind
}

// payUntil calls until it is settled.
func (h *history) payUntilSettled(e *envoytest.Envoy) string {
	h.t.Helper()
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(50 * time.Millisecond) {
		switch kind := h.pay(e); {
		case settled(kind):
			return kind
		case time.Now().After(deadline):
			h.t.Fatalf("for a minute nothing but %q; envoy logged:\n%s", kind, e.Logs())
		}
	}
}

// judge holds every key against what one ledger could have said, and counts what it was told of etcd.
func (h *history) judge() {
	h.t.Helper()
	for deadline := time.Now().Add(time.Minute); !h.complete() && time.Now().Before(deadline); {
		time.Sleep(20 * time.Millisecond)
	}
	h.close()
	changes, answers := map[string]int{}, 0
	for _, k := range h.keys {
		for _, c := range k.all {
			if c.seq > 0 {
				changes[c.kind]++
			} else {
				answers++
			}
		}
		if got := judge(k.all); got != porcupine.Ok {
			h.t.Errorf("%s: porcupine says %s of\n%s", k.name, got, k)
		}
	}
	h.t.Logf("%d histories of %d answers and, in etcd, of %v judged", len(h.keys), answers, changes)
	if changes[claimed] < len(h.keys) {
		h.t.Errorf("etcd told of %d claims of %d keys", changes[claimed], len(h.keys))
	}
}

// complete says that etcd has told how each key was settled, where it was.
func (h *history) complete() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, k := range h.keys {
		replayed := slices.ContainsFunc(k.all, func(c *happening) bool { return c.kind == "replay" })
		if k.last == "" || replayed && k.last != completed {
			return false
		}
	}
	return true
}

func (k *keyHistory) String() string {
	var b strings.Builder
	for _, c := range k.all {
		fmt.Fprintf(&b, "%12v %12v %2d %s %s\n", c.call, c.ret, c.seq, c.kind, c.charge)
	}
	return b.String()
}
