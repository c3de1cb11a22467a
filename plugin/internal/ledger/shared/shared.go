// Package shared is the ledger in the host's shared data, which all workers of a process share: claims, settlements, the sweep that frees and counts
// again, eviction, the rings of replies, and the worker slots. docs/ledger.md says how the records lie, in which order they are written, and
// why a crash between any two writes is safe. It must know neither what a policy says nor what a call is: policies are numbers, calls are digests.
package shared

import (
	"errors"
	"strconv"

	"github.com/callonce/callonce/plugin/internal/ledger"
	"github.com/callonce/callonce/plugin/internal/ledger/quota"
	"github.com/callonce/callonce/plugin/internal/ledger/record"
)

// Layout is the table's shape. It never depends on the configuration, so that two
// configurations work on one table; a build with another shape refuses to start on it.
type Layout struct {
	Buckets    int // number of buckets
	Ways       int // most entries in one bucket
	PieceBytes int // size of a piece of a reply ring
	Pages      int // number of pages; 0 = Buckets/16, at least 1
	Holders    int // number of worker slots, dead workers' of a while ago too; 0 = 256, at most 4096
	SweepSteps int // most records that one tick looks at; 0 = an eighth of all
}

// DefaultLayout is what the filter is built with. Measured (docs/ledger.md): 4,096
// buckets that hold only the ways in use stay flat up to 65,536 entries. With a tick a
// second a pass of the sweep takes nine seconds.
var DefaultLayout = Layout{Buckets: 4096, Ways: 64, PieceBytes: 4096, Pages: 256, Holders: 256, SweepSteps: 512}

func (l Layout) filled() Layout {
	if l.Pages == 0 {
		l.Pages = max(l.Buckets/16, 1)
	}
	if l.Holders == 0 {
		l.Holders = 256
	}
	l.Holders = min(l.Holders, 1<<record.WorkerSlotBits)
	if l.SweepSteps == 0 {
		l.SweepSteps = max((l.Buckets+2*l.Pages)/8, 1)
	}
	return l
}

// Shared is the store in the host's shared data. The compare-and-swap on a bucket
// is the only deciding step of a key. It belongs to one worker: not for concurrent
// use.
type Shared struct {
	table   record.Table
	env     ledger.Env
	layout  Layout
	prefix  string
	salt    [2]uint64
	self    self
	buckets record.Buckets
	quota   *quota.Pages

	latestRing  ringKey
	buf, keyBuf []byte // scratch of one call
	open        opened
	pending     []pendingSettle
	sweep       sweep
	sweeping    bool
	listing     bool
	seen        []self // heartbeats read in this step of the sweep
	freed       []quota.Change
	evictable   map[uint64]*candidates
	scans       int // full scans for candidates left until the next tick
	vain        int // shorter searches left until then that find nothing
	searched    int // the bucket from which the next one goes on
	warned      map[string]bool
}

var (
	_ ledger.Store = (*Shared)(nil)
	_ ledger.Marks = (*Shared)(nil)
)

// Open proves that the host's table can insert if absent, and agrees with the other
// workers on a salt. The error says what the host did.
func Open(env ledger.Env, namespace string, layout Layout) (*Shared, error) {
	layout = layout.filled()
	s := &Shared{
		env: env, layout: layout, prefix: "callonce/" + namespace + "/",
		evictable: map[uint64]*candidates{},
		scans:     scansPerTick,
		vain:      vainPerTick,
		warned:    map[string]bool{},
	}
	s.table = record.Table{Table: env.Table, Foreign: s.foreign}
	v, err := s.prove()
	if err != nil {
		return nil, err
	}
	var pageSalt uint64
	s.salt, pageSalt = v.Salt()
	s.buckets = record.NewBuckets(&s.table, s.prefix, layout.Buckets, s.salt)
	s.quota = quota.New(&s.table, s.prefix, layout.Pages, pageSalt)
	var b [8]byte
	env.Random(b[:])
	s.sweep.me = record.RandomNumber(&b)
	return s, nil
}

// prove inserts the sentinel twice: the second must fail.
func (s *Shared) prove() (record.Sentinel, error) {
	key := s.prefix + "sentinel"
	v, _, found, err := s.table.Get(key)
	if err != nil {
		return nil, errors.New("shared data cannot be read: " + err.Error())
	}
	if !found {
		// Losing here is fine: another worker was first, and its salt counts.
		if _, err := s.table.Set(key, s.sentinel(), ledger.InsertIfAbsent); err != nil {
			return nil, errors.New("shared data cannot be written: " + err.Error())
		}
		if v, _, found, err = s.table.Get(key); err != nil || !found {
			return nil, errors.New("shared data does not keep what was written")
		}
	}
	there := record.Sentinel(v)
	if !there.Valid() {
		return nil, errors.New("shared data holds foreign bytes at the key " + key + ": expected a sentinel of " +
			strconv.Itoa(record.SentinelSize) + " bytes, found " + strconv.Itoa(len(v)))
	}
	if !s.sentinel().SameShape(there) {
		return nil, errors.New("shared data at the key " + key + " was laid out by a build with another number of buckets, pages or places: give this build another namespace or vm_id")
	}
	overwritten, err := s.table.Set(key, v, ledger.InsertIfAbsent)
	if err != nil {
		return nil, errors.New("shared data cannot be written: " + err.Error())
	}
	if overwritten {
		return nil, errors.New("this host's shared data overwrites a present key where it should insert only if absent: two workers could run one call")
	}
	return there, nil
}

func (s *Shared) sentinel() record.Sentinel {
	var salt [24]byte
	s.env.Random(salt[:])
	return record.NewSentinel(&salt, [4]int{s.layout.Buckets, s.layout.Pages, s.layout.PieceBytes, s.layout.Holders})
}

// Digest is a 64-bit digest of a text, for the counts by principal and scope: SipHash-2-4
// keyed with the salt that all workers of a process share, so that nobody can choose a
// text that counts as another's. It costs a tenth of a SHA-256, and means nothing to
// another process.
func (s *Shared) Digest(text []byte) uint64 { return record.Digest(s.salt, text) }

// foreign tells, once for each key, that a record is not one of ours.
func (s *Shared) foreign(key string) {
	if s.warned[key] {
		return
	}
	s.warned[key] = true
	s.env.Log("foreign bytes in shared data at " + key + ": left alone, and what depends on it is refused")
	s.tell(ledger.Foreign, 0)
}

func (s *Shared) tell(n ledger.Notice, policy uint64) {
	if s.env.Count != nil {
		s.env.Count(n, policy)
	}
}
