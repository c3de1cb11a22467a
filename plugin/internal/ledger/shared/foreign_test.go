package shared

import (
	"bytes"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/callonce/callonce/plugin/internal/ledger"
)

// garbage is bytes that nobody of ours wrote.
func garbage(r *rand.Rand, present []byte, kinds int) []byte {
	switch r.IntN(kinds) {
	case 0:
		return nil
	case 1:
		return []byte("not ours")
	case 2:
		b := make([]byte, r.IntN(300))
		for i := range b {
			b[i] = byte(r.Uint32())
		}
		return b
	case 3:
		return bytes.Clone(present[:r.IntN(len(present)+1)])
	case 4:
		return append(bytes.Clone(present), make([]byte, r.IntN(50))...)
	default:
		b := bytes.Clone(present)
		for range 1 + r.IntN(4) {
			if len(b) > 0 {
				b[r.IntN(len(b))] = byte(r.Uint32())
			}
		}
		return b
	}
}

// Foreign bytes anywhere, also ones that look like ours: nothing panics or hangs, no
// key is made that does not belong, and the reply of another key is never sent.
func TestForeignBytes(t *testing.T) {
	verdicts := map[ledger.Verdict]int{}
	for seed := uint64(1); seed <= 1500; seed++ {
		w := newWorld(seed, tiny, 2)
		w.watch.foreign = true
		watch := w.watch
		w.watch = nil
		r := rand.New(rand.NewPCG(seed, 9))
		before := 0
		for range 120 {
			k := w.worker[r.IntN(2)]
			switch n := r.IntN(12); {
			case n == 0:
				keys := slices.Sorted(maps.Keys(w.cells))
				key := keys[r.IntN(len(keys))]
				kinds := 7
				if strings.Contains(key, "/r/") {
					kinds = 5 // not single bytes of a message, which nothing vouches for
				}
				if !strings.HasSuffix(key, "sentinel") {
					w.set(nil, key, garbage(r, w.cells[key].value, kinds), 0)
				}
			case n == 1:
				w.now += ledger.Mono(r.IntN(9000)) * ledger.Mono(time.Millisecond)
			case n < 4:
				k.tick()
			case n < 6 && len(k.streams) > 0:
				k.settle(k.streams[r.IntN(len(k.streams))], ledger.Event(r.IntN(ledger.NumHolderEvents)), 43+r.IntN(200))
			default:
				c := claimOf(r.IntN(6))
				c.Limits, c.RetryUnknown = small(seed%2 == 0), seed%3 == 0
				before = w.steps
				a, _ := k.store.Ask(ledger.Token{}, c)
				verdicts[a.Verdict]++
				if a.Verdict == ledger.First {
					k.streams = append(k.streams, &flow{ledger.Token{}, c, a.Lease, w.now})
				}
				if a.Verdict == ledger.Replay && (len(a.Reply.Message) < 34 || [32]byte(a.Reply.Message[2:]) != c.ID) {
					t.Fatalf("seed %d: the reply of another key was sent", seed)
				}
				if w.steps-before > 64*64 {
					t.Fatalf("seed %d: one claim took %d calls of the table", seed, w.steps-before)
				}
			}
		}
		w.watch = watch
		if keys, _ := w.size(); keys > 120 {
			t.Fatalf("seed %d: %d keys", seed, keys)
		}
	}
	t.Logf("verdicts: %v", verdicts)
}

// What a claim says where each kind of record is foreign; and that it is left alone.
func TestForeignRecords(t *testing.T) {
	for _, tt := range []struct {
		key          string
		fresh, known ledger.Verdict
	}{
		{"b/0", ledger.RefusedUnavailable, ledger.RefusedUnavailable},
		{"p/0", ledger.RefusedUnavailable, ledger.Replay},
		{"h/0", ledger.First, ledger.Replay},
		{"c/0", ledger.First, ledger.Replay},
		{"r/0/0", ledger.First, ledger.RefusedNotReplayable},
		{"s", ledger.First, ledger.Replay},
	} {
		for _, value := range []string{"", "foreign", "co\x07\x00then what we cannot know", strings.Repeat("x", 4000)} {
			layout := tiny
			layout.Buckets, layout.Pages = 1, 1
			w := newWorld(1, layout, 2)
			holding(w, 0, claimOf(0), true)
			if len(value)%2 == 0 {
				w.worker[0].tick() // a whole pass: a bucket without its epoch is then refused by the pages too
			}
			w.watch.foreign = true
			key := "callonce/test/" + tt.key
			w.set(nil, key, []byte(value), 0)
			want(t, "a known key, foreign "+tt.key, w.worker[1].ask(claimOf(0)).Verdict, tt.known)
			want(t, "a new key, foreign "+tt.key, w.worker[1].ask(claimOf(1)).Verdict, tt.fresh)
			for range 10 {
				w.pass(time.Second)
			}
			if tt.key != "r/0/0" && string(w.cells[key].value) != value {
				t.Errorf("foreign bytes at %s were written over", tt.key)
			}
			if tt.key == "c/0" {
				k := w.worker[1]
				k.settle(k.streams[0], ledger.Complete, 60)
				want(t, "where no reply can be kept", k.ask(claimOf(1)).Verdict, ledger.RefusedNotReplayable)
			}
			sound(t, w)
		}
	}
}

// Open: the proof, and what it refuses.
func TestOpenRefuses(t *testing.T) {
	open := func(w *world, l Layout) error {
		_, err := Open(ledger.Env{Table: (*view)(w.worker[0]), Now: func() ledger.Mono { return w.now }, Random: w.worker[0].fill, Log: func(string) {}}, "test", l)
		return err
	}
	w := newWorld(1, tiny, 1)
	if err := open(w, tiny); err != nil {
		t.Errorf("a second time: %v", err)
	}
	other := tiny
	other.Buckets = 3
	if err := open(w, other); err == nil || !strings.Contains(err.Error(), "another number of buckets") {
		t.Errorf("another shape: %v", err)
	}
	w.set(nil, "callonce/test/sentinel", []byte("foreign"), 0)
	if err := open(w, tiny); err == nil || !strings.Contains(err.Error(), "expected a sentinel of 44 bytes, found 7") {
		t.Errorf("a foreign sentinel: %v", err)
	}
	w.fail = func(string) error { return errTable }
	if err := open(w, tiny); err == nil || !strings.Contains(err.Error(), "cannot be read") {
		t.Errorf("no table: %v", err)
	}
	_, err := Open(ledger.Env{Table: overwriting{}, Now: func() ledger.Mono { return 0 }, Random: w.worker[0].fill, Log: func(string) {}}, "test", tiny)
	if err == nil || !strings.Contains(err.Error(), "overwrites") {
		t.Errorf("a table that overwrites: %v", err)
	}
}

// overwriting is a table whose MaxUint32 is a cas like any other that was never used.
type overwriting map[string][]byte

var overwritten = overwriting{}

func (overwriting) Get(key string) ([]byte, uint32, bool, error) {
	v, ok := overwritten[key]
	return v, 1, ok, nil
}

func (overwriting) Set(key string, v []byte, _ uint32) (bool, error) {
	overwritten[key] = bytes.Clone(v)
	return true, nil
}

// Chosen keys cannot fill few buckets: another table places them elsewhere.
func TestSalt(t *testing.T) {
	layout := tiny
	layout.Buckets = 1024
	a, b := newWorld(1, layout, 2), newWorld(2, layout, 1)
	same := 0
	spread := map[int]int{}
	for n := range 4096 {
		id := idOf(n)
		slot := a.worker[0].store.buckets.Of(&id)
		if slot != a.worker[1].store.buckets.Of(&id) {
			t.Fatal("two workers of one table place a key differently")
		}
		spread[slot]++
		if slot == b.worker[0].store.buckets.Of(&id) {
			same++
		}
	}
	if same > 40 {
		t.Errorf("%d of 4096 keys lie in the same bucket under another salt", same)
	}
	if most := slices.Max(slices.Collect(maps.Values(spread))); most > 20 || len(spread) < 950 {
		t.Errorf("4096 keys lie in %d of 1024 buckets, up to %d in one", len(spread), most)
	}
}
