package etcd

import (
	"testing"
	"time"

	"github.com/callonce/callonce/plugin/internal/ledger"
)

// asked are the answers to operators.
type operated struct {
	*rig
	pages       []ledger.Page
	resolutions []ledger.Resolution
}

func (o *operated) Listed(_ ledger.Token, p ledger.Page) { o.pages = append(o.pages, p) }
func (o *operated) Resolved(_ ledger.Token, r ledger.Resolution) {
	o.resolutions = append(o.resolutions, r)
}

func operate(t *testing.T) *operated {
	o := &operated{rig: ready(t)}
	o.store.env.Sink = o
	return o
}

func (o *operated) list(q ledger.Query) ledger.Page {
	o.t.Helper()
	q.Policy = 1
	o.pages = nil
	if p, now := o.store.List(ledger.Token{}, q); now {
		return p
	}
	o.all()
	if len(o.pages) != 1 {
		o.t.Fatalf("%d answers", len(o.pages))
	}
	return o.pages[0]
}

func (o *operated) resolve(key byte, ev ledger.Event) ledger.Resolution {
	o.t.Helper()
	o.resolutions = nil
	if r, now := o.store.Resolve(ledger.Token{}, ledger.Query{Policy: 1, Operation: uint64(key) << 56}, ev); now {
		return r
	}
	o.all()
	if len(o.resolutions) != 1 {
		o.t.Fatalf("%d answers", len(o.resolutions))
	}
	return o.resolutions[0]
}

// unknown leaves a key of unknown outcome.
func (o *operated) unknown(key byte, why ledger.Why) {
	o.t.Helper()
	t, a := o.want(key, ledger.First)
	o.store.Settle(a.Lease, ledger.Outcome{Event: ledger.MarkUnknown, Why: why})
	o.all()
	o.ends(t)
	o.tick()
}

// Pages show each key once, in the order of their ids, and say why.
func TestKeysOfEtcd(t *testing.T) {
	o := operate(t)
	o.store.opts.Page = 3
	why := ledger.Why{Cause: 9, Status: 503}
	for key := byte(1); key <= 8; key++ {
		o.unknown(key, why)
	}
	o.pass(2 * time.Second)
	seen := map[uint64]bool{}
	pages := 0
	for q := (ledger.Query{}); ; pages++ {
		p := o.list(q)
		if p.Failed || p.Hidden > 0 || len(p.Rows) > 3 {
			t.Fatalf("%+v", p)
		}
		for _, r := range p.Rows {
			if seen[r.Operation] || r.State != ledger.Unknown || r.Why != why || r.Attempt != 1 || o.now()-r.Claimed != ledger.Mono(2*time.Second) || r.Settled != r.Claimed {
				t.Errorf("%+v", r)
			}
			seen[r.Operation] = true
		}
		if q.From = p.Next; p.Next == "" {
			break
		}
	}
	if len(seen) != 8 || pages != 2 {
		t.Errorf("%d keys on %d pages and the last", len(seen), pages)
	}
	if p := o.list(ledger.Query{Operation: 3 << 56}); len(p.Rows) != 1 || p.Rows[0].Operation != 3<<56 {
		t.Errorf("%+v", p)
	}
	for name, q := range map[string]ledger.Query{"a state": {States: 1 << ledger.Completed}, "too young": {MinAge: ledger.Mono(time.Minute)}, "a wild place": {From: "x"}} {
		if p := o.list(q); len(p.Rows) != 0 || p.Failed {
			t.Errorf("%s: %+v", name, p)
		}
	}
	// A call whose worker is gone is what the next claim would find.
	_, a := o.want(20, ledger.First)
	if p := o.list(ledger.Query{Operation: 20 << 56}); p.Rows[0].State != ledger.InFlight {
		t.Errorf("%+v", p)
	}
	delete(o.cluster.Keys, o.store.holderKey(a.Lease.Holder))
	if p := o.list(ledger.Query{Operation: 20 << 56}); p.Rows[0].State != ledger.Unknown || p.Rows[0].Why.Cause != ledger.HolderLost {
		t.Errorf("%+v", p)
	}
	o.status = grpcUnavailable
	if p := o.list(ledger.Query{}); !p.Failed {
		t.Errorf("%+v", p)
	}
	o.status, o.err = 0, errNoCluster
	if p, now := o.store.List(ledger.Token{}, ledger.Query{Policy: 1}); !now || !p.Failed {
		t.Errorf("%+v", p)
	}
}

// What an operator says of a key is what its repeat gets, in every proxy.
func TestResolveInEtcd(t *testing.T) {
	for ev, want := range map[ledger.Event]ledger.Verdict{
		ledger.ResolveCompleted: ledger.Replay, ledger.ResolveReleased: ledger.First, ledger.ResolveRefused: ledger.RefusedUnknown,
	} {
		o := operate(t)
		o.unknown(1, ledger.Why{Cause: 9})
		if r := o.resolve(2, ev); r.Found || r.Failed {
			t.Errorf("none: %+v", r)
		}
		if r := o.resolve(1, ev); !r.Done || r.Row.State != ledger.Unknown || r.Row.Why.Cause != 9 {
			t.Fatalf("event %d: %+v", ev, r)
		}
		o.tokens++
		token := ledger.Token{Stream: o.tokens, Generation: 1}
		o.live[token] = true
		o.store.Ask(token, ledger.Claim{ID: [32]byte{1}, Fingerprint: [32]byte{1}, Policy: 1, RetryUnknown: true, Terms: ledger.Terms{TTL: rigTTL}})
		o.all()
		a := o.answers[token]
		if a.Verdict != want || a.Reply.Elsewhere != (ev == ledger.ResolveCompleted) {
			t.Errorf("event %d: %+v, want %d", ev, a, want)
		}
	}
	// A call that runs, and one that somebody claims meanwhile, is not touched.
	o := operate(t)
	o.want(1, ledger.First)
	if r := o.resolve(1, ledger.ResolveReleased); !r.Found || r.Done || r.Row.State != ledger.InFlight {
		t.Errorf("in flight: %+v", r)
	}
	o.unknown(2, ledger.Why{})
	o.resolutions = nil
	o.store.Resolve(ledger.Token{}, ledger.Query{Policy: 1, Operation: 2 << 56}, ledger.ResolveReleased)
	o.one()
	e := *o.cluster.Keys[o.store.recordKey(&[32]byte{2})]
	o.cluster.Revision++
	e.Mod = o.cluster.Revision
	o.cluster.Keys[o.store.recordKey(&[32]byte{2})] = &e
	o.all()
	if r := o.resolutions[0]; !r.Found || r.Done || r.Failed || o.cluster.Keys[o.store.recordKey(&[32]byte{2})] == nil {
		t.Errorf("changed meanwhile: %+v", r)
	}
	if r := func() ledger.Resolution {
		r, _ := o.store.Resolve(ledger.Token{}, ledger.Query{Policy: 2, Operation: 2 << 56}, ledger.ResolveReleased)
		o.resolutions = nil
		o.all()
		return append(o.resolutions, r)[0]
	}(); r.Found {
		t.Errorf("another policy's: %+v", r)
	}
}

// Records of the version before are read, and say nothing of what they do not have.
func TestFirstRecords(t *testing.T) {
	r := record{state: ledger.Completed, attempt: 3, nonce: 7, policy: 9, tool: 8, scope: 7, why: ledger.Why{Cause: 6, Status: 200},
		reply: ledger.Reply{Status: 200, IDStart: 1, IDEnd: 3, Message: []byte("hello")}}
	b := r.encode()
	first := append(append([]byte{}, b[:firstHead]...), b[recordHead:]...)
	first[2] = 1
	got, ok := decodeRecord(first)
	if !ok || string(got.reply.Message) != "hello" || got.attempt != 3 || got.policy != 0 || got.why != (ledger.Why{}) {
		t.Errorf("%+v, %v", got, ok)
	}
	if got, ok := decodeRecord(b); !ok || got.policy != 9 || got.tool != 8 || got.scope != 7 || got.why != r.why {
		t.Errorf("%+v, %v", got, ok)
	}
	held := record{state: ledger.Unknown, held: true}
	if got, ok := decodeRecord(held.encode()); !ok || !got.held {
		t.Errorf("%+v, %v", got, ok)
	}
	elsewhere := record{state: ledger.Completed, reply: ledger.Reply{Elsewhere: true}}
	if got, ok := decodeRecord(elsewhere.encode()); !ok || !got.reply.Elsewhere {
		t.Errorf("%+v, %v", got, ok)
	}
}

// An act that names no key is one on none.
func TestResolveNothingInEtcd(t *testing.T) {
	o := operate(t)
	o.unknown(1, ledger.Why{})
	if r := o.resolve(0, ledger.ResolveReleased); r.Found || r.Done {
		t.Errorf("%+v", r)
	}
	o.want(1, ledger.RefusedUnknown)
}
