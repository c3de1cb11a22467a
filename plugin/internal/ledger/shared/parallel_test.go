package shared

import (
	"bytes"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/callonce/callonce/plugin/internal/ledger"
)

// locked is the host's table for workers that run at the same time.
type locked struct {
	mu    sync.Mutex
	cells map[string]cell
	cas   uint32
}

func (l *locked) Get(key string) ([]byte, uint32, bool, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	c, ok := l.cells[key]
	return bytes.Clone(c.value), c.cas, ok, nil
}

func (l *locked) Set(key string, v []byte, cas uint32) (bool, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if old, ok := l.cells[key]; ok && cas != 0 && cas != old.cas {
		return false, nil
	}
	l.cas++
	l.cells[key] = cell{bytes.Clone(v), l.cas}
	return true, nil
}

// Case 11, on real threads: 200 claims of one key over 8 workers, round after round,
// the sweep at work; every round runs once, and everybody else gets its answer.
func TestParallelClaims(t *testing.T) {
	const workers, rounds, claims = 8, 150, 25
	table := &locked{cells: map[string]cell{}}
	start := time.Now()
	var stores [workers]*Shared
	for i := range stores {
		r := rand.New(rand.NewPCG(uint64(i), 3))
		var err error
		stores[i], err = Open(ledger.Env{
			Table: table,
			Now:   func() ledger.Mono { return ledger.Mono(time.Since(start)) },
			Random: func(b []byte) {
				for i := range b {
					b[i] = byte(r.Uint32())
				}
			},
			Log: func(string) {},
		}, "test", Layout{Buckets: 16, Ways: 64, PieceBytes: 64, Pages: 2, SweepSteps: 5})
		if err != nil {
			t.Fatal(err)
		}
	}
	for round := range rounds {
		var firsts, wrong atomic.Int32
		var wg sync.WaitGroup
		for _, s := range stores {
			wg.Go(func() {
				for range claims {
					c := claimOf(round)
					c.Terms.TTL = time.Hour
					switch a, _ := s.Ask(ledger.Token{}, c); a.Verdict {
					case ledger.First:
						firsts.Add(1)
						if s.Settle(a.Lease, ledger.Outcome{Event: ledger.Complete, Reply: message(&a.Lease, 50)}) != ledger.Applied {
							wrong.Add(1)
						}
					case ledger.Replay:
						if [32]byte(a.Reply.Message[2:]) != c.ID {
							wrong.Add(1)
						}
					case ledger.RefusedInFlight:
					default:
						wrong.Add(1)
					}
				}
				s.Tick(ledger.Mono(time.Since(start)))
				if n := s.OpenLeases(); n != 0 {
					wrong.Add(1)
				}
			})
		}
		wg.Wait()
		if firsts.Load() != 1 || wrong.Load() != 0 {
			t.Fatalf("round %d: %d runs, %d wrong answers", round, firsts.Load(), wrong.Load())
		}
	}
}
