package guard

import (
	"maps"
	"slices"
	"strings"
	"testing"
)

// log says which fields of a call are published; those that others go by are there in any case.
func TestChosenFields(t *testing.T) {
	const always = "key_hash outcome"
	for _, c := range []struct{ members, first, repeat, refused string }{
		{`"log":["outcome","refusal","key_hash","tool","duplicate_source","settled"]`, always + " settled tool", always + " duplicate_source tool", "outcome refusal tool"},
		{`"log":[]`, always, always, "outcome refusal"},
		{`"log":["settled_by"]`, always + " settled_by", always, "outcome refusal"},
		{`"log":["attempt","request_id"]`, always + " attempt request_id", always + " attempt request_id", "outcome refusal request_id"},
		{`"log":["arguments_hash","session_hash"]`, always + " arguments_hash session_hash", always + " arguments_hash session_hash", "arguments_hash outcome refusal session_hash"},
		{`"log":["session_hash"]`, always + " session_hash", always + " session_hash", "outcome refusal session_hash"},
		{`"log":[],"count_repeats":true`, always, always + " repeats", "outcome refusal"},
		{`"log":[],"mode":"observe"`, always + " mode", always + " mode", "mode outcome refusal"},
		{`"log":[],"strip":true`, always + " key_taken", always, "outcome refusal"},
	} {
		w := newWorld(t)
		g := w.worker(`{"policies":{"p":{"server":"srv","anonymous":true,"tools":[{"match":"charge","guard":"required","result_id":"/id"}],` + c.members + `}},"default":"p"}`)
		call := func(key ...string) *exchange {
			return w.send(g, toolCall("7", `{}`), append(key, "mcp-session-id", "sess")...)
		}
		check := func(what string, x *exchange, want string) {
			t.Helper()
			want = strings.Join(slices.Sorted(strings.FieldsSeq(want)), " ")
			if got := strings.ReplaceAll(strings.Join(slices.Sorted(maps.Keys(x.state)), " "), "callonce.", ""); got != want {
				t.Errorf("%s, %s: expected %q, found %q", c.members, what, want, got)
			}
		}
		first := call("idempotency-key", "k")
		first.answer(200, "application/json", `{"jsonrpc":"2.0","id":7,"result":{"content":[]}}`)
		check("a first call", first, c.first)
		check("a repeat", call("idempotency-key", "k"), c.repeat)
		check("a refusal", call(), c.refused)
	}
}

// A result's id, and an attempt above the first, are published whatever log says.
func TestFieldsThatAreAskedForElsewhere(t *testing.T) {
	w := newWorld(t)
	g := w.worker(`{"policies":{"p":{"server":"srv","anonymous":true,"log":[],"tools":[{"match":"charge","on_unknown":"retry","result_id":"/id"}]}},"default":"p"}`)
	w.send(g, toolCall("1", `{}`), "idempotency-key", "k").stream.Done()
	x := w.send(g, toolCall("1", `{}`), "idempotency-key", "k")
	x.answer(200, "application/json", `{"jsonrpc":"2.0","id":1,"result":{"content":[],"id":"ch_1"}}`)
	if x.state[stateAttempt] != "2" || x.state[stateResult] != "ch_1" || len(x.state) != 4 {
		t.Errorf("published: %v", x.state)
	}
}

// A repeat's source is counted where it is not published.
func TestSourceIsCountedAnyhow(t *testing.T) {
	w := newWorld(t)
	g := w.worker(`{"policies":{"p":{"server":"srv","anonymous":true,"log":[]}},"default":"p"}`)
	for range 2 {
		w.send(g, toolCall("1", `{}`), "idempotency-key", "k")
	}
	if n := w.count("callonce_duplicates_total", "source=.=transport"); n != 1 {
		t.Errorf("counted: %v", w.counts)
	}
}

// An attempt that the one ahead did not publish was its first, and no other.
func TestLaterAttemptOfAnotherStream(t *testing.T) {
	w := newWorld(t)
	g := w.worker(`{"policies":{"p":{"reply":"http","server":"srv","anonymous":true,"log":[],"tools":[{"match":"charge","on_unknown":"retry"}]}},"default":"p"}`)
	w.send(g, toolCall("1", `{}`), "idempotency-key", "k").stream.Done()
	second := w.send(g, toolCall("1", `{}`), "idempotency-key", "k")
	second.wantSent()
	x := w.open(g, "idempotency-key", "k")
	x.state = map[string]string{stateOutcome: outFirst, stateKey: second.state[stateKey]}
	x.arrive(toolCall("1", `{}`))
	x.wantRefused(409, "idempotency_in_flight")
}
