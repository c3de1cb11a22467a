package mcp_test

import (
	"bytes"
	"encoding/json"
	"math"
	"math/big"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/callonce/callonce/canonical"
	"github.com/callonce/callonce/plugin/internal/mcp"
)

// Finds are kept under testdata/fuzz as numbered cases; every run of the tests goes
// through them.

func FuzzRequest(f *testing.F) {
	for _, c := range requests {
		f.Add([]byte(c.body), uint8(len(c.body)))
	}
	for _, c := range ambiguous {
		if len(c.body) < 2000 {
			f.Add([]byte(c.body), uint8(0))
		}
	}
	for _, c := range keys {
		f.Add([]byte(c.body), uint8(0))
	}
	for _, c := range intents {
		f.Add([]byte(c.body), uint8(15))
	}
	for _, at := range []string{"120", "-0.5", "1e-9", "-1e-9", "1e30", "9007199254740992", "9007199254740993", `"2026-11-29T12:00:59.5+02:00"`, `"1969-12-31T23:59:59Z"`, "0e999999999", "-1e-999999999"} {
		f.Add([]byte(argued(`{"a":`+at+`,"n":`+at+`,"x":{"at":`+at+`},"l":[0,`+at+`]}`)), uint8(8))
	}
	var reused mcp.Request
	f.Fuzz(func(t *testing.T, body []byte, how uint8) {
		with := mcp.Shape{BindID: how&1 != 0}
		if how&2 != 0 {
			with.Exclude = []string{"/a", "/x/nonce", "/l/0", "/l/2/a", "/b/c/d"}
		}
		if how&8 != 0 {
			with.Round = []mcp.Round{{Pointer: "/a", Seconds: 60}, {Pointer: "/n", Seconds: 1}, {Pointer: "/x/at", Seconds: 86400}, {Pointer: "/l/1", Seconds: 7}}
		}
		at := pointers
		if how&4 != 0 {
			at = []string{"/arguments/a", "/k", "/arguments/x/y", "/arguments/a", "/inputResponses/q"}
		}
		was := bytes.Clone(body)
		reused.Read(body, at)
		checkRequest(t, &reused, body, at, with)
		if reused.Read(body, at); reused.Kind == mcp.ToolCall {
			checkStripped(t, &reused, body, at)
		}
		if !bytes.Equal(body, was) {
			t.Fatalf("%q became %q", was, body)
		}
		for n := range min(len(body), 300) {
			reused.CallsNoTool(body[:n])
		}
		if reused.CallsNoTool(body) && isToolCall(body) {
			t.Fatalf("%q: said to call no tool", body)
		}
	})
}

// isToolCall is by encoding/json, for a text that the strict reader has passed.
func isToolCall(body []byte) bool {
	var m map[string]json.RawMessage
	if _, err := canonical.Append(nil, body); err != nil || json.Unmarshal(body, &m) != nil {
		return false
	}
	var method any
	return json.Unmarshal(m["method"], &method) == nil && method == "tools/call"
}

func checkRequest(t *testing.T, r *mcp.Request, body []byte, at []string, with mcp.Shape) {
	form, err := canonical.Append(nil, body)
	defect, ok := err.(*canonical.Error)
	half := !ok && r.Offset >= 0 && bytes.HasPrefix(bytes.ToLower(body[r.Offset:]), []byte(`\ud`)) && r.Kind == mcp.Ambiguous
	if !half && ok != (r.Offset >= 0) || ok && (r.Offset != defect.Offset || r.Kind != mcp.Ambiguous) {
		t.Fatalf("%q: %v, but kind %d at %d", body, err, r.Kind, r.Offset)
	}
	if (r.Kind == mcp.Ambiguous) != (r.Defect != "") || r.Kind != mcp.ToolCall && r.Name != nil {
		t.Fatalf("%q: kind %d, defect %q, name %q", body, r.Kind, r.Defect, r.Name)
	}
	refusal := mcp.Unsupported.AppendError(nil, r.ID, "", "", r.Defect)
	if _, err := canonical.Append(nil, refusal); err != nil {
		t.Fatalf("%q: refused with %q: %v", body, refusal, err)
	}
	key, ok := r.Key()
	if r.Kind != mcp.ToolCall {
		return
	}
	if n := utf8.RuneCount(key); ok && (n > mcp.MaxKey || key != nil && n == 0 || !utf8.Valid(key) || (key != nil) != r.Keyed) {
		t.Fatalf("%q: key %q, keyed %v", body, key, r.Keyed)
	}
	if !isToolCall(body) {
		t.Fatalf("%q: no tool call", body)
	}
	key, state := bytes.Clone(key), r.State(nil)
	intent := r.AppendIntent(nil, with)
	plain := body
	if shown := showHalves(form); !bytes.Equal(shown, form) {
		plain = shown
	}
	if want := referenceIntent(t, plain, at, with); !bytes.Equal(showHalves(intent), want) {
		t.Fatalf("%q, pointers %q, %+v\n got %s\nwant %s", body, at, with, intent, want)
	}
	if len(r.ID) > 21 && r.ID[0] != '"' {
		return // the canonical form of so long an id has an exponent
	}
	var again mcp.Request
	again.Read(form, at)
	againKey, againOK := again.Key()
	if again.Kind != mcp.ToolCall || !bytes.Equal(again.AppendIntent(nil, with), intent) ||
		!bytes.Equal(againKey, key) || againOK != ok || !bytes.Equal(again.Name, r.Name) {
		t.Fatalf("%q and its canonical form %q differ: kind %d, key %q %v, intent %s, want %s", body, form, again.Kind, againKey, againOK, again.AppendIntent(nil, with), intent)
	}
	again.Read(form, at)
	if !bytes.Equal(again.State(nil), state) {
		t.Fatalf("%q: state %s, in canonical form %s", body, state, again.State(nil))
	}
}

// showHalves puts a text in place of each half of a surrogate pair in a canonical form, for
// what knows none.
func showHalves(form []byte) (shown []byte) {
	for i := 0; i < len(form); i++ {
		switch {
		case form[i] != '\\':
			shown = append(shown, form[i])
		case form[i+1] == 'u' && form[i+2] == 'd':
			shown = append(append(append(shown, "<half "...), form[i+2:i+6]...), '>')
			i += 5
		default:
			shown = append(shown, form[i], form[i+1])
			i++
		}
	}
	return shown
}

// referenceIntent is the contract's text by way of encoding/json.
func referenceIntent(t *testing.T, body []byte, at []string, with mcp.Shape) []byte {
	var m map[string]any
	decoder := json.NewDecoder(bytes.NewReader(body))
	decoder.UseNumber()
	if err := decoder.Decode(&m); err != nil {
		t.Fatalf("%q: %v", body, err)
	}
	params := m["params"].(map[string]any)
	out := map[string]any{"method": m["method"], "params": params}
	if with.BindID {
		out["id"] = m["id"]
	}
	for _, r := range with.Round {
		roundAt(params["arguments"], r)
	}
	gone := new(int)
	for _, pointer := range at {
		mark(params, pointer, gone)
	}
	for _, pointer := range with.Exclude {
		mark(params["arguments"], pointer, gone)
	}
	delete(params, "_meta")
	if list, _ := params["arguments"].([]any); list != nil {
		params["arguments"] = nil // an empty one: with elements it is no call
	}
	if sweep(params, gone); params["arguments"] == nil {
		params["arguments"] = map[string]any{}
	}
	text, err := json.Marshal(out)
	if err != nil {
		t.Fatalf("%q: %v", body, err)
	}
	form, err := canonical.Append(nil, text)
	if err != nil {
		t.Fatalf("%q: %v", text, err)
	}
	return form
}

// mark puts gone in the place of what the pointer leads to.
func mark(v any, pointer string, gone *int) {
	tokens := strings.Split(pointer, "/")[1:]
	for i, token := range tokens {
		token = strings.NewReplacer("~1", "/", "~0", "~").Replace(token)
		last := i == len(tokens)-1
		switch c := v.(type) {
		case map[string]any:
			if _, ok := c[token]; ok && last {
				c[token] = gone
			}
			v = c[token]
		case []any:
			n, err := strconv.Atoi(token)
			if err != nil || n >= len(c) {
				return
			}
			if last {
				c[n] = gone
			}
			v = c[n]
		default:
			return
		}
	}
}

// roundAt puts the start of its interval in the place of a time.
func roundAt(arguments any, r mcp.Round) {
	tokens := strings.Split(r.Pointer, "/")[1:]
	for i, token := range tokens {
		last := i == len(tokens)-1
		switch c := arguments.(type) {
		case map[string]any:
			if v, ok := c[token]; ok && last {
				c[token] = rounded(v, r.Seconds)
			}
			arguments = c[token]
		case []any:
			n, _ := strconv.Atoi(token)
			if n >= len(c) {
				return
			}
			if last {
				c[n] = rounded(c[n], r.Seconds)
			}
			arguments = c[n]
		default:
			return
		}
	}
}

func rounded(v any, seconds int) any {
	exact := new(big.Rat)
	switch v := v.(type) {
	case json.Number:
		f, _ := v.Float64() // for the size only: out of range is infinite or 0
		switch {
		case math.Abs(f) > 1e17:
			return v
		case math.Abs(f) > 1e-7:
			exact.SetString(v.String())
		case strings.ContainsAny(strings.SplitN(strings.ToLower(v.String()), "e", 2)[0], "123456789"):
			exact.SetFrac64(1, 2)
			if v[0] == '-' {
				exact.Neg(exact)
			}
		}
		whole := new(big.Int).Quo(exact.Num(), exact.Denom())
		if whole.CmpAbs(big.NewInt(1<<53)) > 0 {
			return v
		}
	case string:
		at, err := time.Parse(time.RFC3339, v)
		if err != nil {
			return v
		}
		exact.SetInt64(at.Unix())
	default:
		return v
	}
	exact.Quo(exact, big.NewRat(int64(seconds), 1))
	return json.Number(new(big.Int).Div(exact.Num(), exact.Denom()).String())
}

// sweep takes out what is marked, and gives what is left of v.
func sweep(v any, gone *int) any {
	switch c := v.(type) {
	case map[string]any:
		for name, value := range c {
			if value == gone {
				delete(c, name)
				continue
			}
			c[name] = sweep(value, gone)
		}
	case []any:
		kept := []any{}
		for _, value := range c {
			if value != gone {
				kept = append(kept, sweep(value, gone))
			}
		}
		return kept
	}
	return v
}

var adverts = []*mcp.Advert{
	{Method: mcp.MethodInitialize},
	{Method: mcp.MethodTools, Argument: "k", Guarded: func(tool string) bool { return tool != "off" }},
}

func FuzzResponse(f *testing.F) {
	f.Add([]byte(`{"id":7,"result":{"capabilities":{"tools":{"listChanged":true}},"_meta":{"a":1}}}`), []byte(`7`), []byte(`8`))
	f.Add([]byte(`{"id":7,"result":{"tools":[{"name":"a","inputSchema":{"type":"object","properties":{"b":{}}}},{"name":"off","inputSchema":{}},{"name":"c","inputSchema":{}}]}}`), []byte(`7`), []byte(`8`))
	for _, c := range answers {
		if len(c.message) < 2000 {
			f.Add([]byte(c.message), []byte(c.id), []byte(`"asking"`))
		}
	}
	var r mcp.Response
	f.Fuzz(func(t *testing.T, message, id, asking []byte) {
		for _, advert := range adverts {
			checkAdvert(t, message, advert)
		}
		kind := r.Read(message, id)
		start, end := r.IDStart, r.IDEnd
		form, err := canonical.Append(nil, message)
		// Half of a surrogate pair alone is bytes deep in a result, and refused in what decides: the reference does not tell them apart.
		half := bytes.Contains(form, []byte(`\ud`))
		if want := referenceAnswer(message, id); err == nil && !half && kind != want {
			t.Fatalf("%q for %s: kind %d, want %d", message, id, kind, want)
		}
		if len(message) > 0 {
			r.Begins(message[:len(message)/2], id)
		}
		kind = r.Read(message, id)
		if kind == mcp.NotOurs || kind == mcp.Malformed || r.IDEnd == 0 {
			return
		}
		text := mcp.Text{Cap: len(message)}
		text.Add(append(bytes.Repeat([]byte(" "), len(message)), message...))
		if again := r.Read(text.Bytes(), id); text.Over || again != kind {
			t.Fatalf("%q without white space is %q: %d, was %d", message, text.Bytes(), again, kind)
		}
		// Whoever asked had an id that is a string or an integer.
		var request mcp.Request
		request.Read(append(append([]byte(`{"id":`), asking...), '}'), nil)
		if asking = request.ID; asking == nil || request.Kind != mcp.Other {
			return
		}
		replay := mcp.AppendReplay(nil, message, start, end, asking)
		if again := r.Read(replay, asking); again != kind {
			t.Fatalf("%q replayed to %s as %q: %d, the first answer was %d", message, asking, replay, again, kind)
		}
		back := mcp.AppendReplay(nil, replay, r.IDStart, r.IDEnd, message[start:end])
		if !bytes.Equal(back, message) {
			t.Fatalf("%q replayed to %s and back: %q", message, asking, back)
		}
		marked := r.AppendMarked(nil, replay)
		if again := r.Read(marked, asking); again != kind || !bytes.Equal(r.AppendMarked(nil, marked), marked) {
			t.Fatalf("%q marked as %q: %d, the first answer was %d", replay, marked, again, kind)
		}
		event := mcp.AppendEvent(nil, message)
		events := mcp.Events{Cap: len(message)}
		got := feed(&events, event, []int{len(event) / 2})
		if len(got) != 1 || events.Oversize {
			t.Fatalf("%q as an event %q: read as %q", message, event, got)
		}
		if again, e := canonical.Append(nil, []byte(got[0])); err == nil && (e != nil || !bytes.Equal(again, form)) || r.Read([]byte(got[0]), id) != kind {
			t.Fatalf("%q through an event: %q, %v", message, got[0], e)
		}
	})
}

// referenceAnswer is what a strict JSON text is, by way of encoding/json.
func referenceAnswer(text, id []byte) mcp.Answer {
	var batch []json.RawMessage
	if json.Unmarshal(text, &batch) == nil && bytes.TrimSpace(text)[0] == '[' {
		if len(batch) > 1 {
			return mcp.Malformed
		}
		if len(batch) == 0 || batch[0][0] != '{' {
			return mcp.NotOurs
		}
		text = batch[0]
	}
	members := func(text json.RawMessage, names ...string) (m map[string]json.RawMessage, caseVariants bool) {
		if json.Unmarshal(text, &m) != nil {
			return nil, false
		}
		for name := range m {
			for _, want := range names {
				caseVariants = caseVariants || m[want] != nil && name != want && strings.EqualFold(name, want)
			}
		}
		return m, caseVariants
	}
	m, caseVariants := members(text, "id", "method", "result", "error")
	result, more := members(m["result"], "isError", "resultType", "_meta")
	failure, still := members(m["error"], "code", "message")
	if caseVariants || more || still {
		return mcp.Malformed
	}
	is := func(raw json.RawMessage, want any) bool {
		var v any
		return raw != nil && json.Unmarshal(raw, &v) == nil && v == want
	}
	failed := m["error"] != nil && string(m["error"]) != "null"
	succeeded := m["result"] != nil && !(failed && string(m["result"]) == "null")
	switch {
	case m["method"] != nil || !failed && !succeeded:
		return mcp.NotOurs
	case failed && succeeded:
		return mcp.Malformed
	}
	cancelled := is(failure["code"], -32800.0) || is(failure["code"], 0.0) && is(failure["message"], "Request cancelled")
	mine, err := canonical.Append(nil, id)
	its, _ := canonical.Append(nil, m["id"])
	switch named := len(its) > 0 && (its[0] == '"' || its[0] == '-' || its[0]-'0' <= 9); {
	case named && (string(m["id"]) == string(id) || err == nil && bytes.Equal(its, mine)):
	case failed && !cancelled && (m["id"] == nil || string(m["id"]) == "null" || string(m["id"]) == `"server-error"`):
		return mcp.Unnamed
	default:
		return mcp.NotOurs
	}
	switch {
	case failed && cancelled:
		return mcp.Cancelled
	case failed:
		return mcp.Failed
	case is(result["resultType"], "input_required"):
		return mcp.InputRequired
	case is(result["resultType"], "task"):
		return mcp.Task
	case is(result["isError"], true):
		return mcp.ToolError
	}
	return mcp.Result
}

func FuzzEvents(f *testing.F) {
	for _, c := range streams {
		f.Add([]byte(c.stream), uint8(5), uint64(len(c.stream)))
	}
	f.Add([]byte(": x\nid: 1\r\ndata: {\"id\":1,\"result\":\ndata:{\"capabilities\":{\"tools\":{}}}}\nretry: 1\n\n"), uint8(90), uint64(1))
	f.Fuzz(func(t *testing.T, stream []byte, limit uint8, seed uint64) {
		r := rand.New(rand.NewPCG(seed, 0))
		checkEvents(t, stream, int(limit), randomCuts(r, len(stream)))
		checkValue(t, string(stream), randomCuts(r, len(stream)))
		event := stream[:mcp.EventEnd(stream, 0)]
		for _, advert := range adverts {
			checkEventAdvert(t, event, advert)
		}
	})
}
