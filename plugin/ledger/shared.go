package ledger

import (
	"crypto/sha256"
	"errors"
	"strconv"
)

// Layout is the table's shape. It never depends on the configuration, so that two
// configurations, or two builds, work on one table.
type Layout struct {
	Buckets    int // number of buckets
	Ways       int // most entries in one bucket
	PieceBytes int // size of a piece of a reply ring
}

// DefaultLayout is what the filter is built with. Measured (ledger.md): 4,096
// buckets that hold only the ways in use stay flat up to 65,536 entries.
var DefaultLayout = Layout{Buckets: 4096, Ways: 64, PieceBytes: 4096}

// maxTries bounds every compare-and-swap loop: a worker that loses that often gives
// up and the call is refused, so that no callback runs without end.
const maxTries = 64

// Env is what a store needs of the worker that it runs in.
type Env struct {
	Table  Table
	Now    func() Mono
	Random func(into []byte) // unpredictable bytes
	Log    func(text string)
}

// Shared is the store in the host's shared data. The compare-and-swap on a bucket
// is the only deciding step of a key. It belongs to one worker: not for concurrent
// use.
type Shared struct {
	table       Table
	now         func() Mono
	log         func(string)
	layout      Layout
	prefix      string
	salt        [16]byte
	incarnation uint64 // of this VM; a reloaded VM is another holder

	bucketKeys []string
	buf        []byte
	pending    []pendingSettle
}

type pendingSettle struct {
	hold    Hold
	outcome Outcome
}

// Open proves that the host's table can insert if absent, agrees with the other
// workers on a salt, and gives this worker its incarnation. The error says what the
// host did.
func Open(env Env, namespace string, layout Layout) (*Shared, error) {
	s := &Shared{
		table: env.Table, now: env.Now, log: env.Log, layout: layout,
		prefix:     "callonce/" + namespace + "/",
		bucketKeys: make([]string, layout.Buckets),
	}
	var b [8]byte
	env.Random(b[:])
	s.incarnation = le.Uint64(b[:])
	if err := s.prove(env.Random); err != nil {
		return nil, err
	}
	return s, nil
}

// prove inserts a sentinel twice. Its value is the salt of the bucket hash: without
// one, chosen keys could fill few buckets.
func (s *Shared) prove(random func([]byte)) error {
	key := s.prefix + "sentinel"
	v, _, found, err := s.table.Get(key)
	if err != nil {
		return errors.New("shared data cannot be read: " + err.Error())
	}
	if !found {
		var salt [16]byte
		random(salt[:])
		// Losing here is fine: another worker was first, and its salt counts.
		if _, err := s.table.Set(key, salt[:], InsertIfAbsent); err != nil {
			return errors.New("shared data cannot be written: " + err.Error())
		}
		if v, _, found, err = s.table.Get(key); err != nil || !found {
			return errors.New("shared data does not keep what was written")
		}
	}
	if len(v) != len(s.salt) {
		return errors.New("shared data holds foreign bytes at the key " + key + ": expected 16 bytes, found " + strconv.Itoa(len(v)))
	}
	copy(s.salt[:], v)
	overwritten, err := s.table.Set(key, v, InsertIfAbsent)
	if err != nil {
		return errors.New("shared data cannot be written: " + err.Error())
	}
	if overwritten {
		return errors.New("this host's shared data overwrites a present key where it should insert only if absent: two workers could run one call")
	}
	return nil
}

func (s *Shared) bucketKey(id *[32]byte) string {
	var in [48]byte
	copy(in[:], s.salt[:])
	copy(in[16:], id[:])
	h := sha256.Sum256(in[:])
	n := int(le.Uint64(h[:]) % uint64(s.layout.Buckets))
	if s.bucketKeys[n] == "" {
		s.bucketKeys[n] = s.prefix + "b/" + strconv.Itoa(n)
	}
	return s.bucketKeys[n]
}

// read gives a bucket and the cas to write it with.
func (s *Shared) read(key string) (bucket, uint32, bool) {
	v, cas, found, err := s.table.Get(key)
	switch {
	case err != nil:
		return nil, 0, false
	case !found:
		return nil, InsertIfAbsent, true
	case !bucket(v).valid():
		s.log("foreign bytes in shared data at " + key + ": calls of this bucket are refused")
		return nil, 0, false
	}
	return v, cas, true
}

// Ask implements Store. It always answers at once.
func (s *Shared) Ask(_ Token, c Claim) (Answer, bool) {
	key := s.bucketKey(&c.ID)
	for range maxTries {
		b, cas, ok := s.read(key)
		if !ok {
			return Answer{Verdict: RefusedUnavailable}, true
		}
		now := s.now()
		e, found := b.find(&c.ID)
		v := decide(e, found, &c, now)
		if v == Replay {
			return s.replay(e), true
		}
		if v != First {
			return Answer{Verdict: v}, true
		}
		hold, got := s.claim(key, b, cas, &c, now)
		if got != lost {
			return Answer{Verdict: got, Hold: hold}, true
		}
	}
	return Answer{Verdict: RefusedUnavailable}, true
}

// lost is what claim says when another worker changed the bucket in between.
const lost Verdict = 255

// claim writes the entry with the cas that the decision was read with, never a
// fresh one: between the two nothing may have changed.
func (s *Shared) claim(key string, b bucket, cas uint32, c *Claim, now Mono) (Hold, Verdict) {
	fence := b.fence() + 1
	buf := appendHeader(s.buf[:0], b, fence)
	buf, ways := appendLive(buf, b, &c.ID, now)
	if ways >= s.layout.Ways {
		s.buf = buf
		return Hold{}, RefusedCapacity
	}
	s.buf = appendClaim(buf, c, fence, s.incarnation, now)
	won, err := s.table.Set(key, s.buf, cas)
	switch {
	case err != nil:
		return Hold{}, RefusedUnavailable
	case !won:
		return Hold{}, lost
	}
	return Hold{ID: c.ID, Fence: fence, Claimed: now, Budget: c.Budget, Terms: c.Terms}, First
}

func (s *Shared) replay(e entry) Answer {
	r, ok := s.fetch(e)
	if !ok {
		// Shed under pressure, or overwritten: the call ran all the same.
		return Answer{Verdict: RefusedNotReplayable}
	}
	return Answer{Verdict: Replay, Reply: r}
}

// Settle implements Store.
func (s *Shared) Settle(h Hold, o Outcome) Settled {
	var at place
	if o.Event == Complete {
		// The reply first, the entry after it: whoever reads "completed" finds the reply.
		var ok bool
		if at, ok = s.keep(&h, &o.Reply); !ok {
			o = Outcome{Event: BuryNotReplayable}
		}
	}
	done := s.apply(&h, o.Event, at)
	if done == Pending {
		// Where no reply can be kept until then, the entry says that it ran.
		if o.Event == Complete {
			o = Outcome{Event: BuryNotReplayable}
		}
		s.pending = append(s.pending, pendingSettle{h, o})
	}
	return done
}

func (s *Shared) apply(h *Hold, ev Event, at place) Settled {
	key := s.bucketKey(&h.ID)
	for range maxTries {
		b, cas, ok := s.read(key)
		if !ok {
			return Pending
		}
		now := s.now()
		e, found := b.find(&h.ID)
		next, may := settle(e, found, h, s.incarnation, ev)
		if !may {
			return Fenced
		}
		buf := appendHeader(s.buf[:0], b, b.fence())
		buf, _ = appendLive(buf, b, &h.ID, now)
		if next != Free {
			start := len(buf)
			buf = append(buf, e...)
			w := entry(buf[start:])
			w[offState] = byte(next)
			le.PutUint64(w[offExpires:], uint64(expires(w.claimed(), now, h.Terms)))
			le.PutUint64(w[offSettled:], uint64(now))
			w.setPlace(at)
		}
		s.buf = buf
		done, err := s.table.Set(key, s.buf, cas)
		if err != nil {
			return Pending
		}
		if done {
			return Applied
		}
	}
	return Pending
}

// Forget implements Store: nothing waits here.
func (s *Shared) Forget(Token) {}

// Tick implements Store: what could not be settled is tried again.
func (s *Shared) Tick(Mono) {
	again := s.pending
	s.pending = nil
	for _, p := range again {
		if s.apply(&p.hold, p.outcome.Event, place{}) == Pending {
			s.pending = append(s.pending, p)
		}
	}
}
