package shared

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"iter"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/callonce/callonce/hostsim/explore"
	"github.com/callonce/callonce/plugin/internal/ledger"
	"github.com/callonce/callonce/plugin/internal/ledger/record"
)

// A world is a table with the host's exact semantics, a clock that moves only when
// told, and workers, each with a Shared of its own. Every call of the table is a point
// where a schedule may switch to another worker, or end this one for good. A watcher
// looks at every write (watch_test.go).
type world struct {
	cells  map[string]cell
	cas    uint32
	now    ledger.Mono
	layout Layout
	random *rand.Rand
	seed   uint64
	worker []*worker
	watch  *watcher
	broken error                 // the first violation
	fail   func(op string) error // failing calls of the table
	lose   func(key string) bool // writes that the table refuses, though nobody was quicker

	gets, sets         int
	getBytes, setBytes int
	runs               map[[32]byte]int
	notices            map[ledger.Notice]int
	steps              int
	did                *explore.Footprint // of the present step; nil while nobody explores
	cacheOneOf         int                // of how many of a cap one may be cached; 0 = as ever
}

type cell struct {
	value []byte
	cas   uint32
}

var tiny = Layout{Buckets: 2, Ways: 8, PieceBytes: 64, Pages: 2, Holders: 16, SweepSteps: 3}

func newWorld(seed uint64, layout Layout, workers int) *world {
	w := &world{
		cells: map[string]cell{}, layout: layout.filled(), now: ledger.Mono(time.Hour),
		random: rand.New(rand.NewPCG(seed, 1)), seed: seed, runs: map[[32]byte]int{}, notices: map[ledger.Notice]int{},
	}
	w.watch = newWatcher(w)
	for range workers {
		w.start(nil)
	}
	return w
}

func (w *world) violated(format string, args ...any) {
	if w.broken == nil {
		w.broken = fmt.Errorf("step %d: "+format, append([]any{w.steps}, args...)...)
	}
}

// worker is one VM. A crashed one is started again in its place, as another holder.
type worker struct {
	*world
	n       int
	store   *Shared
	streams []*flow // open ones
	tokens  uint32
	lives   int

	drawn *rand.Rand

	yield func(string) // set while a task runs under a schedule; it says which access of the table is next
	next  func() (string, bool)
	stop  func()
	doing string
	waits string // the access that the next step begins with
}

// flow is a stream that won a claim.
type flow struct {
	token ledger.Token
	claim ledger.Claim
	lease ledger.Lease
	asked ledger.Mono
}

func (w *world) start(old *worker) *worker {
	k := old
	if k == nil {
		k = &worker{world: w, n: len(w.worker)}
		w.worker = append(w.worker, k)
	}
	w.fail = nil // a worker that cannot open its store never starts
	k.streams, k.lives = nil, k.lives+1
	// Each life draws by itself: what one worker draws is no other's business.
	k.drawn = rand.New(rand.NewPCG(w.seed, uint64(k.n)<<32|uint64(k.lives)))
	store, err := Open(ledger.Env{
		Table:  (*view)(k),
		Now:    w.time,
		Random: k.fill,
		Log:    func(string) {},
		Live:   k.live,
		Count:  func(n ledger.Notice, _ uint64) { w.notices[n]++ },

		Policies: []uint64{numberOf("p")},
	}, "test", w.layout)
	if err != nil {
		panic(err)
	}
	k.store = store
	if w.cacheOneOf > 0 {
		store.quota.CacheOneOf(w.cacheOneOf)
	}
	return k
}

func (k *worker) fill(b []byte) {
	for i := range b {
		b[i] = byte(k.drawn.Uint32())
	}
}

// time is the clock, as whoever reads it during a step.
func (w *world) time() ledger.Mono {
	w.touch(clockTouch, false)
	return w.now
}

// What steps have in common beside the keys of the table: the clock, and what the watcher compares.
const (
	clockTouch   = "clock"
	bucketsTouch = "what all buckets hold"
	holderTouch  = "heartbeats of "
)

// touch notes what the present step reads or writes, while an explorer wants to know.
func (w *world) touch(what string, writes bool) {
	if w.did != nil {
		w.did.Touch(explore.Touch{What: what, Writes: writes})
	}
}

func (k *worker) live(t ledger.Token) bool {
	return slices.ContainsFunc(k.streams, func(f *flow) bool { return f.token == t })
}

// view is the table as one worker sees it.
type view worker

var errTable = errors.New("the table does not answer")

func (v *view) point(op, key string) error {
	k := (*worker)(v)
	k.steps++
	if k.yield != nil {
		k.yield(op + " " + key)
	}
	if k.fail != nil {
		return k.fail(op)
	}
	return nil
}

func (v *view) Get(key string) ([]byte, uint32, bool, error) {
	if err := v.point("get", key); err != nil {
		return nil, 0, false, err
	}
	v.touch(explore.KeyTouch+key, false)
	c, ok := v.cells[key]
	v.gets++
	v.getBytes += len(c.value)
	return append(make([]byte, 0, len(c.value)), c.value...), c.cas, ok, nil
}

func (v *view) Set(key string, value []byte, cas uint32) (bool, error) {
	if err := v.point("set", key); err != nil {
		return false, err
	}
	v.sets++
	v.setBytes += len(value)
	if v.lose != nil && v.lose(key) {
		return false, nil
	}
	return v.world.set((*worker)(v), key, value, cas), nil
}

// set has the semantics measured on Envoy: 0 always overwrites, MaxUint32 (or any cas
// but the present one) mismatches a present key and creates an absent one, and the
// numbers come from one counter of the process.
func (w *world) set(by *worker, key string, value []byte, cas uint32) bool {
	old, present := w.cells[key]
	if present && cas != 0 && cas != old.cas {
		w.touch(explore.KeyTouch+key, false)
		return false
	}
	w.touch(explore.KeyTouch+key, true)
	w.cas++
	w.cells[key] = cell{bytes.Clone(value), w.cas}
	if w.watch != nil {
		w.watch.wrote(by, key, old.value, value)
	}
	return true
}

// size gives the keys of the table, and the bytes of keys and values.
func (w *world) size() (keys int, bytes int64) {
	for k, c := range w.cells {
		bytes += int64(len(k) + len(c.value))
	}
	return len(w.cells), bytes
}

type crashed struct{}

// begin starts a task; each step then runs it to the next call of the table.
func (k *worker) begin(doing string, task func()) {
	k.doing, k.waits = doing, "begin"
	k.next, k.stop = iter.Pull(func(yield func(string) bool) {
		defer func() {
			k.yield = nil
			if r := recover(); r != nil && r != (crashed{}) {
				k.violated("worker %d panics in %s: %v", k.n, doing, r)
			}
		}()
		k.yield = func(access string) {
			if !yield(access) {
				panic(crashed{})
			}
		}
		task()
	})
}

func (k *worker) idle() bool { return k.next == nil }

func (k *worker) step() {
	waits, more := k.next()
	if k.waits = waits; !more {
		k.next, k.stop = nil, nil
	}
}

// abandon puts the worker away in the middle of its task.
func (k *worker) abandon() {
	if k.stop != nil {
		k.stop()
		k.next, k.stop = nil, nil
	}
}

// crash ends the worker between two calls of the table. Its streams are cut.
func (k *worker) crash() {
	k.abandon()
	k.start(k)
}

func (k *worker) finish() {
	for !k.idle() {
		k.step()
	}
}

// ask claims in the name of a new stream.
func (k *worker) ask(c ledger.Claim) ledger.Answer {
	k.tokens++
	t := ledger.Token{Stream: uint32(k.n), Generation: k.tokens}
	lives := k.lives
	a, now := k.store.Ask(t, c)
	if !now {
		k.violated("Ask did not answer at once")
	}
	if lives != k.lives {
		return a
	}
	switch a.Verdict {
	case ledger.First:
		k.runs[c.ID]++
		k.streams = append(k.streams, &flow{t, c, a.Lease, k.now})
	case ledger.Replay:
		k.watch.replayed(&c, a.Reply)
	}
	return a
}

// message is a reply that names the run that it answers, of a size that varies.
func message(h *ledger.Lease, size int) ledger.Reply {
	m := append(append([]byte("1|"), h.ID[:]...), '|')
	m = binary.LittleEndian.AppendUint64(m, h.Fence)
	for len(m) < size {
		m = append(m, byte(len(m))^h.ID[0])
	}
	return ledger.Reply{Status: 200, IDStart: 0, IDEnd: 1, Message: m}
}

// settle ends a stream.
func (k *worker) settle(f *flow, ev ledger.Event, size int) ledger.Settled {
	k.streams = slices.DeleteFunc(k.streams, func(g *flow) bool { return g == f })
	o := ledger.Outcome{Event: ev}
	if ev == ledger.Complete {
		o.Reply = message(&f.lease, size)
	}
	return k.store.Settle(f.lease, o)
}

func (k *worker) tick() { k.store.Tick(k.now) }

// heal lets everybody live on undisturbed, without open streams, for the lease and two
// passes of the sweep.
func (w *world) heal(lease time.Duration) {
	w.fail = nil
	for _, k := range w.worker {
		k.finish()
		k.streams = nil
	}
	for t := time.Duration(0); t < lease+time.Second; t += time.Second {
		w.pass(time.Second)
	}
	goal := w.passes() + 2
	for i := 0; w.passes() < goal; i++ {
		if w.pass(time.Second); i > 10000 {
			w.violated("no pass of the sweep ends")
			return
		}
	}
}

// pass moves the clock and ticks every worker.
func (w *world) pass(d time.Duration) {
	w.now += ledger.Mono(d)
	for _, k := range w.worker {
		k.tick()
	}
}

func (w *world) passes() (n int) {
	for _, k := range w.worker {
		n += k.store.sweep.passes
	}
	return n
}

func idOf(n int) (id [32]byte) {
	binary.LittleEndian.PutUint64(id[:], record.Mix(uint64(n)+77))
	binary.LittleEndian.PutUint64(id[8:], uint64(n))
	return id
}

// claimOf is a claim by number: its principal and scope follow from it.
func claimOf(n int) ledger.Claim {
	return ledger.Claim{
		ID: idOf(n), Fingerprint: [32]byte{1}, Policy: numberOf("p"), Principal: uint64(100 + n%2), Scope: uint64(200 + n%4),
		Budget: ledger.Budget{Ring: 0, Bytes: 256}, Limits: usual(),
		Terms: ledger.Terms{TTL: 30 * time.Second, LeaseTTL: 5 * time.Second},
	}
}

// numberOf is the number of a policy, as the guard makes it of a name.
func numberOf(policy string) uint64 {
	h := sha256.Sum256([]byte(policy))
	return binary.LittleEndian.Uint64(h[:])
}

// usual are limits that are wide for these tests, and of which some quota is cached.
func usual() ledger.Limits {
	return ledger.Limits{
		Entries: 16384, EntriesPerPrincipal: 8192, EntriesPerScope: 8192,
		InFlight: 512, InFlightPerPrincipal: 128, InFlightPerScope: 128,
		TombstonesPerScope: 256,
	}
}
