package guard

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// What operators tell apart: refusals by their type, repeats by tool, and answers that were
// kept although they say that the call failed.
func TestCountedByKind(t *testing.T) {
	w := newWorld(t)
	g := w.worker(anyone(`,"tools":[{"match":"pay*","guard":"required"},{"match":"flaky","on_tool_error":"release"},{"match":"*"}]`))
	call := func(tool, key string, h ...string) *exchange {
		if key != "" {
			h = append(h, "idempotency-key", key)
		}
		return w.send(g, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"`+tool+`"}}`, h...)
	}
	const failed, isError = `{"jsonrpc":"2.0","id":1,"error":{"code":-1,"message":"x"}}`, `{"jsonrpc":"2.0","id":1,"result":{"isError":true,"content":[]}}`
	call("pay", "").wantRefused(400, "idempotency_key_required")
	call("pay", "é").wantRefused(400, "idempotency_key_invalid")
	call("pay", "k", "mcp-name", "other")
	call("pay", "a").answer(200, "application/json", failed)
	call("pay", "b").answer(200, "application/json", isError)
	call("pay", "c").answer(200, "application/json", okResult)
	call("flaky", "d").answer(200, "application/json", isError) // released: not kept
	call("other", "e").answer(200, "application/json", isError)
	for range 2 {
		call("pay", "a").wantReplayed(failed)
	}
	call("other", "e").wantReplayed(isError)
	call("other", "f").wantSent()
	call("other", "f").wantRefused(409, "idempotency_in_flight")
	call("pay", "f").wantRefused(409, "idempotency_key_conflict")
	for name, want := range map[string]uint64{
		"server=.=srv;.;reason=.=idempotency_key_required;.;callonce_refusals_total": 1,
		"server=.=srv;.;reason=.=idempotency_key_invalid;.;callonce_refusals_total":  1,
		"server=.=srv;.;reason=.=idempotency_in_flight;.;callonce_refusals_total":    1,
		"server=.=srv;.;reason=.=idempotency_key_conflict;.;callonce_refusals_total": 1,
		"server=.=srv;.;reason=.=header_mismatch;.;callonce_refusals_total":          1,
		"callonce_refusals_total": 5,
		"server=.=srv;.;tool=.=pay*;.;how=.=error;.;callonce_completed_errors_total":      1,
		"server=.=srv;.;tool=.=pay*;.;how=.=tool_error;.;callonce_completed_errors_total": 1,
		"server=.=srv;.;tool=.=*;.;how=.=tool_error;.;callonce_completed_errors_total":    1,
		"callonce_completed_errors_total":                                                 3,
		"server=.=srv;.;tool=.=pay*;.;source=.=transport;.;callonce_duplicates_total":     2,
		"server=.=srv;.;tool=.=*;.;source=.=transport;.;callonce_duplicates_total":        2,
	} {
		if n := w.count(name); n != want {
			t.Errorf("%s: expected %d, found %d", name, want, n)
		}
	}
}

// repeats counts the duplicates of a key, which attempt does not: a key's own, in whatever
// worker, anew after its time, and not those of another call under it.
func TestRepeats(t *testing.T) {
	config := func(more string) string {
		return `{"namespace":"ns","policies":{"p":{"server":"srv","preset":"derived","anonymous":true,"ttl":"1m"` + more + `,"tools":[{"match":"*","guard":"derived","window":"1m"}]}},"default":"p"}`
	}
	w := newWorld(t)
	workers := []*Guard{w.worker(config("")), w.worker(config(""))}
	seen := func(x *exchange) string {
		return x.state["callonce.repeats"] + "/" + x.state["callonce.attempt"]
	}
	call := func(i, n int) *exchange { return w.send(workers[i%2], toolCall("1", fmt.Sprintf(`{"n":%d}`, n))) }
	first := call(0, 1)
	if got := seen(first); got != "/1" {
		t.Errorf("the first call: %s", got)
	}
	for i, want := range []string{"1/1", "2/1", "3/1"} {
		if i == 2 {
			first.answer(200, "application/json", okResult)
		}
		if got := seen(call(i, 1)); got != want {
			t.Errorf("repeat %d: expected %s, found %s", i+1, want, got)
		}
	}
	call(0, 2)
	if got := seen(call(1, 2)); got != "1/1" {
		t.Errorf("a repeat of another call: %s", got)
	}
	w.pass(2 * time.Minute)
	call(0, 1).answer(200, "application/json", okResult)
	if got := seen(call(0, 1)); got != "1/1" {
		t.Errorf("a repeat of a later call: %s", got)
	}
	if got := seen(call(0, 1)); got != "2/1" {
		t.Errorf("and one more: %s", got)
	}
	// Where it is off nothing of it is written.
	off := newWorld(t)
	g := off.worker(config(`,"count_repeats":false`))
	off.send(g, toolCall("1", `{}`))
	if x := off.send(g, toolCall("1", `{}`)); seen(x) != "/1" {
		t.Errorf("off: %s", seen(x))
	}
}

// marker says to programs, or to models too, that an answer is a replay; an error has no place for it.
func TestMarkers(t *testing.T) {
	const result = `{"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":"paid"}]}}`
	const meta, line = `"_meta":{"callonce.dev/replayed":true}`, `nothing was done a second time`
	for marker, want := range map[string][2]bool{"none": {false, false}, "meta": {true, false}, "text": {true, true}} {
		w := newWorld(t)
		g := w.worker(anyone(`,"marker":"` + marker + `"`))
		for key, body := range map[string]string{"a": result, "b": `{"jsonrpc":"2.0","id":1,"error":{"code":-1,"message":"x"}}`} {
			w.send(g, toolCall("1", `{}`), "idempotency-key", key).answer(200, "application/json", body)
			x := w.send(g, toolCall("1", `{}`), "idempotency-key", key)
			if found := [2]bool{strings.Contains(x.reply, meta), strings.Contains(x.reply, line)}; key == "a" && found != want || key == "b" && x.reply != body {
				t.Errorf("%s: found %s", marker, x.reply)
			}
		}
	}
}
