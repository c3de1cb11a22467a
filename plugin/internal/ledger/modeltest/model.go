// Package modeltest holds a store to the contract over random histories: the contract's words as plain code over a plain map, which knows
// neither buckets nor leases. Every store runs it by the same code. It must not know how a store keeps anything: in what stores promise
// differently, the test of each has a word ([Store]).
package modeltest

import (
	"bytes"
	"flag"
	"os"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/callonce/callonce/plugin/internal/ledger"
	"github.com/callonce/callonce/plugin/internal/ledger/state"
)

// Model is what has become of each key.
type Model struct {
	Entries map[int]*Entry // by the number of the key
}

// Entry is one key.
type Entry struct {
	Key              int
	Claim            ledger.Claim
	State            ledger.State
	Holder           int // the worker
	Attempt          int
	Claimed, Settled ledger.Mono
	Stream           *Stream
	Task             bool
}

// Stream is one that won a claim.
type Stream struct {
	Worker int
	Token  ledger.Token
	Claim  ledger.Claim
	Lease  ledger.Lease
	open   bool
}

// Store is a store of two workers under test, its clock, and the words on what another store promises differently. Only one worker acts
// at a time.
type Store interface {
	Now() ledger.Mono
	// Pass lets time pass in which nobody does anything.
	Pass(time.Duration)
	// Claim makes a claim of a key, with an id and a fingerprint of its own.
	Claim(t *rapid.T, key int) ledger.Claim
	// Ask claims for a new stream, and gives the answer once there is one.
	Ask(t *rapid.T, worker int, c ledger.Claim) (ledger.Token, ledger.Answer)
	// Settle gives what came of a settlement in the end: ledger.Applied or ledger.Fenced.
	Settle(t *rapid.T, worker int, l ledger.Lease, o ledger.Outcome) ledger.Settled
	// Ended says that a stream is over; settled, that it had the last word on its call.
	Ended(s *Stream, settled bool)
	Tick(worker int)
	// Ready says whether a worker can do anything without a tick before.
	Ready(worker int) bool

	// Lost says whether an entry in flight has lost its holder, to one who asks; and what is kept of it then: an unknown outcome, or the
	// entry in flight, which its holder may still settle.
	Lost(t *rapid.T, e *Entry, by int) (lost, kept bool)
	// Over says whether an entry counts for no claim any more; and Gone, that it is not there any more.
	Over(t *rapid.T, e *Entry) bool
	Gone(t *rapid.T, e *Entry) bool
	// Kept says whether the reply of a completed entry is still there.
	Kept(e *Entry) bool
	// Room says whether limits let a worker's claim in, and removes what must be evicted.
	Room(m *Model, by, key int, c *ledger.Claim) bool
	// Worse says what an entry that has ended becomes where its own holder has a worse word.
	Worse(m *Model, e *Entry, next ledger.State) ledger.State
	// Done is told of every settlement with a reply of that size; e is nil where it was fenced.
	Done(m *Model, e *Entry, l *ledger.Lease, size int)
	// Ticked is told of a worker's tick, once what its ended streams held is unknown.
	Ticked(m *Model, worker int)
	// Change draws other limits.
	Change(*rapid.T)
	// Check compares what the store alone has with the model, after each step.
	Check(*rapid.T, *Model)
}

// Keys is how many keys there are.
const Keys = 14

// Become makes an entry one of a settled state.
func (e *Entry) Become(st ledger.State, now ledger.Mono) { e.State, e.Settled = st, now }

// Expires is when an entry that has been settled may be forgotten.
func (e *Entry) Expires() ledger.Mono {
	at := e.Settled + ledger.Mono(e.Claim.Terms.TTL)
	if w := e.Claim.Terms.Window; w > 0 {
		at = max(at, e.Claimed+ledger.Mono(w))
	}
	return at
}

func (m *Model) ask(t *rapid.T, s Store, key int, c *ledger.Claim, by int) (ledger.Verdict, *Entry) {
	e := m.Entries[key]
	attempt := 1
	if e != nil && !s.Over(t, e) {
		st := e.State
		if st == ledger.InFlight {
			lost, kept := s.Lost(t, e, by)
			if lost {
				st = ledger.Unknown
			}
			if lost && !kept {
				e.Become(ledger.Unknown, s.Now())
			}
		}
		switch {
		case e.Claim.Fingerprint != c.Fingerprint:
			return ledger.RefusedConflict, e
		case st == ledger.InFlight:
			return ledger.RefusedInFlight, e
		case st == ledger.Completed && (e.Task && !c.TakesTasks || !s.Kept(e)):
			return ledger.RefusedNotReplayable, e
		case st == ledger.Completed:
			return ledger.Replay, e
		case st == ledger.NotReplayable:
			return ledger.RefusedNotReplayable, e
		case !c.RetryUnknown:
			return ledger.RefusedUnknown, e
		}
		attempt = e.Attempt + 1
	}
	if !s.Room(m, by, key, c) {
		return ledger.RefusedCapacity, nil
	}
	n := &Entry{Key: key, Claim: *c, State: ledger.InFlight, Holder: by, Attempt: attempt, Claimed: s.Now()}
	m.Entries[key] = n
	return ledger.First, n
}

// settle says what must come of a settlement. either is set where both would be right: a release of what is free already.
func (m *Model) settle(t *rapid.T, s Store, e *Entry, ev ledger.Event) (want ledger.Settled, either bool) {
	if e == nil || m.Entries[e.Key] != e {
		return ledger.Fenced, ev == ledger.Release && (e == nil || m.Entries[e.Key] == nil)
	}
	if s.Gone(t, e) {
		delete(m.Entries, e.Key)
		return ledger.Fenced, ev == ledger.Release
	}
	next, takes := state.Next(e.State, ev)
	switch {
	case !takes:
		return ledger.Fenced, false
	case next == ledger.Free:
		delete(m.Entries, e.Key)
		return ledger.Applied, false
	case e.State != ledger.InFlight:
		next = s.Worse(m, e, next)
	}
	e.Become(next, s.Now())
	return ledger.Applied, false
}

// of is the entry that a stream has the lease of.
func (m *Model) of(s *Stream) *Entry {
	for _, e := range m.Entries {
		if e.Stream == s {
			return e
		}
	}
	return nil
}

// Run plays 1,500 histories, the same ones in every run unless it is a long one (CALLONCE_LONG_RUN), or what rapid's flags say, and
// reports how often each verdict came.
func Run(t *testing.T, open func(*rapid.T) Store) map[ledger.Verdict]int {
	preset := func(name, value string) {
		if f := flag.Lookup(name); f.Value.String() == f.DefValue {
			_ = f.Value.Set(value)
			t.Cleanup(func() { _ = f.Value.Set(f.DefValue) })
		}
	}
	preset("rapid.checks", "1500")
	if os.Getenv("CALLONCE_LONG_RUN") == "" {
		preset("rapid.seed", "1")
	}
	seen := map[ledger.Verdict]int{}
	rapid.Check(t, func(t *rapid.T) {
		p := &play{t: t, s: open(t), m: &Model{Entries: map[int]*Entry{}}, seen: seen}
		for range rapid.IntRange(20, 200).Draw(t, "steps") {
			p.step(rapid.IntRange(0, 1).Draw(t, "worker"))
			p.s.Check(t, p.m)
		}
	})
	return seen
}

type play struct {
	t       *rapid.T
	s       Store
	m       *Model
	open    [2][]*Stream
	settled []*Entry
	seen    map[ledger.Verdict]int
}

func (p *play) step(worker int) {
	t, s, m := p.t, p.s, p.m
	s.Pass(time.Millisecond)
	p.ready(worker)
	open := p.open[worker]
	switch op := rapid.IntRange(0, 19).Draw(t, "op"); {
	case op < 9:
		p.ask(worker)
	case op < 14 && len(open) > 0:
		p.settle(open[rapid.IntRange(0, len(open)-1).Draw(t, "stream")])
	case op == 14 && len(p.settled) > 0:
		e := p.settled[rapid.IntRange(0, len(p.settled)-1).Draw(t, "settled")]
		ev := []ledger.Event{ledger.MarkUnknown, ledger.MarkNotReplayable}[rapid.IntRange(0, 1).Draw(t, "worse")]
		p.ready(e.Holder)
		want, _ := m.settle(t, s, e, ev)
		if got := s.Settle(t, e.Holder, e.Stream.Lease, ledger.Outcome{Event: ev}); got != want {
			t.Fatalf("second settlement %d of key %d: %d, want %d", ev, e.Key, got, want)
		}
	case op == 15 && len(open) > 0: // its settlement is lost
		open[0].open = false
		s.Ended(open[0], false)
		p.open[worker] = open[1:]
	case op == 16:
		s.Pass(time.Duration(rapid.IntRange(0, 40).Draw(t, "seconds")) * time.Second)
	case op == 17:
		s.Change(t)
	default:
		p.tick(worker)
	}
}

func (p *play) tick(worker int) {
	for _, e := range p.m.Entries {
		if e.State == ledger.InFlight && e.Holder == worker && !e.Stream.open && !p.s.Gone(p.t, e) {
			e.Become(ledger.Unknown, p.s.Now())
		}
	}
	p.s.Tick(worker)
	p.s.Ticked(p.m, worker)
}

func (p *play) ready(worker int) {
	if !p.s.Ready(worker) {
		p.tick(worker)
	}
}

func (p *play) ask(worker int) {
	t, s := p.t, p.s
	key := rapid.IntRange(0, Keys-1).Draw(t, "key")
	c := s.Claim(t, key)
	c.RetryUnknown = rapid.IntRange(0, 3).Draw(t, "retry") == 0
	c.TakesTasks = rapid.Bool().Draw(t, "takes tasks")
	if key%3 == 0 {
		c.Terms.Window = 45 * time.Second
	}
	if rapid.IntRange(0, 9).Draw(t, "other") == 0 {
		c.Fingerprint[0] = 9
	}
	want, e := p.m.ask(t, s, key, &c, worker)
	token, got := s.Ask(t, worker, c)
	if got.Verdict != want {
		t.Fatalf("ask of key %d: %d, want %d", key, got.Verdict, want)
	}
	p.seen[want]++
	switch {
	case want == ledger.First:
		e.Stream = &Stream{Worker: worker, Token: token, Claim: c, Lease: got.Lease, open: true}
		p.open[worker] = append(p.open[worker], e.Stream)
		if got.Lease.Attempt != e.Attempt {
			t.Fatalf("attempt %d, want %d", got.Lease.Attempt, e.Attempt)
		}
	case want == ledger.Replay && !bytes.HasPrefix(got.Reply.Message, Message(&e.Stream.Lease, 0).Message):
		t.Fatalf("key %d is answered with %q", key, got.Reply.Message)
	case e != nil && got.Prior != (ledger.Prior{Known: true, Claimed: e.Claimed, Settled: e.Settled, Attempt: e.Attempt}):
		t.Fatalf("prior %v, want claimed %d settled %d", got.Prior, e.Claimed, e.Settled)
	}
}

func (p *play) settle(f *Stream) {
	t, s := p.t, p.s
	ev := ledger.Event(rapid.IntRange(0, ledger.NumHolderEvents-1).Draw(t, "event"))
	if rapid.Bool().Draw(t, "completes") {
		ev = ledger.Complete
	}
	size, task := rapid.IntRange(43, 200).Draw(t, "size"), rapid.Bool().Draw(t, "task")
	e := p.m.of(f)
	want, either := p.m.settle(t, s, e, ev)
	if ev == ledger.Complete {
		if want == ledger.Applied {
			e.Task = task
			p.settled = append(p.settled, e)
			s.Done(p.m, e, &f.Lease, size)
		} else {
			s.Done(p.m, nil, &f.Lease, size)
		}
	}
	f.open = false
	s.Ended(f, true)
	for i, g := range p.open[f.Worker] {
		if g == f {
			p.open[f.Worker] = append(p.open[f.Worker][:i:i], p.open[f.Worker][i+1:]...)
			break
		}
	}
	r := Message(&f.Lease, size)
	r.Task = task
	if got := s.Settle(t, f.Worker, f.Lease, ledger.Outcome{Event: ev, Reply: r}); got != want && !either {
		t.Fatalf("settle %d: %d, want %d", ev, got, want)
	}
}

// Message is a reply that names its lease.
func Message(l *ledger.Lease, size int) ledger.Reply {
	m := append(append([]byte("1|"), l.ID[:]...), '|')
	for i := range 8 {
		m = append(m, byte(l.Fence>>(8*i)))
	}
	for len(m) < size {
		m = append(m, byte(len(m))^l.ID[0])
	}
	return ledger.Reply{Status: 200, IDStart: 0, IDEnd: 1, Message: m}
}
