package conformance

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"
)

// What the designs ask for that needs a server which plays along.
var intents = []Case{
	{71, "confirm-first,-then-run", true, confirmFirst},
	{72, "one-path-in-many-spellings", true, spellingsOfAPath},
	{73, "the-key-in-an-argument", true, keyInAnArgument},
	{74, "the-key-goes-on-in-the-body", true, keyInTheBody},
	{75, "a-failed-attempt,-and-one-that-runs", true, failedAndRunning},
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
	const (
		asked    = `"principal":["header:x-user"],"tools":[{"match":"charge","not_done":[{"pointer":"/structuredContent/status","equals":"confirmation_required"}]`
		inBody   = `"keys":["json:/params/arguments/idempotency_key"],"strip":true,`
		excluded = `,"exclude":["/confirmed"]}]`
		config   = `{"namespace":"cases","policies":{
			"forward":{"server":"forward","preset":"forward",` + asked + excluded + `},
			"refused":{"server":"refused",` + inBody + asked + excluded + `},
			"bound":{"server":"bound",` + inBody + asked + `}]},
			"kept":{"server":"kept",` + inBody + asked + `}]}},
			"routes":{"refused":"refused","bound":"bound","kept":"kept"},"default":"forward"}`
	)
	servers := map[string]*confirming{}
	for _, of := range []string{"forward", "refused", "bound", "kept"} {
		servers[of] = &confirming{byKey: map[string]int{}, lose: 1}
	}
	servers["kept"].lose = 0
	u := newUpstream(t, func(w http.ResponseWriter, s seen) { servers[s.Header.Get("X-Story")].answer(w, s) })
	p := f.Start(t, Setup{Config: config, Upstream: u.URL, Routes: []Route{{When: "refused"}, {When: "bound"}, {When: "kept"}}})
	c := newClient(t, p)
	for _, story := range []struct {
		of           string
		again, third string // what the confirmed call gets that is sent again, and again
		late         string // what a late first step gets
		runs         int    // tools/call that reach the server in all
	}{
		// The server deduplicates by the key that goes on, so the lost call may go again.
		{"forward", "first", "replay", "replay", 4},
		{"refused", unknownOutcome, unknownOutcome, unknownOutcome, 3},
		{"bound", unknownOutcome, unknownOutcome, "idempotency_key_conflict", 3},
		// The answer reaches the proxy: whoever did not get it does now.
		{"kept", "replay", "replay", "idempotency_key_conflict", 3},
	} {
		before, server := u.Runs(), servers[story.of]
		step := func(id string, confirmed bool) reply {
			flag := ""
			if confirmed {
				flag = `,"confirmed":true`
			}
			return c.call(id, "charge", `{"idempotency_key":"k","cents":5`+flag+`}`, "", "X-User", "ada", "X-Route", story.of, "X-Story", story.of)
		}
		got := func(what string, r reply, want string) {
			t.Helper()
			switch {
			case want == "first":
				wantFirst(t, r)
			case want == "replay":
				wantReplay(t, r)
			case !strings.Contains(r.Body, want):
				t.Fatalf("%s: %s: expected %s, found %d %v %s", story.of, what, want, r.Status, r.Err, r.Body)
			}
			if (want == "first" || want == "replay") && !strings.Contains(r.Body, `"charge":1}`) {
				t.Fatalf("%s: %s: expected the first charge, found %s", story.of, what, r.Body)
			}
		}
		for id := range 2 { // asked twice: nothing was done, so the tool asks again
			r := step(fmt.Sprint(id), false)
			if wantFirst(t, r); !strings.Contains(r.Body, "confirm first") {
				t.Fatalf("%s: the first step: %s", story.of, r.Body)
			}
		}
		r := step("10", true)
		// Where the ledger lies elsewhere the first step frees the key a moment after its
		// answer: until then another call under it is a conflict.
		for began := time.Now(); time.Since(began) < c.eventual && strings.Contains(r.Body, "idempotency_key_conflict"); {
			time.Sleep(eventualPause)
			r = step("10", true)
		}
		if story.of == "kept" {
			got("the confirmed call", r, "first")
		} else if r.Err == nil && r.Status == 200 {
			t.Fatalf("%s: the answer was to be lost: %s", story.of, r.Body)
		}
		if server.charges != 1 {
			t.Fatalf("%s: the confirmed call charged %d times, expected 1", story.of, server.charges)
		}
		got("the confirmed call, sent again", step("11", true), story.again)
		got("and again", step("12", true), story.third)
		got("a late first step", step("13", false), story.late)
		if server.charges != 1 {
			t.Errorf("%s: charged %d times, expected 1", story.of, server.charges)
		}
		if n := u.Runs() - before; n != story.runs {
			t.Errorf("%s: the server was called %d times, expected %d", story.of, n, story.runs)
		}
	}
}
