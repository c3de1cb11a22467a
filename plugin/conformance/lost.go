package conformance

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"testing"
)

// Keys that are there and get lost: behind a defect of the body, in an odd spelling, and
// on a hop behind the proxy that takes them for its own.
var lost = []Case{
	{54, "a-key-behind-a-defect", true, behindADefect},
	{55, "a-go-gateway-repeats", true, goGateway},
	{56, "odd-spellings", true, oddSpellings},
	{57, "a-call-under-another-type", true, underAnotherType},
}

const keyInBody = `"arguments":{"amount":1,"idempotency_key":"k"}`

func behindADefect(t *testing.T, f Front) {
	c, u, p := serve(t, f, asJSON)
	// What JavaScript's slice makes of an emoji is no defect, wherever the key stands.
	cut := `{"note":"cut \ud83d","idempotency_key":"cut"}`
	wantFirst(t, c.post(toolCall("1", "charge", cut)))
	wantReplay(t, c.post(toolCall("2", "charge", cut)))
	wantReplay(t, c.post(toolCall("3", "charge", `{"idempotency_key":"cut","note":"cut \uD83D"}`)))
	wantRuns(t, u, 1)

	call := `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"charge",` + keyInBody + `}}`
	bodies := map[string]string{
		"a byte order mark":       "\xef\xbb\xbf" + call,
		"a duplicate before":      `{"jsonrpc":"2.0",` + call[1:],
		"a duplicate beside":      strings.Replace(call, `"amount":1`, `"amount":1,"amount":1`, 1),
		"params twice":            strings.Replace(call, `"params"`, `"params":{},"params"`, 1),
		"Params":                  strings.Replace(call, `"params"`, `"Params"`, 1),
		"Params beside":           strings.Replace(call, `"params"`, `"params":{"name":"charge"},"Params"`, 1),
		"Arguments":               strings.Replace(call, `"arguments"`, `"Arguments"`, 1),
		"half a pair in a name":   strings.Replace(call, `"amount"`, `"\ud83d"`, 1),
		"bytes that are no UTF-8": strings.Replace(call, `"amount":1`, `"amount":"`+"\xff"+`"`, 1),
		"NaN":                     strings.Replace(call, `"amount":1`, `"amount":NaN`, 1),
		"too deep":                strings.Replace(call, `"amount":1`, `"amount":`+strings.Repeat("[", 300)+strings.Repeat("]", 300), 1),
		"a name without quotes":   strings.Replace(call, `"idempotency_key"`, `idempotency_key`, 1),
		"a batch within a batch":  `[[` + call + `]]`,
		"no id":                   strings.Replace(call, `"id":1,`, ``, 1),
		"a comma too many":        strings.Replace(call, `"amount":1,`, `"amount":1,,`, 1),
		"a batch":                 `[` + toolCall("0", "charge", `{}`) + `,` + call + `]`,
	}
	for name, body := range bodies {
		for range 2 {
			r := c.post(body)
			if r.Status != 400 || r.isRefusal() != "idempotency_unsupported_request" {
				t.Errorf("%s: expected a refusal, found %d %s", name, r.Status, r.Body)
			}
		}
	}
	if n := len(u.Seen()); n != 1 {
		t.Errorf("%d of the keyed requests reached the server", n-1)
	}
	// A name that some servers take for the key source's.
	for name, body := range map[string]string{
		"idempotencykey": strings.Replace(call, `"arguments"`, `"idempotencykey":"k","arguments"`, 1),
		"_META":          strings.Replace(call, `"arguments"`, `"_META":{"callonce.dev/idempotency-key":"k"},"arguments"`, 1),
		"Callonce.dev":   strings.Replace(call, `"arguments"`, `"_meta":{"Callonce.dev/Idempotency-Key":"k"},"arguments"`, 1),
		"an argument":    strings.Replace(call, `idempotency_key`, `Idempotency_Key`, 1),
	} {
		r := c.post(body)
		if r.Status != 400 || r.isRefusal() != "idempotency_unsupported_request" {
			t.Errorf("%s: expected a refusal, found %d %s", name, r.Status, r.Body)
		}
	}
	if n := len(u.Seen()); n != 1 {
		t.Errorf("%d of the keyed requests reached the server", n-1)
	}
	// Without a key they pass, and are counted and told.
	ambiguous := map[string]string{"namespace": "cases", "server": "s"}
	for name, body := range bodies {
		body = strings.Replace(body, `idempotency_key`, `order`, 1)
		if r := c.post(body); r.Status != 200 || r.isRefusal() != "" {
			t.Errorf("%s, without a key: found %d %s", name, r.Status, r.Body)
		}
	}
	if n := len(u.Seen()); n != 1+len(bodies) {
		t.Errorf("%d of %d requests without a key reached the server", n-1, len(bodies))
	}
	wantCount(t, p, "callonce_ambiguous_total", ambiguous, int64(len(bodies)))
	if n := strings.Count(p.Logs(), "and without a key passed unguarded"); n < 1 || n > 2 {
		t.Errorf("expected one line from each worker at most, found %d", n)
	}
}

// goProxy is an HTTP gateway in Go that reads what it passes on, as those do that route by
// a call's tool: what it sends can be sent again, and Go's own transport does so where a
// header says that it may.
func goProxy(t *testing.T, to string) *httptest.Server {
	target, err := url.Parse(to)
	if err != nil {
		t.Fatal(err)
	}
	tr := &http.Transport{}
	g := httptest.NewServer(&httputil.ReverseProxy{Transport: tr, Rewrite: func(r *httputil.ProxyRequest) {
		r.SetURL(target)
		body, _ := io.ReadAll(r.In.Body)
		r.Out.Body = io.NopCloser(bytes.NewReader(body))
		r.Out.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(body)), nil }
	}, ErrorHandler: func(w http.ResponseWriter, _ *http.Request, _ error) { w.WriteHeader(http.StatusBadGateway) }})
	t.Cleanup(func() { g.Close(); tr.CloseIdleConnections() })
	return g
}

func goGateway(t *testing.T, f Front) {
	const attempts = 5
	for _, c := range []struct {
		name, members string
		notHeld       bool
		repeats       bool // the gateway runs the tool again
		header        string
	}{
		{"the key goes on", `"strip":false`, false, true, "Idempotency-Key"},
		{"strip", `"strip":true`, false, false, ""},
		{"strip, headers not held", `"strip":true`, true, false, ""},
		{"strip, a key that is none to the policy", `"strip":true,"keys":["json:/params/idempotencyKey"]`, false, false, ""},
		{"forward_key", `"forward_key":"X-Own-Key"`, false, false, "X-Own-Key"},
	} {
		t.Run(c.name, func(t *testing.T) {
			u := newUpstream(t, func(w http.ResponseWriter, s seen) {
				if s.Rpc != "tools/call" {
					writeJSON(w, `{"jsonrpc":"2.0","id":`+s.ID+`,"result":{}}`)
					return
				}
				hangUp(w) // it has run, and nobody hears of it
			})
			p := f.Start(t, Setup{Config: `{"namespace":"cases","policies":{"p":{"reply":"http","server":"s","anonymous":true,` + c.members + `}},"default":"p"}`,
				Upstream: goProxy(t, u.URL).URL, Workers: 1, NoHoldHeaders: c.notHeld})
			client := newClient(t, p)
			again := 0
			for i := range attempts {
				before, key := u.Runs(), "k"+string(rune('0'+i))
				// Its answer leaves a connection to the server open, to be used again.
				if r := client.post(`{"jsonrpc":"2.0","id":0,"method":"tools/list"}`); r.Status != 200 {
					t.Fatalf("tools/list: %d %v %s", r.Status, r.Err, r.Body)
				}
				body := `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"charge","idempotencyKey":"` + key + `","arguments":{}}}`
				for _, want := range []int{502, 409} {
					if r := client.post(body, "Idempotency-Key", key); r.Status != want {
						t.Fatalf("expected %d, found %d %v %s", want, r.Status, r.Err, r.Body)
					}
				}
				if u.Runs()-before > 1 {
					again++
				}
			}
			if c.repeats != (again > 0) {
				t.Errorf("the tool ran twice in %d of %d calls", again, attempts)
			}
			for _, s := range u.Seen() {
				for _, name := range []string{"Idempotency-Key", "X-Idempotency-Key", "X-Own-Key"} {
					if (s.Header.Get(name) != "") != (name == c.header) && s.Rpc == "tools/call" {
						t.Errorf("the server got %s: %q", name, s.Header.Get(name))
					}
				}
			}
		})
	}
}

func oddSpellings(t *testing.T, f Front) {
	c, u, _ := serve(t, f, asJSON)
	wantFirst(t, c.call("1", "charge", `{}`, "k"))
	wantReplay(t, c.call("2", "charge", `{}`, `"k";v=1`))
	wantReplay(t, c.call("3", "charge", `{}`, `"k"; a="b;c";d`))
	wantRefusal(t, c.call("4", "charge", `{}`, `"k";V=1`), 400, "idempotency_key_invalid")
	wantReplay(t, c.call("5", "charge", `[]`, "k"))
	wantReplay(t, c.call("6", "charge", `{"idempotency_key":""}`, "k"))
	for _, charset := range []string{"ISO-8859-1", "us-ascii", `"windows-1252"`} {
		wantReplay(t, c.post(toolCall("7", "charge", `{}`), "Content-Type", "application/json; charset="+charset, "Idempotency-Key", "k"))
	}
	wantRefusal(t, c.post(toolCall("8", "charge", `{"a":"é"}`), "Content-Type", "application/json; charset=ISO-8859-1", "Idempotency-Key", "k"), 400, "idempotency_unsupported_request")
	wantRefusal(t, c.post(toolCall("8", "charge", `{}`), "Content-Type", "application/json; charset=utf-7", "Idempotency-Key", "k"), 400, "idempotency_unsupported_request")
	wantRuns(t, u, 1)
	// An empty argument is no key: each call runs, as without the argument.
	for range 2 {
		wantFirst(t, c.call("9", "charge", `{"idempotency_key":""}`, ""))
	}
	wantRefusal(t, c.call("9", "charge", `{}`, "", "Idempotency-Key", ""), 400, "idempotency_key_invalid")
	wantRuns(t, u, 3)

	for _, notHeld := range []bool{false, true} {
		u := newUpstream(t, asJSON)
		p := f.Start(t, Setup{Config: strings.Replace(plain, `"server"`, `"strip":true,"server"`, 1), Upstream: u.URL, Workers: 1, NoHoldHeaders: notHeld})
		c := newClient(t, p)
		wantFirst(t, c.call("1", "charge", `{"a":1,"idempotency_key":""}`, ""))
		wantFirst(t, c.call("2", "charge", `{"a":1,"idempotency_key":null}`, ""))
		wantFirst(t, c.call("3", "charge", `{"a":1,"idempotency_key":""}`, "k"))
		for i, s := range u.Seen() {
			if s.Args != `{"a":1}` {
				t.Errorf("request %d: the server got the arguments %s", i+1, s.Args)
			}
		}
		wantRuns(t, u, 3)
	}
}
