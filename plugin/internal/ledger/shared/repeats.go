package shared

import (
	"strconv"
	"time"

	"github.com/callonce/callonce/plugin/internal/ledger"
	"github.com/callonce/callonce/plugin/internal/ledger/record"
)

// Repeats of a key are counted beside its entry, not in it: a storm of repeats would contend
// with the settlement that ends it. Such a count decides nothing, so it may be lost: where its
// record is full of others that last longer, or the table cannot be written.

// repeatsKeys is the number of records of counts.
const repeatsKeys = 64

// repeatTries is how often a count is tried to be written.
const repeatTries = 4

func validRepeats(b []byte) bool { return record.Repeats(b).Valid() }

// Repeat implements ledger.Marks.
func (s *Shared) Repeat(key uint64, lasting time.Duration) int {
	name := s.prefix + "n/" + strconv.Itoa(int(record.Mix(key)%repeatsKeys))
	for range repeatTries {
		b, cas, st := s.table.Read(name, validRepeats)
		if !st.OK() {
			return 0
		}
		now, m := s.env.Now(), record.Repeats(b)
		w := record.Repeat{Key: key, Until: now + ledger.Mono(lasting), Count: 1}
		i := m.IndexFor(key)
		if i < m.Len() {
			if was := m.At(i); was.Key == key && was.Until > now && was.Until <= now+record.Foreseeable {
				w.Count += was.Count
			}
		}
		s.buf = record.Repeats(append(s.buf[:0], m...)).Put(i, w)
		done, err := s.table.Set(name, s.buf, cas)
		if done {
			return int(min(w.Count, 1<<31-1))
		}
		if err != nil {
			return 0
		}
	}
	return 0
}
