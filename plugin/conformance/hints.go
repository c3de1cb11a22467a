package conformance

import (
	"compress/gzip"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
)

const trustingHints = `{"namespace":"cases","policies":{"p":{"reply":"http","server":"s","principal":["header:x-user"],"trust_hints":true,"strip":true,"advertise":true,
	"tools":[{"match":"named"}]}},"default":"p"}`

// listed are the tools of a server: get only reads, put is idempotent, kill is too and destroys, named reads and has an entry of its own.
const listed = `{"name":"get","inputSchema":{"type":"object"},"annotations":{"readOnlyHint":true}},{"name":"put","inputSchema":{"type":"object"},"annotations":{"idempotentHint":true}},` +
	`{"name":"kill","inputSchema":{"type":"object"},"annotations":{"idempotentHint":true,"destructiveHint":true}},{"name":"named","inputSchema":{"type":"object"},"annotations":{"readOnlyHint":true}},` +
	`{"name":"charge","inputSchema":{"type":"object"}}`

// Hints shows what a server's own words about its tools take the guard off, and for whom (trust_hints).
func Hints(t *testing.T, f Front) {
	for _, kind := range []string{"JSON", "events", "pages"} {
		t.Run(kind, func(t *testing.T) {
			u := newUpstream(t, func(w http.ResponseWriter, s seen) {
				switch {
				case s.Rpc != "tools/list":
					asJSON(w, s)
				case kind == "events":
					event(w, `{"jsonrpc":"2.0","method":"notifications/message","params":{}}`)
					event(w, list(s.ID, listed, ""))
				case kind == "pages" && !strings.Contains(s.Body, `"cursor":"2"`):
					writeJSON(w, list(s.ID, `{"name":"other"}`, `,"nextCursor":"2"`))
				default:
					writeJSON(w, list(s.ID, listed, ""))
				}
			})
			p := f.Start(t, Setup{Config: trustingHints, Upstream: u.URL, Workers: 1})
			c := newClient(t, p)
			ask := func(user string) (got string) {
				got = c.post(`{"jsonrpc":"2.0","id":9,"method":"tools/list"}`, "X-User", user, "Accept-Encoding", "gzip").Body
				if kind == "pages" {
					got = c.post(`{"jsonrpc":"2.0","id":9,"method":"tools/list","params":{"cursor":"2"}}`, "X-User", user).Body
				}
				return got
			}
			n := 0
			// runs says how often a tool runs of two calls under one key.
			runs := func(user, tool string) int {
				n++
				before := u.Runs()
				for range 2 {
					if r := c.post(toolCall("1", tool, `{"idempotencyKey":"k`+fmt.Sprint(n)+`"}`), "X-User", user); r.Status != 200 {
						t.Fatalf("%s: got %d %s", tool, r.Status, r.Body)
					}
				}
				return u.Runs() - before
			}
			if got := runs("ada", "get"); got != 1 {
				t.Errorf("before anything was listed get ran %d times", got)
			}
			if got := ask("ada"); strings.Count(got, `"idempotency_key":`) != 3 {
				t.Errorf("advertised for others than kill, named and charge: %s", got)
			}
			for tool, want := range map[string]int{"get": 2, "put": 2, "kill": 1, "named": 1, "charge": 1} {
				if got := runs("ada", tool); got != want {
					t.Errorf("%s ran %d times, want %d", tool, got, want)
				}
			}
			if got := runs("bob", "get"); got != 1 {
				t.Errorf("what ada was told counts for bob: get ran %d times", got)
			}
			for _, s := range u.Seen() {
				if strings.Contains(s.Body, "idempotencyKey") {
					t.Errorf("the server got %s", s.Body)
				}
				if s.Rpc == "tools/list" && s.Header.Get("Accept-Encoding") != "" {
					t.Errorf("its list may come as %s", s.Header.Get("Accept-Encoding"))
				}
			}
			wantCount(t, p, "callonce_hints_total", map[string]string{"how": "off", "server": "s"}, 4)
			wantCount(t, p, "callonce_hints_total", map[string]string{"how": "learned", "server": "s"}, map[bool]int64{true: 2, false: 1}[kind == "pages"])
			if !strings.Contains(p.Logs(), "trusts hints") {
				t.Error("the log does not say so")
			}
		})
	}
	t.Run("answers that are left out", func(t *testing.T) {
		answer := "plain"
		u := newUpstream(t, func(w http.ResponseWriter, s seen) {
			switch {
			case s.Rpc != "tools/list":
				asJSON(w, s)
			case answer == "packed":
				w.Header().Set("Content-Type", "application/json")
				w.Header().Set("Content-Encoding", "gzip")
				z := gzip.NewWriter(w)
				_, _ = io.WriteString(z, list(s.ID, listed, ""))
				_ = z.Close()
			case answer == "long":
				writeJSON(w, list(s.ID, listed+`,{"name":"x","description":"`+strings.Repeat("x", 2<<20)+`"}`, ""))
			case answer == "twofold":
				writeJSON(w, list(s.ID, listed, `,"tools":[]`))
			default:
				writeJSON(w, list(s.ID, listed, ""))
			}
		})
		p := f.Start(t, Setup{Config: trustingHints, Upstream: u.URL, Workers: 1})
		c := newClient(t, p)
		off := func(key string) bool {
			c.post(toolCall("1", "get", `{"idempotencyKey":"`+key+`"}`), "X-User", "ada")
			return c.post(toolCall("1", "get", `{"idempotencyKey":"`+key+`"}`), "X-User", "ada").Header.Get("Idempotency-Replayed") == ""
		}
		for i, how := range []string{"packed", "long", "twofold"} {
			for n, kind := range []string{"plain", how} {
				answer = kind
				if r := c.post(`{"jsonrpc":"2.0","id":9,"method":"tools/list"}`, "X-User", "ada"); r.Err != nil || r.Status != 200 {
					t.Fatalf("%s: got %d, %v", how, r.Status, r.Err)
				}
				if got := off(fmt.Sprint(i, n)); got != (kind == "plain") {
					t.Errorf("%s after a plain one: off %v", kind, got)
				}
			}
		}
		wantCount(t, p, "callonce_hints_total", map[string]string{"how": "left_out"}, 3)
	})
}

func list(id, tools, more string) string {
	return `{"jsonrpc":"2.0","id":` + id + `,"result":{"tools":[` + tools + `]` + more + `}}`
}
