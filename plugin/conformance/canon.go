package conformance

import (
	"fmt"
	"strings"
	"testing"
)

// Canonical JSON, as a caller meets it.
var canon = []Case{
	{22, "integers-beyond-a-double", false, bigIntegers},
	{23, "spellings-of-numbers", false, spellings},
	{24, "member-order", false, memberOrder},
	{25, "broken-strings", false, brokenStrings},
	{26, "duplicate-members", false, duplicateMembers},
}

// sameCall sends two calls under one key and reports whether they are one call.
func sameCall(t *testing.T, c *client, key, a, b string) bool {
	t.Helper()
	wantFirst(t, c.call("1", "charge", a, key))
	r := c.call("2", "charge", b, key)
	if r.isRefusal() == "idempotency_key_conflict" {
		wantRefusal(t, r, 409, "idempotency_key_conflict")
		return false
	}
	wantReplay(t, r)
	return true
}

func bigIntegers(t *testing.T, f Front) {
	c, u, _ := serve(t, f, asJSON)
	a, b := `{ "n" : 9007199254740992 }`, `{ "n" : 9007199254740993 }`
	if sameCall(t, c, "k", a, b) {
		t.Error("two integers that a double cannot tell apart are one call")
	}
	wantFirst(t, c.call("3", "charge", b, "k2"))
	for i, want := range []string{toolCall("1", "charge", a), toolCall("3", "charge", b)} {
		if got := u.Seen()[i].Body; got != want {
			t.Errorf("the forwarded body changed: expected %s, found %s", want, got)
		}
	}
	wantRuns(t, u, 2)
}

func spellings(t *testing.T, f Front) {
	c, _, _ := serve(t, f, asJSON)
	key := 0
	check := func(same bool, values ...string) {
		t.Helper()
		for _, v := range values[1:] {
			key++
			if got := sameCall(t, c, fmt.Sprint("k", key), `{"n":`+values[0]+`}`, `{"n":`+v+`}`); got != same {
				t.Errorf("%s and %s: one call is %v, expected %v", values[0], v, got, same)
			}
		}
	}
	check(true, "1", "1.0", "1e0", "10e-1")
	check(true, "0", "-0", "-0.0e5")
	check(false, "1", `"1"`)
	check(false, "1e400", "1e500", "2e400")
	check(true, "1e999999999", "10e999999998")
	check(false, "1e999999999", "1e999999998")
}

func memberOrder(t *testing.T, f Front) {
	c, u, _ := serve(t, f, asJSON)
	if !sameCall(t, c, "k", "{\"\U0001F600\":1,\"\uFB33\":2}", `{"\ufb33":2,"\ud83d\ude00":1}`) {
		t.Error("two orders of the same members are two calls")
	}
	wantRuns(t, u, 1)
}

func brokenStrings(t *testing.T, f Front) {
	c, u, _ := serve(t, f, asJSON)
	wantFirst(t, c.call("1", "charge", `{"s":"`+"\uFFFD"+`"}`, "k"))
	// Halves of surrogate pairs stand for themselves, and for nothing else.
	for i, s := range []string{`\ud800`, `\ude00\ud83d`, `\\ud800`} {
		if sameCall(t, c, fmt.Sprint("half", i), `{"s":"`+s+`"}`, `{"s":"`+"\uFFFD"+`"}`) {
			t.Errorf("%s and U+FFFD are one call", s)
		}
		wantReplay(t, c.call("3", "charge", `{"s":"`+s+`"}`, fmt.Sprint("half", i)))
	}
	if sameCall(t, c, "halves", `{"s":"\ud800"}`, `{"s":"\\ud800"}`) {
		t.Error("half of a surrogate pair and its spelling as text are one call")
	}
	for _, s := range []string{"\xff", "\xed\xa0\x80"} {
		body := toolCall("2", "charge", `{"s":"`+s+`"}`)
		got := wantRefusal(t, c.post(body, "Idempotency-Key", "k"), 400, "idempotency_unsupported_request")
		if at := fmt.Sprint("byte ", strings.Index(body, s)); !strings.Contains(got.Error.Message, at) {
			t.Errorf("expected the offset (%s) in %q", at, got.Error.Message)
		}
		if got.Error.Data.MayHaveRun != "no" {
			t.Errorf("may_have_run: expected no, found %s", got.Error.Data.MayHaveRun)
		}
	}
	for _, body := range []string{
		toolCall("2", "charge", `{"\ud800":1}`),
		toolCall("2", `charge\ud800`, `{}`),
		toolCall(`"\ud800"`, "charge", `{}`),
		toolCall("2", "charge", `{"idempotency_key":"\ud800"}`),
	} {
		wantRefusal(t, c.post(body, "Idempotency-Key", "k2"), 400, "idempotency_unsupported_request")
	}
	wantRuns(t, u, 5)
}

func duplicateMembers(t *testing.T, f Front) {
	c, u, _ := serve(t, f, asJSON)
	for name, body := range map[string]string{
		"the envelope": `{"jsonrpc":"2.0","id":1,"method":"tools/call","method":"tools/call","params":{"name":"charge"}}`,
		"params":       `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"get","name":"charge"}}`,
		"arguments":    toolCall("1", "charge", `{"a":1,"a":2}`),
		"deep inside":  toolCall("1", "charge", `{"x":[{"y":{"a":1,"b":0,"a":1}}]}`),
		"by escapes":   toolCall("1", "charge", `{"a":1,"\u0061":2}`),
	} {
		r := c.post(body, "Idempotency-Key", "k")
		if r.Status != 400 || r.isRefusal() != "idempotency_unsupported_request" {
			t.Errorf("%s: expected a refusal, found %d %s", name, r.Status, r.Body)
		}
	}
	wantRuns(t, u, 0)
}
