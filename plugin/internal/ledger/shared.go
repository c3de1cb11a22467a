package ledger

import (
	"crypto/sha256"
	"errors"
	"strconv"
	"time"
)

// Layout is the table's shape. It never depends on the configuration, so that two
// configurations work on one table; a build with another shape refuses to start on it.
type Layout struct {
	Buckets    int // number of buckets
	Ways       int // most entries in one bucket
	PieceBytes int // size of a piece of a reply ring
	Pages      int // number of pages; 0 = Buckets/16, at least 1
	Holders    int // most workers, dead ones of a while ago too; 0 = 256, at most 4096
	SweepSteps int // most records that one tick looks at; 0 = an eighth of all
}

// DefaultLayout is what the filter is built with. Measured (ledger.md): 4,096
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
	l.Holders = min(l.Holders, 1<<workerSlotBits)
	if l.SweepSteps == 0 {
		l.SweepSteps = max((l.Buckets+2*l.Pages)/8, 1)
	}
	return l
}

// maxTries bounds every compare-and-swap loop: a worker that loses that often gives
// up and the call is refused, so that no callback runs without end.
const maxTries = 64

// Shared is the store in the host's shared data. The compare-and-swap on a bucket
// is the only deciding step of a key. It belongs to one worker: not for concurrent
// use.
type Shared struct {
	table     Table
	now       func() Mono
	random    func([]byte)
	log       func(string)
	live      func(Token) bool
	count     func(Notice, string)
	late      func(string, Event)
	onEvicted func(string, time.Duration)
	census    func(string, Census)

	layout   Layout
	prefix   string
	salt     [2]uint64
	pageSalt uint64
	self     self
	policies policies

	bucketKeys, pageKeys []string
	latestRing           ringKey
	buf, pageBuf, keyBuf []byte // scratch of one call
	open                 opened
	pending              []pendingSettle
	cache                quotaCache
	sweep                sweep
	sweeping             bool
	seen                 []self // signs of life read in this step of the sweep
	freed                []change
	evictable            map[uint64]*candidates
	scans                int // full scans for candidates left until the next tick
	warned               map[string]bool
}

var _ Store = (*Shared)(nil)

// Open proves that the host's table can insert if absent, and agrees with the other
// workers on a salt. The error says what the host did.
func Open(env Env, namespace string, layout Layout) (*Shared, error) {
	layout = layout.filled()
	s := &Shared{
		table: env.Table, now: env.Now, random: env.Random, log: env.Log,
		live: env.Live, count: env.Count, late: env.Late, onEvicted: env.Evicted, census: env.Census,
		layout:     layout,
		prefix:     "callonce/" + namespace + "/",
		bucketKeys: make([]string, layout.Buckets),
		pageKeys:   make([]string, layout.Pages),
		evictable:  map[uint64]*candidates{},
		scans:      scansPerTick,
		warned:     map[string]bool{},
	}
	for _, name := range env.Policies {
		s.policies.digest(name)
	}
	if err := s.prove(); err != nil {
		return nil, err
	}
	var b [8]byte
	s.random(b[:])
	s.sweep.me = le.Uint64(b[:])
	return s, nil
}

// The sentinel holds the salt of the hashes, without which chosen keys could fill few
// buckets, and the table's shape.
//
//	sentinel  magic 'c' 's', format, 0 | salt 24 | buckets, pages, piece bytes, holders u32
const (
	sentinelFormat = 1
	sentinelSize   = 44
)

// prove inserts the sentinel twice: the second must fail.
func (s *Shared) prove() error {
	key := s.prefix + "sentinel"
	v, _, found, err := s.table.Get(key)
	if err != nil {
		return errors.New("shared data cannot be read: " + err.Error())
	}
	if !found {
		// Losing here is fine: another worker was first, and its salt counts.
		if _, err := s.table.Set(key, s.sentinel(), InsertIfAbsent); err != nil {
			return errors.New("shared data cannot be written: " + err.Error())
		}
		if v, _, found, err = s.table.Get(key); err != nil || !found {
			return errors.New("shared data does not keep what was written")
		}
	}
	if len(v) != sentinelSize || v[0] != 'c' || v[1] != 's' || v[2] != sentinelFormat {
		return errors.New("shared data holds foreign bytes at the key " + key + ": expected a sentinel of " +
			strconv.Itoa(sentinelSize) + " bytes, found " + strconv.Itoa(len(v)))
	}
	if mine := s.sentinel(); string(mine[28:]) != string(v[28:]) {
		return errors.New("shared data at the key " + key + " was laid out by a build with another number of buckets, pages or places: give this build another namespace or vm_id")
	}
	s.salt = [2]uint64{le.Uint64(v[4:]), le.Uint64(v[12:])}
	s.pageSalt = le.Uint64(v[20:])
	overwritten, err := s.table.Set(key, v, InsertIfAbsent)
	if err != nil {
		return errors.New("shared data cannot be written: " + err.Error())
	}
	if overwritten {
		return errors.New("this host's shared data overwrites a present key where it should insert only if absent: two workers could run one call")
	}
	return nil
}

func (s *Shared) sentinel() []byte {
	b := append(make([]byte, 0, sentinelSize), 'c', 's', sentinelFormat, 0)
	var salt [24]byte
	s.random(salt[:])
	b = append(b, salt[:]...)
	for _, n := range []int{s.layout.Buckets, s.layout.Pages, s.layout.PieceBytes, s.layout.Holders} {
		b = le.AppendUint32(b, uint32(n))
	}
	return b
}

// bucketOf places an id, which is a hash already; the salt keeps the place from those
// who choose keys.
func (s *Shared) bucketOf(id *[32]byte) int {
	h := s.salt[0]
	for i := 0; i < len(id); i += 8 {
		h = mix(h^le.Uint64(id[i:])) + s.salt[1]
	}
	return int(mix(h) % uint64(s.layout.Buckets))
}

func (s *Shared) bucketKey(n int) string {
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
	case len(v) == 0 || !bucket(v).valid():
		// An emptied bucket is foreign too: with it the fences given out are forgotten.
		s.foreign(key)
		return nil, 0, false
	}
	return v, cas, true
}

// foreign tells, once for each key, that a record is not one of ours.
func (s *Shared) foreign(key string) {
	if s.warned[key] {
		return
	}
	s.warned[key] = true
	s.log("foreign bytes in shared data at " + key + ": left alone, and what depends on it is refused")
	s.tell(Foreign, "")
}

// policies are the names of policies by the digests that records hold.
type policies struct {
	digests map[string]uint64
	names   map[uint64]string
	// latest is what was asked for last.
	latest       string
	latestDigest uint64
}

func (p *policies) digest(name string) uint64 {
	if p.digests != nil && name == p.latest {
		return p.latestDigest
	}
	d, ok := p.digests[name]
	if !ok {
		d = p.enter(name)
	}
	p.latest, p.latestDigest = name, d
	return d
}

func (p *policies) enter(name string) uint64 {
	if p.digests == nil {
		p.digests, p.names = map[string]uint64{}, map[uint64]string{}
	}
	h := sha256.Sum256([]byte(name))
	d := le.Uint64(h[:])
	p.digests[name], p.names[d] = d, name
	return d
}

// notice counts something that happened to an entry.
func (s *Shared) notice(n Notice, e entry) { s.tell(n, s.policies.names[e.policy()]) }

func (s *Shared) tell(n Notice, policy string) {
	if s.count != nil {
		s.count(n, policy)
	}
}
