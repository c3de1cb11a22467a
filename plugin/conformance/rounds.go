package conformance

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"
)

// Calls that take several rounds: the tool asks back before it acts.
var rounds = []Case{
	{42, "each-leg-once", true, legs},
	{52, "a-late-duplicate-of-a-first-leg", false, lateFirstLeg},
}

// asking is a tool that asks two questions, then acts. It counts what it does.
type asking struct {
	mu        sync.Mutex
	questions map[string]int // by request state
	acts      map[string]int
}

func (a *asking) answer(w http.ResponseWriter, s seen) {
	var m struct {
		Params struct {
			RequestState   string
			InputResponses json.RawMessage
			Arguments      struct{ For string }
		}
	}
	_ = json.Unmarshal([]byte(s.Body), &m)
	who, state := m.Params.Arguments.For, m.Params.RequestState
	a.mu.Lock()
	defer a.mu.Unlock()
	next := map[string]string{"": who + "-sure", who + "-sure": who + "-really"}[state]
	if next == "" {
		a.acts[who]++
		event(w, fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":{"resultType":"complete","structuredContent":{"for":%q,"act":%d}}}`, s.ID, who, a.acts[who]))
		return
	}
	a.questions[next]++
	event(w, fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":{"resultType":"input_required","requestState":%q,"inputRequests":{"ok":{"method":"elicitation/create"}}}}`, s.ID, next))
}

// leg sends one leg of who's call under one key for all legs; state is what the last
// question said, "" for the first leg.
func (c *client) leg(id, who, state string) reply {
	more := ""
	if state != "" {
		more = `,"inputResponses":{"ok":{"action":"accept"}},"requestState":"` + state + `"`
	}
	return c.post(`{"jsonrpc":"2.0","id":`+id+`,"method":"tools/call","params":{"name":"charge","arguments":{"for":"`+who+`"}`+more+`}}`,
		"Idempotency-Key", "key-of-"+who)
}

// secondRound sends the first leg again, once the call is over. A ledger that lies elsewhere
// knows that a moment later: until then the question comes again.
func (c *client) secondRound(id, who string) reply {
	r := c.leg(id, who, "")
	for began := time.Now(); time.Since(began) < c.eventual && strings.Contains(r.Body, "input_required"); {
		time.Sleep(eventualPause)
		r = c.leg(id, who, "")
	}
	return r
}

func wantQuestion(t *testing.T, r reply, state string) {
	t.Helper()
	if r.Err != nil || r.Status != 200 || !strings.Contains(r.Body, `"requestState":"`+state+`"`) {
		t.Fatalf("expected the question %s, found %d %v %s", state, r.Status, r.Err, r.Body)
	}
	if r.Header.Get("Idempotency-Replayed") != "" {
		t.Fatalf("a question was kept and replayed: %s", r.Body)
	}
}

func legs(t *testing.T, f Front) {
	a := &asking{questions: map[string]int{}, acts: map[string]int{}}
	c, _, _ := serve(t, f, a.answer)
	// Legs of two calls interleaved, each leg repeated at once and after the next one.
	for id, who := range []string{"ada", "bob", "ada", "bob"} {
		wantQuestion(t, c.leg(fmt.Sprint(id), who, ""), who+"-sure")
	}
	for id, who := range []string{"bob", "ada", "bob", "ada"} {
		wantQuestion(t, c.leg(fmt.Sprint(10+id), who, who+"-sure"), who+"-really")
	}
	final := `"structuredContent":{"for":%q,"act":1}`
	for id, who := range []string{"ada", "bob", "ada", "bob", "bob", "ada"} {
		r := c.leg(fmt.Sprint(20+id), who, who+"-really")
		if id < 2 {
			wantFirst(t, r)
		} else {
			wantReplay(t, r)
		}
		if !strings.Contains(r.Body, fmt.Sprintf(final, who)) || idOf(t, r) != fmt.Sprint(20+id) {
			t.Fatalf("%s's last leg: %s", who, r.Body)
		}
	}
	// Late duplicates of earlier legs: their own questions, and nothing acts.
	wantQuestion(t, c.leg("30", "ada", "ada-sure"), "ada-really")
	// A second round, or a late duplicate of the first leg: the call is over, and has an answer.
	for id, who := range []string{"bob", "ada", "bob"} {
		r := c.secondRound(fmt.Sprint(40+id), who)
		if wantReplay(t, r); !strings.Contains(r.Body, fmt.Sprintf(final, who)) || idOf(t, r) != fmt.Sprint(40+id) {
			t.Fatalf("%s's second round: %s", who, r.Body)
		}
	}
	wantReplay(t, c.leg("32", "bob", "bob-really"))
	for _, who := range []string{"ada", "bob"} {
		if a.acts[who] != 1 {
			t.Errorf("%s's call acted %d times", who, a.acts[who])
		}
	}
}

func lateFirstLeg(t *testing.T, f Front) {
	a := &asking{questions: map[string]int{}, acts: map[string]int{}}
	c, _, _ := serve(t, f, a.answer)
	wantQuestion(t, c.leg("1", "ada", ""), "ada-sure")
	wantQuestion(t, c.leg("2", "ada", "ada-sure"), "ada-really")
	wantQuestion(t, c.leg("20", "ada", ""), "ada-sure") // while the call is not over
	wantFirst(t, c.leg("3", "ada", "ada-really"))
	for id := range 3 {
		r := c.secondRound(fmt.Sprint(4+id), "ada")
		if strings.Contains(r.Body, "new_key") || r.isRefusal() != "" {
			t.Fatalf("a late duplicate was refused, or told to take another key: %s", r.Body)
		}
		wantReplay(t, r)
	}
	wantReplay(t, c.leg("9", "ada", "ada-really"))
	if a.acts["ada"] != 1 {
		t.Errorf("the call acted %d times", a.acts["ada"])
	}
}
