package guard

import (
	"encoding/json"
	"net/url"
	"strings"
	"testing"
	"time"
)

const operated = `{"namespace":"ns","policies":{
	"p":{"server":"srv","principal":["header:x-user"],"reply":"http","tools":[{"match":"char*","on_unknown":"retry"}],
		"operators":{"principal":["metadata:jwt/role=ops",["peer:uri_san=spiffe://corp/ops","metadata:jwt/shift=day"]],"path":"/callonce/keys","callers":true}},
	"q":{"server":"srv","anonymous":true,"operators":{"principal":["metadata:jwt/role=ops"],"path":"/callonce/keys"}},
	"r":{"server":"srv","anonymous":true}},
	"routes":{"q":"q","r":"r"},"default":"p"}`

// asOperator is a request of the interface; is says who sends it by attributes, name and value.
func (w *world) asOperator(g *Guard, method, path string, is ...string) *exchange {
	w.t.Helper()
	return w.operated(g, method, path, []string{"content-type", "application/json"}, is...)
}

func (w *world) operated(g *Guard, method, path string, headers []string, is ...string) *exchange {
	x := w.open(g, append([]string{":method", method, ":path", path}, headers...)...)
	for i := 0; i < len(is); i += 2 {
		x.properties[is[i]] = is[i+1]
	}
	x.arrive("")
	return x
}

var ops = []string{"metadata.filter_metadata.jwt.role", "ops"}

type shownKey struct {
	Path, Operation, State, Tool, Scope, Cause, Resolved string
	Status, Attempt                                      int
	Age                                                  int64 `json:"age_ms"`
	Settled                                              int64 `json:"settled_ms_ago"`
	Expires                                              int64 `json:"expires_in_ms"`
}

type shownPage struct {
	Keys []shownKey
	Next string
}

func (x *exchange) keys(t *testing.T) (p shownPage) {
	t.Helper()
	if x.status != 200 || x.headers["content-type"] != "application/json" || x.headers["cache-control"] != "no-store" {
		t.Fatalf("status %d %v: %s", x.status, x.headers, x.reply)
	}
	if err := json.Unmarshal([]byte(x.reply), &p); err != nil {
		t.Fatalf("%v: %s", err, x.reply)
	}
	return p
}

// unknown leaves a key of unknown outcome, and gives it as an operator sees it.
func (w *world) unknown(g *Guard, key string, headers ...string) shownKey {
	w.t.Helper()
	x := w.send(g, toolCall("1", `{"a":"secret-argument"}`), append(headers, "x-user", "secret-caller", "idempotency-key", key)...)
	x.answer(502, "text/plain", "bad gateway")
	p := w.asOperator(g, "GET", "/callonce/keys?state=outcome_unknown&limit=500", ops...).keys(w.t.(*testing.T))
	for _, k := range p.Keys {
		if k.Operation == x.state[stateKey] {
			return k
		}
	}
	w.t.Fatalf("the key is not shown: %+v", p)
	return shownKey{}
}

// Operators see a key that nobody else sees, and nothing that a caller sent.
func TestOperatorsSeeKeys(t *testing.T) {
	w := newWorld(t)
	w.now = 1e15
	g := w.worker(operated)
	k := w.unknown(g, "secret-key")
	w.pass(1500 * time.Millisecond)
	runs := w.send(g, toolCall("2", `{}`), "x-user", "u", "idempotency-key", "running")
	runs.wantSent()
	x := w.asOperator(g, "GET", "/callonce/keys", ops...)
	p := x.keys(t)
	if len(p.Keys) != 2 || p.Next != "" {
		t.Fatalf("%+v", p)
	}
	for _, s := range []string{"secret", "user"} {
		if strings.Contains(x.reply, s) {
			t.Errorf("%q is shown: %s", s, x.reply)
		}
	}
	got := p.Keys[0]
	if got.State == "in_flight" {
		got = p.Keys[1]
	}
	if got.State != "outcome_unknown" || got.Tool != "char*" || got.Cause != "status_5xx" || got.Status != 502 || got.Attempt != 1 || got.Age != 1500 ||
		got.Settled != 1500 || got.Expires != 300_000-1500 || len(got.Scope) != 16 || got.Operation != k.Operation || got.Path != k.Path {
		t.Errorf("%+v", got)
	}
	if x.state[stateOutcome] != outOperators || w.count("mcp_gateway_idempotency_total", "outcome=.="+outOperators) != 0 {
		t.Errorf("published: %v", x.state)
	}
	one := w.asOperator(g, "GET", k.Path, ops...)
	if one.status != 200 || !strings.Contains(one.reply, `"cause":"status_5xx"`) {
		t.Errorf("one: %d %s", one.status, one.reply)
	}
	if one := w.asOperator(g, "GET", "/callonce/keys/"+k.Operation, ops...); one.status != 200 {
		t.Errorf("one without its place: %d %s", one.status, one.reply)
	}
	for query, n := range map[string]int{
		"state=outcome_unknown": 1, "state=in_flight": 1, "state=completed": 0, "state=in_flight,outcome_unknown": 2, "tool=char*": 2, "tool=*": 0,
		"scope=" + got.Scope: 1, "scope=0000000000000001": 0, "min_age=1s": 1, "min_age=1h": 0, "limit=1": 1,
	} {
		if p := w.asOperator(g, "GET", "/callonce/keys?"+query, ops...).keys(t); len(p.Keys) != n && query != "limit=1" {
			t.Errorf("%s: %d keys, want %d", query, len(p.Keys), n)
		}
	}
	// Another policy's operators see its own keys only.
	if p := w.operatedOn(g, "q", "GET", "/callonce/keys").keys(t); len(p.Keys) != 0 {
		t.Errorf("another policy's: %+v", p)
	}
	runs.answer(200, "application/json", okResult)
}

func (w *world) operatedOn(g *Guard, route, method, path string) *exchange {
	x := w.open(g, ":method", method, ":path", path)
	x.properties["xds.route_name"] = route
	x.properties[ops[0]] = ops[1]
	x.arrive("")
	return x
}

// Nobody is answered whose identity was not verified, and nothing is on that was not switched on.
func TestOperatorsAreVerified(t *testing.T) {
	w := newWorld(t)
	w.now = 1e15
	g := w.worker(operated)
	k := w.unknown(g, "k")
	validated := []string{"metadata.filter_metadata.envoy.filters.http.rbac.callonce_peer_shadow_engine_result", "allowed"}
	peer := []string{"connection.uri_san_peer_certificate", "spiffe://corp/ops"}
	day := []string{"metadata.filter_metadata.jwt.shift", "day"}
	refused := 0
	for _, c := range []struct {
		name string
		is   []string
		ok   bool
	}{
		{"nobody", nil, false},
		{"a claim", ops, true},
		{"another value", []string{ops[0], "ops2"}, false},
		{"a part of the value", []string{ops[0], "op"}, false},
		{"an empty value", []string{ops[0], ""}, false},
		{"one of two", day, false},
		{"a certificate that nobody validated", append(append([]string{}, peer...), day...), false},
		{"a certificate and a claim", append(append(append([]string{}, peer...), day...), validated...), true},
		{"a certificate without the claim", append(append([]string{}, peer...), validated...), false},
	} {
		for _, m := range []string{"GET", "POST"} {
			path := "/callonce/keys"
			if m == "POST" {
				path = k.Path + "&to=refused&reason=r"
			}
			x := w.asOperator(g, m, path, c.is...)
			if x.sent || (x.status == 200) != c.ok || !c.ok && x.status != 403 {
				t.Errorf("%s %s: %d %s", c.name, m, x.status, x.reply)
			}
			if !c.ok {
				refused++
			}
		}
	}
	if n := w.count("callonce_operator_acts_total", "how=.=denied"); n != uint64(refused) {
		t.Errorf("%d denied, want %d", n, refused)
	}
	// A header counts for nothing, whatever it is called.
	if x := w.operated(g, "GET", "/callonce/keys", []string{"x-user", "ops", "role", "ops"}); x.status != 403 {
		t.Errorf("by headers: %d", x.status)
	}
	// Not switched on: it goes on to the server.
	x := w.open(g, ":method", "GET", ":path", "/callonce/keys", "content-type", "(none)")
	x.properties["xds.route_name"] = "r"
	x.properties[ops[0]] = ops[1]
	x.arrive("")
	x.wantSent()
	for _, path := range []string{"/callonce/keysx", "/callonce/key", "/mcp", "/callonce//keys"} {
		if x := w.operated(g, "GET", path, []string{"content-type", "(none)"}, ops...); !x.sent {
			t.Errorf("%s: %d", path, x.status)
		}
	}
}

// A claim may be a list of roles.
func TestOperatorByAListOfRoles(t *testing.T) {
	text := func(s string) []byte { return protoField(fieldText, []byte(s)) }
	list := protoField(fieldList, append(protoField(1, text("dev")), protoField(1, text("ops"))...))
	entry := append(protoField(1, []byte("role")), protoField(2, list)...)
	inside := protoField(1, entry)
	metadata := protoField(1, append(protoField(1, []byte("jwt")), protoField(2, inside)...))
	for value, want := range map[string]int{"ops": 200, "dev": 200, "op": 403, "root": 403} {
		w := newWorld(t)
		g := w.worker(strings.ReplaceAll(operated, "role=ops", "role="+value))
		x := w.open(g, ":method", "GET", ":path", "/callonce/keys")
		x.metadata = metadata
		x.properties[ops[0]] = unreadableProperty
		x.arrive("")
		if x.status != want {
			t.Errorf("%s: %d, want %d", value, x.status, want)
		}
	}
}

func protoField(n int, b []byte) []byte {
	return append([]byte{byte(n<<3 | 2), byte(len(b))}, b...)
}

// What an operator says of a key is what its repeat gets, and who said it is told.
func TestResolve(t *testing.T) {
	for _, c := range []struct {
		to     string
		repeat func(t *testing.T, x *exchange)
		again  int // the same act once more
		state  string
	}{
		{"released", func(t *testing.T, x *exchange) { x.wantSent() }, 404, ""},
		{"refused", func(t *testing.T, x *exchange) { x.wantRefused(409, "idempotency_outcome_unknown") }, 200, "outcome_unknown"},
		{"completed_elsewhere", func(t *testing.T, x *exchange) {
			if x.sent || x.status != 200 || x.headers["idempotency-replayed"] != "true" || !strings.Contains(x.reply, `"id":"again"`) ||
				!strings.Contains(x.reply, `"callonce.dev/completed_elsewhere":true`) || strings.Contains(x.reply, "isError") || !json.Valid([]byte(x.reply)) {
				t.Errorf("status %d %v: %s", x.status, x.headers, x.reply)
			}
		}, 409, "completed"},
	} {
		t.Run(c.to, func(t *testing.T) {
			w := newWorld(t)
			w.now = 1e15
			g := w.worker(operated)
			k := w.unknown(g, "k")
			w.pass(time.Minute)
			w.logs = nil
			act := k.Path + "&to=" + c.to + "&reason=" + url.QueryEscape("looked in the books\n§")
			x := w.asOperator(g, "POST", act, ops...)
			if x.status != 200 || !strings.HasPrefix(x.reply, `{"resolved":"`+c.to+`","was":{`) || !strings.Contains(x.reply, `"cause":"status_5xx"`) {
				t.Fatalf("%d %s", x.status, x.reply)
			}
			if len(w.logs) != 1 || !strings.Contains(w.logs[0], `(tool "char*", outcome_unknown by status_5xx): `+c.to+`, because "looked in the books\n\u00a7"`) ||
				!strings.Contains(w.logs[0], k.Operation) || !strings.HasPrefix(w.logs[0], "operator 801e8c95034ccbd8 ") {
				t.Errorf("log: %q", w.logs)
			}
			if w.count("callonce_operator_acts_total", "how=.="+c.to) != 1 {
				t.Errorf("counted: %v", w.counts)
			}
			if c.state != "" {
				var shown shownKey
				x := w.asOperator(g, "GET", k.Path, ops...)
				if err := json.Unmarshal([]byte(x.reply), &shown); err != nil || shown.State != c.state || shown.Resolved != c.to || shown.Cause != "status_5xx" || shown.Expires != 300_000 {
					t.Errorf("%v %s", err, x.reply)
				}
			}
			if x := w.asOperator(g, "POST", act, ops...); x.status != c.again {
				t.Errorf("once more: %d %s", x.status, x.reply)
			}
			c.repeat(t, w.send(g, toolCall(`"again"`, `{"a":"secret-argument"}`), "x-user", "secret-caller", "idempotency-key", "k"))
			if c.to != "released" {
				w.send(g, toolCall("3", `{"a":1}`), "x-user", "secret-caller", "idempotency-key", "k").wantRefused(409, "idempotency_key_conflict")
				w.pass(5*time.Minute + time.Second)
				w.send(g, toolCall("3", `{"a":1}`), "x-user", "secret-caller", "idempotency-key", "k").wantSent()
			}
		})
	}
}

// Only what nobody knows can be resolved; a call that ran is never released.
func TestResolveTakesUnknownOnly(t *testing.T) {
	w := newWorld(t)
	w.now = 1e15
	g := w.worker(strings.Replace(operated, `"reply":"http",`, `"reply":"http","limits":{"reply_bytes":1000},`, 1))
	call := func(key string) *exchange {
		return w.send(g, toolCall("1", `{}`), "x-user", "u", "idempotency-key", key)
	}
	call("running")
	call("done").answer(200, "application/json", okResult)
	call("long").answer(200, "application/json", `{"jsonrpc":"2.0","id":1,"result":{"text":"`+strings.Repeat("x", 2000)+`"}}`)
	byState := map[string]shownKey{}
	for _, k := range w.asOperator(g, "GET", "/callonce/keys", ops...).keys(t).Keys {
		byState[k.State] = k
	}
	for state, takes := range map[string]string{"in_flight": "", "completed": "", "not_replayable": "completed_elsewhere"} {
		for _, to := range []string{"released", "refused", "completed_elsewhere"} {
			want := 409
			if to == takes {
				want = 200
			}
			if x := w.asOperator(g, "POST", byState[state].Path+"&to="+to+"&reason=r", ops...); x.status != want {
				t.Errorf("%s to %s: %d %s", state, to, x.status, x.reply)
			}
		}
	}
	for path, want := range map[string]int{
		"/callonce/keys?to=released":                                                 405,
		"/callonce/keys/00000000000000aa?at=1&to=released&reason=r":                  404,
		byState["in_flight"].Path + "&to=released":                                   400,
		byState["in_flight"].Path + "&to=free&reason=r":                              400,
		byState["in_flight"].Path + "&to=released&reason=":                           400,
		byState["in_flight"].Path + "&to=released&reason=r&reason=s":                 400,
		byState["in_flight"].Path + "&to=released&reason=%zz":                        400,
		byState["in_flight"].Path + "&to=released&reason=r&x=y":                      400,
		"/callonce/keys/" + byState["in_flight"].Operation + "?to=released&reason=r": 400,
		"/callonce/keys/nonsense?to=released&reason=r":                               404,
	} {
		if x := w.asOperator(g, "POST", path, ops...); x.status != want || x.sent || !strings.HasPrefix(x.reply, `{"error":"`) {
			t.Errorf("%s: %d %s", path, x.status, x.reply)
		}
	}
	// A page of another site can make a browser send this, with the operator's certificate.
	if x := w.operated(g, "POST", byState["in_flight"].Path+"&to=released&reason=r", []string{"content-type", "text/plain"}, ops...); x.status != 415 {
		t.Errorf("as text: %d %s", x.status, x.reply)
	}
	if x := w.asOperator(g, "DELETE", byState["in_flight"].Path, ops...); x.status != 405 {
		t.Errorf("DELETE: %d", x.status)
	}
}

// A caller may ask for its own keys where the policy says so, gets told where, and sees no one else's.
func TestCallersAskForTheirOwn(t *testing.T) {
	w := newWorld(t)
	w.now = 1e15
	g := w.worker(operated)
	w.unknown(g, "k")
	x := w.send(g, toolCall("1", `{"other":"call"}`), "x-user", "secret-caller", "idempotency-key", "k")
	x.wantRefused(409, "idempotency_key_conflict")
	var refused struct {
		Error struct {
			Data struct {
				StatusPath string `json:"status_path"`
			}
		}
	}
	if err := json.Unmarshal([]byte(x.reply), &refused); err != nil || !strings.HasPrefix(refused.Error.Data.StatusPath, "/callonce/keys/own/"+x.state[stateKey]+"?path=/mcp&at=") {
		t.Fatalf("%v: %s", err, x.reply)
	}
	path := refused.Error.Data.StatusPath
	ask := func(path string, headers ...string) *exchange { return w.operated(g, "GET", path, headers) }
	w.pass(2 * time.Second)
	own := ask(path, "x-user", "secret-caller")
	if own.status != 200 || own.reply != `{"operation":"`+x.state[stateKey]+`","state":"outcome_unknown","attempt":1,"age_ms":2000,"settled_ms_ago":2000,"expires_in_ms":298000}` {
		t.Errorf("%d %s", own.status, own.reply)
	}
	for name, x := range map[string]*exchange{
		"another caller":  ask(path, "x-user", "u"),
		"another path":    ask(strings.Replace(path, "path=/mcp", "path=/other", 1), "x-user", "secret-caller"),
		"another key":     ask(strings.Replace(path, x.state[stateKey], "00000000000000aa", 1), "x-user", "secret-caller"),
		"no such bucket":  ask("/callonce/keys/own/"+x.state[stateKey]+"?path=/mcp&at=99999999", "x-user", "secret-caller"),
		"a wild bucket":   ask("/callonce/keys/own/"+x.state[stateKey]+"?path=/mcp&at=-1", "x-user", "secret-caller"),
		"an operator too": w.asOperator(g, "GET", path, append([]string{"x", "y"}, ops...)...),
	} {
		if want := map[bool]int{true: 403, false: 404}[name == "an operator too"]; x.status != want || strings.Contains(x.reply, "state") {
			t.Errorf("%s: %d %s", name, x.status, x.reply)
		}
	}
	if x := ask(path); x.status != 403 {
		t.Errorf("nobody: %d", x.status)
	}
	if x := w.operated(g, "POST", path+"&to=released&reason=r", []string{"x-user", "secret-caller", "content-type", "application/json"}); x.status != 405 {
		t.Errorf("an act of a caller's: %d %s", x.status, x.reply)
	}
	off := w.open(g, "idempotency-key", "k")
	off.properties["xds.route_name"] = "q"
	off.arrive(toolCall("1", `{}`))
	off.answer(502, "text/plain", "bad gateway")
	p := w.operatedOn(g, "q", "GET", "/callonce/keys").keys(t)
	offPath := strings.Replace(p.Keys[0].Path, "/keys/", "/keys/own/", 1) + "&path=/mcp"
	if x := w.operatedOn(g, "q", "GET", offPath); x.status != 404 {
		t.Errorf("where it is off: %d %s", x.status, x.reply)
	}
	if x := w.send(g, toolCall("1", `{}`), "x-user", "u", "idempotency-key", "bad key"); strings.Contains(x.reply, "status_path") {
		t.Errorf("a refusal without a key names a place: %s", x.reply)
	}
}

// Policies whose limits count over the proxy share a number in the ledger, and still no key.
func TestOperatorsOfSharedLimits(t *testing.T) {
	w := newWorld(t)
	w.now = 1e15
	config := strings.ReplaceAll(operated, `"server":"srv",`, `"server":"srv","limits_scope":"proxy",`)
	g := w.worker(config)
	k := w.unknown(g, "k")
	if p := w.operatedOn(g, "q", "GET", "/callonce/keys").keys(t); len(p.Keys) != 0 {
		t.Errorf("another policy's: %+v", p)
	}
	x := w.open(g, ":method", "POST", ":path", k.Path+"&to=released&reason=r")
	x.properties["xds.route_name"] = "q"
	x.properties[ops[0]] = ops[1]
	x.arrive("")
	if x.status != 404 {
		t.Errorf("another policy's operator resolves it: %d %s", x.status, x.reply)
	}
	if x := w.asOperator(g, "POST", k.Path+"&to=released&reason=r", ops...); x.status != 200 {
		t.Errorf("its own: %d %s", x.status, x.reply)
	}
}

// A fault of our own in the interface ends there: no request of it goes on to the server, whatever the policy does with others.
func TestFaultInTheInterface(t *testing.T) {
	for _, mode := range []string{"", `"mode":"observe",`} {
		for _, in := range []string{"RequestHeaders", "SetState"} {
			w := newWorld(t)
			g := w.worker(strings.Replace(operated, `"p":{`, `"p":{`+mode, 1))
			x := w.open(g, ":method", "GET", ":path", "/callonce/keys")
			x.properties["metadata.filter_metadata.jwt.role"] = "ops"
			x.panicsIn = in
			a := x.stream.RequestHeaders(true)
			if x.panicsIn != "" {
				t.Fatalf("%s was not called", in)
			}
			if a != Pause || x.stream.Finished() || x.status != 503 {
				t.Errorf("%s%s: the request goes on (%v), answered %d %s", mode, in, a, x.status, x.reply)
			}
			x.stream.Done()
		}
	}
}

// What an operator says of a call whose answer is too long to be kept holds, though that answer is still on its way and then breaks: where
// the tool's unknown outcomes are retried, it would run again.
func TestResolvedWhileItsAnswerPasses(t *testing.T) {
	w := newWorld(t)
	w.now = 1e15
	g := w.worker(strings.Replace(operated, `"reply":"http",`, `"reply":"http","limits":{"reply_bytes":1000},`, 1))
	call := func() *exchange {
		return w.send(g, toolCall("1", `{}`), "x-user", "u", "idempotency-key", "k")
	}
	first := call()
	first.wantSent()
	first.begin(200, "text/event-stream")
	first.chunks(`data: {"jsonrpc":"2.0","id":1,"result":{"text":"`+strings.Repeat("x", 2000), 100)
	k := w.asOperator(g, "GET", "/callonce/keys", ops...).keys(t).Keys[0]
	if k.State != "not_replayable" {
		t.Fatalf("%+v", k)
	}
	if x := w.asOperator(g, "POST", k.Path+"&to=completed_elsewhere&reason=r", ops...); x.status != 200 {
		t.Fatalf("%d %s", x.status, x.reply)
	}
	first.stream.Done() // the server, or the caller, is gone
	again := call()
	if again.sent || again.headers["idempotency-replayed"] != "true" || !strings.Contains(again.reply, "completed_elsewhere") {
		t.Errorf("sent %v, %d %s", again.sent, again.status, again.reply)
	}
}

// Where the answer to a fault fails as well, the request still does not go on.
func TestNothingGoesOnWhereTheAnswerFailsToo(t *testing.T) {
	if a := orNothing(func() Action { panic("again") }); a != Pause {
		t.Errorf("got %v", a)
	}
	if a := orNothing(func() Action { return Continue }); a != Continue {
		t.Errorf("an answer that did not fail: got %v", a)
	}
}
