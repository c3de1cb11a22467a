package conformance

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
)

// What the designs ask for that needs a server which plays along.
var intents = []Case{
	{71, "confirm-first,-then-run", true, confirmFirst},
}

// confirming is a server whose tool charges only when it is told so, by an argument: the
// first answer is an ordinary result that asks for it. It deduplicates by the key that it
// gets, as the servers do that preset forward is for.
type confirming struct {
	mu      sync.Mutex
	lose    int // answers to confirmed calls that are lost on the way, yet
	charges int
	byKey   map[string]int
}

func (c *confirming) answer(w http.ResponseWriter, s seen) {
	if !strings.Contains(s.Args, `"confirmed":true`) {
		writeJSON(w, answerTo(s, `"result":{"content":[{"type":"text","text":"confirm first"}],"structuredContent":{"status":"confirmation_required"}}`))
		return
	}
	c.mu.Lock()
	key := s.Header.Get("X-Idempotency-Key")
	n, known := c.byKey[key]
	if !known || key == "" {
		c.charges++
		n = c.charges
		c.byKey[key] = n
	}
	lost := c.lose > 0
	if lost {
		c.lose--
	}
	c.mu.Unlock()
	if lost {
		hangUp(w)
		return
	}
	writeJSON(w, answerTo(s, fmt.Sprintf(`"result":{"content":[],"structuredContent":{"status":"done","charge":%d}}`, n)))
}

// confirmFirst plays both steps under one key: the first step's answer keeps nothing, the
// confirmed call runs, its answer is lost, and it is sent again. Whether the flag counts
// as a part of the call makes no difference but for a late repeat of the first step.
func confirmFirst(t *testing.T, f Front) {
	const notDone = `"not_done":[{"pointer":"/structuredContent/status","equals":"confirmation_required"}]`
	for name, setup := range map[string]struct {
		policy, tool string
		lost, late   string // what the re-sent confirmation and the late first step get
		runs         int    // tools/call that reach the server in all
	}{
		// The server deduplicates by the key that goes on, so the lost call may go again.
		"forward": {`"preset":"forward"`, `,"exclude":["/confirmed"]`, "first", "replay", 4},
		"refused": {`"keys":["json:/params/arguments/idempotency_key"],"strip":true`, `,"exclude":["/confirmed"]`, unknownOutcome, unknownOutcome, 3},
		"bound":   {`"keys":["json:/params/arguments/idempotency_key"],"strip":true`, ``, unknownOutcome, "idempotency_key_conflict", 3},
	} {
		t.Run(name, func(t *testing.T) {
			server := &confirming{byKey: map[string]int{}, lose: 1}
			config := `{"namespace":"cases","policies":{"p":{` + setup.policy + `,"server":"s","principal":["header:x-user"],
				"tools":[{"match":"charge",` + notDone + setup.tool + `}]}},"default":"p"}`
			c, u, _ := serveWith(t, f, config, server.answer)
			step := func(id string, confirmed bool) reply {
				flag := ""
				if confirmed {
					flag = `,"confirmed":true`
				}
				return c.call(id, "charge", `{"idempotency_key":"k","cents":5`+flag+`}`, "", "X-User", "ada")
			}
			got := func(what string, r reply, want string) {
				t.Helper()
				switch {
				case want == "first":
					wantFirst(t, r)
				case want == "replay":
					wantReplay(t, r)
				case !strings.Contains(r.Body, want):
					t.Fatalf("%s: expected %s, found %d %s", what, want, r.Status, r.Body)
				}
			}
			for id := range 2 { // asked twice: nothing was done, so the tool asks again
				r := step(fmt.Sprint(id), false)
				wantFirst(t, r)
				if !strings.Contains(r.Body, "confirm first") {
					t.Fatalf("the first step: %s", r.Body)
				}
			}
			if r := step("10", true); r.Err == nil && r.Status == 200 {
				t.Fatalf("the confirmation was to be lost: %s", r.Body)
			}
			if server.charges != 1 {
				t.Fatalf("the confirmed call charged %d times, expected 1", server.charges)
			}
			again := step("11", true)
			got("the confirmation, sent again", again, setup.lost)
			if setup.lost == "first" {
				wantReplay(t, step("12", true))
			}
			got("a late first step", step("13", false), setup.late)
			if server.charges != 1 {
				t.Errorf("charged %d times, expected 1", server.charges)
			}
			wantRuns(t, u, setup.runs)
		})
	}
	// The answer reached the proxy, and not its client: the repeat gets it.
	server := &confirming{byKey: map[string]int{}}
	config := strings.Replace(plain, `"server":"s"`, `"server":"s","tools":[{"match":"charge",`+notDone+`}]`, 1)
	c, u, _ := serveWith(t, f, config, server.answer)
	wantFirst(t, c.call("1", "charge", `{}`, "k"))
	done := c.call("2", "charge", `{"confirmed":true}`, "k")
	wantFirst(t, done)
	for range 2 {
		r := c.call("2", "charge", `{"confirmed":true}`, "k")
		wantReplay(t, r)
		if r.Body != done.Body {
			t.Errorf("expected %s, found %s", done.Body, r.Body)
		}
	}
	wantRuns(t, u, 2)
	if server.charges != 1 {
		t.Errorf("charged %d times, expected 1", server.charges)
	}
}
