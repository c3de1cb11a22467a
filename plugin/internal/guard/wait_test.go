package guard

import (
	"fmt"
	"testing"

	"github.com/callonce/callonce/plugin/internal/ledger"
)

// slowStore answers when it is told to, as a remote one would.
type slowStore struct {
	asked     []ledger.Token
	forgotten map[ledger.Token]bool
	settled   int
}

func (s *slowStore) Ask(t ledger.Token, _ ledger.Claim) (ledger.Answer, bool) {
	s.asked = append(s.asked, t)
	return ledger.Answer{}, false
}

func (s *slowStore) Settle(ledger.Lease, ledger.Outcome) ledger.Settled {
	s.settled++
	return ledger.Applied
}

func (s *slowStore) Forget(t ledger.Token) { s.forgotten[t] = true }
func (s *slowStore) Tick(ledger.Mono)      {}

// Case 32 with a store that is not at hand: 500 calls are paused until it answers, 250
// of their clients leave before. The others get their answer, once; an answer for one
// that left finds nobody; nothing is left over.
func TestHalfOfTheHeldLeave(t *testing.T) {
	const calls = 500
	w := newWorld(t)
	g := w.worker(plain)
	store := &slowStore{forgotten: map[ledger.Token]bool{}}
	g.store = store
	var all []*exchange
	for i := range calls {
		x := w.send(g, toolCall(fmt.Sprint(i), `{}`), "idempotency-key", "k")
		if x.sent || x.status != 0 {
			t.Fatalf("call %d was not held: sent %v, status %d", i, x.sent, x.status)
		}
		all = append(all, x)
	}
	for i := 1; i < calls; i += 2 {
		all[i].stream.Done()
		if !store.forgotten[store.asked[i]] {
			t.Fatalf("the store was not told that call %d is gone", i)
		}
	}
	for i, token := range store.asked {
		switch {
		case i == 0:
			g.Answered(token, ledger.Answer{Verdict: ledger.First})
		default:
			g.Answered(token, ledger.Answer{Verdict: ledger.RefusedInFlight})
		}
		g.Answered(token, ledger.Answer{Verdict: ledger.RefusedUnknown}) // a second one finds nobody
	}
	for i, x := range all {
		switch {
		case i == 0:
			if !x.resumed || x.status != 0 {
				t.Errorf("the first call: resumed %v, status %d", x.resumed, x.status)
			}
			x.sent = true
			x.answer(200, "application/json", `{"jsonrpc":"2.0","id":0,"result":{}}`)
		case i%2 == 1:
			if x.replies != 0 || x.resumed {
				t.Errorf("call %d is gone, and was answered", i)
			}
		default:
			x.wantRefused(409, "idempotency_in_flight")
			x.stream.Done()
		}
	}
	if len(g.waiting) != 0 || len(g.open) != 0 || len(store.forgotten) != calls/2 || store.settled != 1 {
		t.Errorf("left over: %d waiting, %d open; %d forgotten, %d settled", len(g.waiting), len(g.open), len(store.forgotten), store.settled)
	}
}
