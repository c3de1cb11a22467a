package guard

import (
	"fmt"
	"strings"
	"testing"
)

// chained is a request that goes through two filters in one chain, each with a guard of
// its own, over the state of one stream.
type chained struct{ ahead, behind *exchange }

func (w *world) chain(ahead, behind *Guard, body string, headers ...string) chained {
	c := chained{ahead: w.send(ahead, body, headers...)}
	if !c.ahead.sent {
		return c
	}
	c.behind = w.open(behind)
	c.behind.state, c.behind.request = c.ahead.state, c.ahead.request
	c.behind.arrive(string(c.ahead.body))
	return c
}

func (c chained) sent() bool { return c.behind != nil && c.behind.sent }

func (c chained) answer(body string) {
	c.behind.t.Helper()
	c.behind.answer(200, "application/json", body)
	c.ahead.answer(200, "application/json", body)
}

const twiceOf = `{"namespace":%q,"policies":{"p":{"reply":"http","server":"srv","anonymous":true,%s}},"default":"p"}`

// Issue 10, point 7: twice in one chain, with the same configuration or another. Each
// intent runs once, its repeat gets the answer, and another key is another intent.
func TestTwiceInOneChain(t *testing.T) {
	same := func(members string) [2]string {
		c := fmt.Sprintf(twiceOf, "ns", members)
		return [2]string{c, c}
	}
	header := func(key string) func() (string, []string) {
		return func() (string, []string) {
			return toolCall("1", `{"a":1}`), []string{"idempotency-key", key}
		}
	}
	argument := func(key string) func() (string, []string) {
		return func() (string, []string) { return toolCall("1", `{"a":1,"idempotency_key":"`+key+`"}`), nil }
	}
	for _, c := range []struct {
		name    string
		configs [2]string
		key     func(string) func() (string, []string)
		passed  uint64 // calls that the one behind let pass: of two intents
	}{
		{"the same configuration", same(`"ttl":"60s"`), header, 2},
		{"no fields but those that must be", same(`"log":[]`), header, 2},
		{"no fields, the key cut out", same(`"log":[],"strip":true,"tools":[{"match":"*","guard":"derived"}]`), argument, 1},
		{"another namespace", [2]string{fmt.Sprintf(twiceOf, "ns", `"ttl":"60s"`), fmt.Sprintf(twiceOf, "local", `"ttl":"60s"`)}, header, 0},
		{"another fingerprint", [2]string{fmt.Sprintf(twiceOf, "ns", `"ttl":"60s"`), fmt.Sprintf(twiceOf, "ns", `"bind_request_id":true`)}, header, 2},
		{"another scope", [2]string{fmt.Sprintf(twiceOf, "ns", `"ttl":"60s"`), fmt.Sprintf(twiceOf, "ns", `"session":true,"key_per_tool":true`)}, header, 0},
		{"required", same(`"tools":[{"match":"*","guard":"required"}]`), header, 2},
		{"the key cut out, required", same(`"strip":true,"tools":[{"match":"*","guard":"required"}]`), argument, 2},
		{"the key cut out, derived", same(`"strip":true,"tools":[{"match":"*","guard":"derived"}]`), argument, 1},
		{"the key cut out, optional", same(`"strip":true`), argument, 0},
		{"the key moved, derived", same(`"preset":"forward","tools":[{"match":"*","guard":"derived"}]`), argument, 2},
		{"the key moved, required", same(`"preset":"forward","tools":[{"match":"*","guard":"required"}]`), argument, 2},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t)
			ahead, behind := w.worker(c.configs[0]), w.worker(c.configs[1])
			for i, key := range []string{"k1", "k2"} {
				body, headers := c.key(key)()
				x := w.chain(ahead, behind, body, headers...)
				if !x.sent() {
					t.Fatalf("key %s was not sent: %+v %+v", key, x.ahead.reply, x.behind)
				}
				if f := x.behind.header("x-idempotency-key"); len(f) > 0 && f[0] != key {
					t.Errorf("the server gets the key %v, want %s", f, key)
				}
				running := w.chain(ahead, behind, body, headers...)
				if running.behind != nil || !strings.Contains(running.ahead.reply, "in_") {
					t.Fatalf("a repeat while it runs: %+v", running.ahead.reply)
				}
				if o := x.ahead.state["callonce.outcome"]; o != "first" {
					t.Errorf("published: %s", o)
				}
				x.answer(fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"result":{"content":[],"n":%d}}`, i))
				repeat := w.chain(ahead, behind, body, headers...)
				if repeat.behind != nil || !strings.Contains(repeat.ahead.reply, fmt.Sprintf(`"n":%d`, i)) {
					t.Fatalf("a repeat: %+v", repeat.ahead.reply)
				}
			}
			said := 0
			for _, l := range w.logs {
				said += strings.Count(l, "twice in one chain")
			}
			if n := w.count("callonce_claimed_ahead_total"); n != c.passed || said != int(min(n, 1)) {
				t.Errorf("%d calls let pass, said %d times, want %d", n, said, c.passed)
			}
			if n := w.count("callonce_duplicates_total"); n != 4 {
				t.Errorf("%d duplicates counted, want the 4 repeats", n)
			}
		})
	}
}

// A claim of somebody else is not that of this stream, whatever a caller says of it, and
// whatever else the stream has.
func TestClaimOfAnotherStream(t *testing.T) {
	w := newWorld(t)
	ahead := w.worker(fmt.Sprintf(twiceOf, "ns", `"session":true`))
	behind := w.worker(fmt.Sprintf(twiceOf, "ns", `"session":false`))
	other := w.send(behind, toolCall("1", `{}`), "idempotency-key", "k")
	other.wantSent()

	// Claimed by the one ahead, under an id of its own.
	c := w.chain(ahead, behind, toolCall("1", `{}`), "idempotency-key", "k", "mcp-session-id", "s")
	if c.behind == nil {
		t.Fatal(c.ahead.reply)
	}
	c.behind.wantRefused(409, "idempotency_in_flight")
	// That refusal proves that nothing was sent: the one ahead keeps the key free.
	c.ahead.properties["response.code_details"] = ""
	c.ahead.properties["response.flags"] = strings.Repeat("\x00", 8)
	c.ahead.begin(409, "application/json")
	c.ahead.chunks(c.behind.reply, 100)
	c.ahead.stream.Done()
	if n := w.count("callonce_settled_total", "how=.=released"); n != 1 {
		t.Errorf("a call that was refused behind: want it released, found %v", w.counts)
	}

	for _, state := range []map[string]string{
		{"callonce.outcome": "first"},
		{"callonce.outcome": "first", "callonce.key_hash": other.state["callonce.key_hash"], "callonce.attempt": "2"},
		{"callonce.outcome": "replay", "callonce.key_hash": other.state["callonce.key_hash"], "callonce.attempt": "1"},
		{"callonce.outcome": "first", "callonce.key_hash": "0123456789abcdef", "callonce.attempt": "1"},
		{"callonce.key_taken": "true", "callonce.outcome": "first"},
	} {
		x := w.open(behind, "idempotency-key", "k", "wasm.callonce.outcome", "first", "callonce.outcome", "first")
		x.state = state
		x.arrive(toolCall("1", `{}`))
		x.wantRefused(409, "idempotency_in_flight")
	}
	if n := w.count("callonce_claimed_ahead_total"); n != 0 {
		t.Errorf("%d calls let pass", n)
	}
}

// Behind a filter that waits too, all of a request may have come with its headers: then
// no more of it shows that headers are not buffered.
func TestWholeWithItsHeaders(t *testing.T) {
	for name, missing := range map[string]uint64{"all of it": 0, "all but a byte": 1} {
		w := newWorld(t)
		g := w.worker(plain)
		body := toolCall("1", `{}`)
		x := w.open(g, "idempotency-key", "k", "content-length", fmt.Sprint(len(body)))
		x.size = uint64(len(body)) - missing
		for _, l := range x.request {
			x.size += uint64(len(l[0]) + len(l[1]))
		}
		if x.stream.RequestHeaders(false) != Pause {
			t.Fatal("the headers were not held")
		}
		g.Look()
		if x.resumed != (missing == 0) || (g.buffering == notBuffered) != (missing == 0) {
			t.Errorf("%s: let go %v, learned %v", name, x.resumed, g.buffering)
		}
	}
}
