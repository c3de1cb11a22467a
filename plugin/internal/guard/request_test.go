package guard

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"
)

// The order of decisions of section 1 of the contract, by a policy that need not
// guard and by one that must.
func TestOrderOfDecisions(t *testing.T) {
	const unsupported = "idempotency_unsupported_request"
	get := `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`
	call := toolCall("1", `{}`)
	bodyKey := toolCall("1", `{"idempotency_key":"k"}`)
	utf16 := func(s string) string { return "\xff\xfe" + inUTF16(s) }
	key := func(h ...string) []string { return append(h, "idempotency-key", "k") }
	for _, c := range []struct {
		name       string
		body       string
		headers    []string
		need, must string // "" = passes, "-32020", or a refusal
	}{
		{"a call with a key", call, key(), "", ""},
		{"a call without a key", call, nil, "", "idempotency_key_required"},
		{"a list", get, nil, "", ""},
		{"a list with a stray key", get, key(), "", ""},
		{"GET", "", key(":method", "GET", "content-type", "(none)"), "", ""},
		{"DELETE", "", []string{":method", "DELETE"}, "", ""},
		{"text", call, []string{"content-type", "text/plain"}, "", unsupported},
		{"text with a key", call, key("content-type", "text/plain"), unsupported, unsupported},
		{"no type", call, key("content-type", "(none)"), unsupported, unsupported},
		{"two types", call, key("content-type", "application/json", "content-type", "text/plain"), unsupported, unsupported},
		{"another JSON, a key in the body", bodyKey, []string{"content-type", "application/json-rpc"}, unsupported, unsupported},
		{"a list of types, a key in the body", bodyKey, []string{"content-type", "Text/Plain, Application/JSON"}, unsupported, unsupported},
		{"a form, a key in the body", " \n" + bodyKey, []string{"content-type", "application/x-www-form-urlencoded"}, unsupported, unsupported},
		{"text in UTF-16, a key in the body", utf16(bodyKey), []string{"content-type", "text/plain"}, unsupported, unsupported},
		{"bytes, a key in the body", bodyKey, []string{"content-type", "application/octet-stream"}, "", unsupported},
		{"bytes with a key", call, key("content-type", "application/octet-stream"), unsupported, unsupported},
		{"bytes with a key, a byte order mark", "\xef\xbb\xbf" + call, key("content-type", "application/octet-stream"), unsupported, unsupported},
		{"bytes with a key, a list", get, key("content-type", "application/octet-stream"), "", unsupported},
		{"bytes with a key, broken", call + "}", key("content-type", "application/octet-stream"), unsupported, unsupported},
		{"bytes with a key that are something else", "--x\r\n" + call, key("content-type", "multipart/form-data; boundary=x"), "", unsupported},
		{"more bytes with a key than are read", "--x\r\n" + strings.Repeat("x", 1<<20), key("content-type", "multipart/form-data; boundary=x"), "", unsupported},
		{"a form with a key", "grant_type=client_credentials", key("content-type", "application/x-www-form-urlencoded"), "", unsupported},
		{"a form", "grant_type=client_credentials", []string{"content-type", "application/x-www-form-urlencoded"}, "", unsupported},
		{"nothing but white space with a key", "  \n ", key("content-type", "text/plain"), "", unsupported},
		{"no body and no type with a key", "", key("content-type", "(none)"), "", unsupported},
		{"another JSON, encoded, with a key", call, key("content-type", "text/json", "content-encoding", "gzip"), unsupported, unsupported},
		{"bytes, encoded, with a key", call, key("content-type", "application/octet-stream", "content-encoding", "gzip"), "", unsupported},
		{"JSON with a charset", call, key("content-type", "Application/JSON; charset=UTF-8"), "", ""},
		{"post in lower case", call, []string{":method", "post"}, "", "idempotency_key_required"},
		{"post in lower case with a key and text", call, key(":method", "post", "content-type", "text/plain"), unsupported, unsupported},
		{"another charset", call, []string{"content-type", "application/json; charset=utf-7"}, "", unsupported},
		{"another charset with a key", call, key("content-type", "application/json; x=y; Charset=utf-7"), unsupported, unsupported},
		{"another charset, a key in the body", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"idempotencyKey":"k","name":"charge"}}`,
			[]string{"content-type", "application/json;charset=utf-7"}, unsupported, unsupported},
		{"a charset like ASCII", call, key("content-type", "application/json;charset=ISO-8859-1"), "", ""},
		{"a charset like ASCII, a body that is not", toolCall("1", `{"a":"é"}`), key("content-type", "application/json;charset=ISO-8859-1"), unsupported, unsupported},
		{"ASCII that is none", toolCall("1", `{"a":"é"}`), key("content-type", "application/json;charset=us-ascii"), unsupported, unsupported},
		{"another charset, and a key under a method that only it can read", strings.Replace(toolCall("1", `{"idempotency_key":"k"}`), "method", "+AG0-ethod", 1),
			[]string{"content-type", "application/json; charset=utf-7"}, unsupported, unsupported},
		{"another charset, a method that only it can read", strings.Replace(call, "method", "+AG0-ethod", 1),
			[]string{"content-type", "application/json; charset=utf-7"}, "", unsupported},
		{"another charset, a list with a key", get, key("content-type", "application/json; charset=utf-16"), unsupported, unsupported},
		{"encoded", call, []string{"content-encoding", "gzip"}, unsupported, unsupported},
		{"encoded, no call", call, []string{"content-encoding", "gzip", "mcp-method", "tools/list"}, "", unsupported},
		{"encoded with a key", call, key("content-encoding", "gzip", "mcp-method", "tools/list"), unsupported, unsupported},
		{"identity", call, key("content-encoding", "identity"), "", ""},
		{"empty", "", nil, "", unsupported},
		{"empty with a key", "", key(), unsupported, unsupported},
		{"broken", call + "}", nil, "", unsupported},
		{"broken with a key", call + "}", key(), unsupported, unsupported},
		{"broken after a key in the body", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"idempotencyKey":"k","name":"charge"},}`, nil, unsupported, unsupported},
		{"broken before a key in the body", `{"jsonrpc":"2.0","id":1,"id":1,"method":"tools/call","params":{"idempotencyKey":"k","name":"charge"}}`, nil, unsupported, unsupported},
		{"broken, no key", `{"jsonrpc":"2.0","id":1,"id":1,"method":"tools/call","params":{"name":"charge"}}`, nil, "", unsupported},
		{"half of a surrogate pair before a key", toolCall("1", `{"note":"cut \ud83d","idempotency_key":"k"}`), nil, "", ""},
		{"a byte order mark", "\xef\xbb\xbf" + call, key(), unsupported, unsupported},
		{"a batch", "[" + call + "," + call + "]", nil, "", unsupported},
		{"a batch with a key", " \n[" + call + "]", key(), unsupported, unsupported},
		{"a batch of lists", "[" + get + "]", nil, "", ""},
		{"no id", strings.Replace(call, `"id":1,`, "", 1), nil, "", unsupported},
		{"id null", strings.Replace(call, `"id":1`, `"id":null`, 1), key(), unsupported, unsupported},
		{"id with a fraction", toolCall("1.5", `{}`), key(), unsupported, unsupported},
		{"name beside Name", strings.Replace(call, `"name"`, `"Name":"get","name"`, 1), nil, "", unsupported},
		{"Arguments instead", strings.Replace(call, `"arguments"`, `"Arguments"`, 1), key(), unsupported, unsupported},
		{"METHOD instead", strings.Replace(call, `"method"`, `"METHOD"`, 1), nil, "", unsupported},
		{"paramſ", strings.Replace(call, `"params"`, `"paramſ"`, 1), key(), unsupported, unsupported},
		{"arguments a list", toolCall("1", `[0]`), key(), unsupported, unsupported},
		{"arguments an empty list", toolCall("1", `[]`), key(), "", ""},
		{"an empty argument for a key", toolCall("1", `{"idempotency_key":""}`), nil, "", "idempotency_key_required"},
		{"parameters behind a key", call, []string{"idempotency-key", `"k";v=1`}, "", ""},
		{"no parameters behind a key", call, []string{"idempotency-key", `"k";V=1`}, "idempotency_key_invalid", "idempotency_key_invalid"},
		{"arguments null", toolCall("1", `null`), key(), "", ""},
		{"name a number", strings.Replace(call, `"charge"`, `7`, 1), key(), unsupported, unsupported},
		{"Mcp-Method agrees", call, key("mcp-method", "tools/call", "mcp-name", "charge"), "", ""},
		{"Mcp-Method lies", call, key("mcp-method", "tools/list"), "-32020", "-32020"},
		{"Mcp-Method lies, no key", call, []string{"mcp-method", "tools/list"}, "", "-32020"},
		{"Mcp-Method twice", call, []string{"mcp-method", "tools/list", "mcp-method", "tools/call"}, "-32020", "-32020"},
		{"Mcp-Name lies", call, []string{"mcp-method", "tools/call", "mcp-name", "get"}, "-32020", "-32020"},
		{"Mcp-Name in base64", call, key("mcp-method", "tools/call", "mcp-name", "=?base64?Y2hhcmdl?="), "", ""},
		{"Mcp-Name in other base64", call, key("mcp-name", "=?base64?Z2V0?="), "-32020", "-32020"},
		{"a broken key", call, []string{"idempotency-key", "a b"}, "idempotency_key_invalid", "idempotency_key_invalid"},
		{"two keys", call, []string{"idempotency-key", "a", "idempotency-key", "a"}, "idempotency_key_invalid", "idempotency_key_invalid"},
	} {
		for config, want := range map[string]string{plain: c.need, must: c.must} {
			t.Run(c.name+"/"+map[bool]string{true: "must", false: "need not"}[config == must], func(t *testing.T) {
				w := newWorld(t)
				x := w.send(w.worker(config), c.body, c.headers...)
				switch want {
				case "":
					x.wantSent()
				case "-32020":
					if x.sent || x.status != 400 || !strings.Contains(x.reply, `"code":-32020`) {
						t.Fatalf("expected the protocol's header mismatch, found sent %v, %d %s", x.sent, x.status, x.reply)
					}
				default:
					x.wantRefused(400, want)
				}
			})
		}
	}
}

// What rule 1 passes is not buffered: the headers callback itself lets it go.
func TestNotBuffered(t *testing.T) {
	headerKeys := `{"policies":{"p":{"reply":"http","anonymous":true,"keys":["header:Idempotency-Key"]}},"default":"p"}`
	for _, c := range []struct {
		name, config string
		headers      []string
		buffered     bool
	}{
		{"header keys only, none sent", headerKeys, nil, false},
		{"header keys only, one sent", headerKeys, []string{"idempotency-key", "k"}, true},
		{"keys in the body too", plain, nil, true},
		{"keys in the body too, another method", plain, []string{"mcp-method", "tools/list"}, false},
		{"must guard, another method", must, []string{"mcp-method", "tools/list"}, true},
		{"off", `{}`, []string{"idempotency-key", "k"}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t)
			x := w.open(w.worker(c.config), c.headers...)
			if got := x.stream.RequestHeaders(false) == Pause; got != c.buffered {
				t.Errorf("held: expected %v, found %v", c.buffered, got)
			}
			if !c.buffered && (len(x.header("x-envoy-max-retries")) > 0 || len(x.header("accept-encoding")) == 0 || len(x.state) > 0) {
				t.Errorf("unguarded traffic was edited: %v %v", x.request, x.state)
			}
		})
	}
}

func TestSize(t *testing.T) {
	config := func(more string) string {
		return `{"policies":{"p":{"reply":"http","server":"s","anonymous":true,"max_request_bytes":1024` + more + `}},"default":"p"}`
	}
	long := func(head string) string { return head + strings.Repeat(" ", 2000) }
	call := `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"charge","arguments":{`
	for _, c := range []struct {
		name, config, body string
		headers            []string
		refused            bool
	}{
		{"a call", config(""), long(call), nil, true},
		{"another method, read", config(""), long(`{"jsonrpc":"2.0","id":1,"method":"resources/write","params":{`), nil, false},
		{"a response, read", config(""), long(`{"jsonrpc":"2.0","id":1,"result":{`), nil, false},
		{"its method not read yet", config(""), long(`{"jsonrpc":"2.0","id":1,"params":{`), nil, true},
		{"a case variant of method", config(""), long(`{"METHOD":"tools/call","method":"x","params":{`), nil, true},
		{"another method, told", config(""), long(call), []string{"mcp-method", "resources/write"}, false},
		{"another method, with a key", config(""), long(`{"method":"resources/write","params":{`), []string{"idempotency-key", "k"}, true},
		{"another method, must guard", config(`,"tools":[{"match":"*","guard":"required"}]`), long(`{"method":"x","params":{`), nil, true},
		{"header keys only", config(`,"keys":["header:x-key"]`), long(call), nil, false},
		{"told by length", config(""), long(call), []string{"content-length", "5000", "idempotency-key", "k"}, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t)
			x := w.send(w.worker(c.config), c.body, c.headers...)
			if c.refused {
				x.wantRefused(413, "idempotency_unsupported_request")
			} else {
				x.wantSent()
			}
		})
	}
	t.Run("exactly the cap", func(t *testing.T) {
		w := newWorld(t)
		g := w.worker(config(""))
		body := toolCall("1", `{"pad":"`+strings.Repeat("x", 1024-len(toolCall("1", `{"pad":""}`)))+`"}`)
		w.send(g, body, "idempotency-key", "k").wantSent()
		w.send(g, body+" ", "idempotency-key", "k2").wantRefused(413, "idempotency_unsupported_request")
	})
}

func TestForwarding(t *testing.T) {
	w := newWorld(t)
	g := w.worker(must)
	x := w.send(g, toolCall("1", `{}`), "idempotency-key", "k", "x-envoy-max-retries", "5")
	x.wantSent()
	if got := x.header("x-envoy-max-retries"); fmt.Sprint(got) != "[0]" {
		t.Errorf("x-envoy-max-retries: expected [0], found %v", got)
	}
	if got := x.header("accept-encoding"); len(got) > 0 {
		t.Errorf("accept-encoding went on: %v", got)
	}
	if x.state["callonce.outcome"] != "first" || len(x.state["callonce.key_hash"]) != 16 {
		t.Errorf("filter state: %v", x.state)
	}
	y := w.send(g, toolCall(`"b"`, `{}`), "idempotency-key", "k")
	y.wantRefused(409, "idempotency_in_flight")
	for _, want := range []string{
		`"id":"b"`, `"code":-31410`, `"operation":"` + x.state["callonce.key_hash"] + `"`,
		"This call is still running. Do not start it again under another key; call get_charge to see its state. The same request with the same key will return the result once it is there.",
	} {
		if !strings.Contains(y.reply, want) {
			t.Errorf("expected %s in %s", want, y.reply)
		}
	}
	if y.headers["retry-after"] != "1" || y.headers["content-type"] != "application/json" {
		t.Errorf("headers of a refusal: %v", y.headers)
	}
	z := w.send(g, toolCall("3", `{"a":1}`), "idempotency-key", "k")
	z.wantRefused(409, "idempotency_key_conflict")
	for _, outcome := range []string{"first", "in_flight", "conflict"} {
		if n := w.count("mcp_gateway_idempotency_total", "namespace=.=ns;.;", "server=.=srv;.;", "outcome=.="+outcome+";.;"); n != 1 {
			t.Errorf("counted %d of %s, expected 1: %v", n, outcome, w.counts)
		}
	}
}

// A key lasts ttl from its settlement; a derived one also its window from the claim.
func TestTimes(t *testing.T) {
	config := `{"policies":{"p":{"reply":"http","server":"s","anonymous":true,"ttl":"10s","tools":[{"match":"charge","guard":"derived","window":"60s"}]}},"default":"p"}`
	for _, c := range []struct {
		key    string
		works  time.Duration // between claim and completion
		lasts  time.Duration // after completion
		expect string
	}{
		{"k", 30 * time.Second, 10*time.Second - 1, "replay"},
		{"k", 30 * time.Second, 10 * time.Second, "first"},
		{"", 30 * time.Second, 30*time.Second - 1, "replay"},
		{"", 30 * time.Second, 30 * time.Second, "first"},
		{"", 2 * time.Minute, 10*time.Second - 1, "replay"},
		{"", 2 * time.Minute, 10 * time.Second, "first"},
	} {
		w := newWorld(t)
		g := w.worker(config)
		var h []string
		if c.key != "" {
			h = []string{"idempotency-key", c.key}
		}
		x := w.send(g, toolCall("1", `{}`), h...)
		w.pass(c.works)
		x.answer(200, "application/json", okResult)
		w.pass(c.lasts)
		if y := w.send(g, toolCall("2", `{}`), h...); y.state["callonce.outcome"] != c.expect {
			t.Errorf("%+v: found %s", c, y.state["callonce.outcome"])
		}
	}
}

// An empty argument for a key is not for the server, but what is observed is not touched.
func TestEmptyKeyIsCutOut(t *testing.T) {
	for members, want := range map[string]string{
		`"strip":true`:                  `{"a":1}`,
		`"strip":true,"mode":"observe"`: `{"a":1,"idempotency_key":""}`,
		`"strip":false`:                 `{"a":1,"idempotency_key":""}`,
	} {
		w := newWorld(t)
		g := w.worker(`{"policies":{"p":{"reply":"http","anonymous":true,` + members + `}},"default":"p"}`)
		x := w.send(g, toolCall("1", `{"a":1,"idempotency_key":""}`))
		x.wantSent()
		if string(x.body) != toolCall("1", want) || x.state["callonce.outcome"] != "" {
			t.Errorf("%s: the server got %s, outcome %q", members, x.body, x.state["callonce.outcome"])
		}
		if l := x.header("content-length"); want == `{"a":1}` && (len(l) != 1 || l[0] != strconv.Itoa(len(x.body))) {
			t.Errorf("%s: Content-Length %v for %d bytes", members, l, len(x.body))
		}
	}
}

// What passes ambiguous and unkeyed is counted each time, told once of each policy, and
// shows nothing of what was sent.
func TestAmbiguousIsTold(t *testing.T) {
	w := newWorld(t)
	g := w.worker(`{"namespace":"n","policies":{"p":{"reply":"http","server":"s","anonymous":true,"strip":true}},"default":"p"}`)
	before := len(w.logs)
	for range 3 {
		w.send(g, "\xef\xbb\xbf"+toolCall("1", `{"secret":"s3cr3t"}`)).wantSent()
	}
	w.send(g, "").wantSent() // no body is no call
	if n := w.count("callonce_ambiguous_total", "namespace=.=n;", "server=.=s;"); n != 3 {
		t.Errorf("counted %d, want 3", n)
	}
	if said := w.logs[before:]; len(said) != 1 || !strings.Contains(said[0], "one strict JSON value and without a key passed unguarded") || strings.Contains(said[0], "s3cr3t") {
		t.Errorf("said %q", said)
	}
}

// The headers with a key do not go on with a guarded call; others do not notice.
func TestKeyHeadersGo(t *testing.T) {
	for members, want := range map[string][3]bool{ // Idempotency-Key, X-Idempotency-Key, X-Own
		`"strip":false`:                                    {true, true, true},
		`"strip":true`:                                     {false, false, true},
		`"strip":true,"keys":["header:x-own"]`:             {false, false, false},
		`"forward_key":"X-Idempotency-Key"`:                {false, true, true},
		`"strip":true,"mode":"observe"`:                    {true, true, true},
		`"forward_key":"x-own","keys":["header:x-own"]`:    {false, false, true},
		`"strip":true,"keys":["json:/params/arguments/k"]`: {false, false, true},
	} {
		w := newWorld(t)
		g := w.worker(`{"policies":{"p":{"reply":"http","anonymous":true,` + members + `}},"default":"p"}`)
		x := w.send(g, toolCall("1", `{"k":"k"}`), "idempotency-key", "k", "x-idempotency-key", "k", "x-own", "k")
		x.wantSent()
		for i, name := range []string{"idempotency-key", "x-idempotency-key", "x-own"} {
			if got := len(x.header(name)) > 0; got != want[i] {
				t.Errorf("%s: %s went on: %v", members, name, got)
			}
		}
		if y := w.send(g, `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`, "idempotency-key", "k"); len(y.header("idempotency-key")) != 1 {
			t.Errorf("%s: a list lost its header", members)
		}
	}
}
