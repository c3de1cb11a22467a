package operator

import (
	"encoding/json"
	"net/url"
	"reflect"
	"strings"
	"testing"

	"github.com/callonce/callonce/plugin/internal/ledger"
)

// What is not asked here is the server's.
func TestAsked(t *testing.T) {
	for path, want := range map[string]bool{
		"/keys": true, "/keys?x": true, "/keys/": true, "/keys/a": true, "/keysx": false, "/key": false, "": false, "/KEYS": false, "/keys%2f": false, "//keys": false,
	} {
		if Asked("/keys", path) != want {
			t.Errorf("%q: %v", path, !want)
		}
	}
}

// Each request is read whole, or refused with a word on what was wrong.
func TestRead(t *testing.T) {
	for _, c := range []struct {
		method, path string
		status       int // 0 = read
		kind         Kind
	}{
		{"GET", "/keys", 0, List},
		{"GET", "/keys?state=in_flight,completed&tool=a%2Ab&scope=00000000000000ff&min_age=1h2m&limit=500&at=77", 0, List},
		{"GET", "/keys/00000000000000ff", 0, Show},
		{"GET", "/keys/00000000000000ff?at=1", 0, Show},
		{"GET", "/keys/own/00000000000000ff?path=/mcp&at=1", 0, Own},
		{"POST", "/keys/00000000000000ff?at=1&to=released&reason=r", 0, Resolve},
		{"GET", "/keys/", 404, 0},
		{"GET", "/keys/00000000000000FF", 404, 0},
		{"GET", "/keys/0_000000000000ff", 404, 0},
		{"GET", "/keys/+0000000000000ff", 404, 0},
		{"GET", "/keys/-0000000000000ff", 404, 0},
		{"GET", "/keys/0000000000000ff", 404, 0},
		{"GET", "/keys/own/", 404, 0},
		{"GET", "/keys/own", 404, 0},
		{"GET", "/keys/0000000000000000", 404, 0},
		{"GET", "/keys/own/0000000000000000?path=/mcp", 404, 0},
		{"POST", "/keys/0000000000000000?to=released&reason=r", 404, 0},
		{"GET", "/keys/00000000000000ff/x", 404, 0},
		{"PUT", "/keys", 405, 0},
		{"post", "/keys/00000000000000ff?to=released&reason=r", 405, 0},
		{"POST", "/keys", 405, 0},
		{"POST", "/keys/own/00000000000000ff?path=/mcp", 405, 0},
		{"GET", "/keys?state=", 400, 0},
		{"GET", "/keys?state=free", 400, 0},
		{"GET", "/keys?state=completed&state=completed", 400, 0},
		{"GET", "/keys?tool=", 400, 0},
		{"GET", "/keys?scope=0", 400, 0},
		{"GET", "/keys?scope=0000000000000000", 400, 0},
		{"GET", "/keys?min_age=-1s", 400, 0},
		{"GET", "/keys?min_age=0s", 400, 0},
		{"GET", "/keys?limit=0", 400, 0},
		{"GET", "/keys?limit=501", 400, 0},
		{"GET", "/keys?at=" + strings.Repeat("1", 65), 400, 0},
		{"GET", "/keys?at=%", 400, 0},
		{"GET", "/keys?at=%+1", 400, 0},
		{"GET", "/keys?at=%1", 400, 0},
		{"GET", "/keys?to=released", 400, 0},
		{"GET", "/keys/00000000000000ff?limit=1", 400, 0},
		{"GET", "/keys?&", 400, 0},
		{"POST", "/keys/00000000000000ff", 400, 0},
		{"POST", "/keys/00000000000000ff?to=released", 400, 0},
		{"POST", "/keys/00000000000000ff?to=unknown&reason=r", 400, 0},
		{"POST", "/keys/00000000000000ff?to=released&reason=%ff", 400, 0},
		{"POST", "/keys/00000000000000ff?to=released&reason=" + strings.Repeat("%C3%A9", 201), 400, 0},
		{"POST", "/keys/00000000000000ff?to=released&reason=" + strings.Repeat("%C3%A9", 200), 0, Resolve},
	} {
		r, p := Read("/keys", c.method, c.path)
		switch {
		case p == nil && c.status != 0, p != nil && (p.Status != c.status || p.Text == ""):
			t.Errorf("%s %s: %+v", c.method, c.path, p)
		case p == nil && r.Kind != c.kind:
			t.Errorf("%s %s: kind %d", c.method, c.path, r.Kind)
		}
	}
	r, _ := Read("/keys", "GET", "/keys?state=in_flight,completed&tool=a%2Ab+c&scope=00000000000000ff&min_age=1s&at=7%2f7")
	if want := (ledger.Query{States: 1<<ledger.InFlight | 1<<ledger.Completed, Scope: 255, MinAge: 1e9, Most: 100, From: "7/7"}); !reflect.DeepEqual(r.Query, want) || r.Tool != "a*b c" {
		t.Errorf("%+v", r)
	}
	for _, text := range []string{"/mcp", "a b&c=d#é%"} {
		if back, err := url.QueryUnescape(Escape(text)); err != nil || back != text {
			t.Errorf("%q is escaped as %q", text, Escape(text))
		}
	}
}

// What is answered is JSON, whatever names the configuration has.
func TestAnswersAreJSON(t *testing.T) {
	w := Words{Base: `/k`, Now: 5e9, Tool: func(uint64) string { return "a\"\n*" }, Cause: func(c ledger.Cause) string { return [...]string{"", "reset"}[c] }}
	rows := []ledger.Row{
		{Operation: 255, At: "a&b", State: ledger.Unknown, Scope: 1, Attempt: 2, Claimed: 1e9, Settled: 2e9, Expires: 4e9, Why: ledger.Why{Cause: 1, Status: 502}, Held: true},
		{State: ledger.InFlight, Claimed: 6e9},
	}
	page := w.AppendPage(nil, &ledger.Page{Rows: rows, Next: `"`, Hidden: 3})
	const want = `{"keys":[{"path":"/k/00000000000000ff?at=a%26b","operation":"00000000000000ff","state":"outcome_unknown","attempt":2,"age_ms":4000,"settled_ms_ago":3000,` +
		`"expires_in_ms":0,"tool":"a\"\n*","scope":"0000000000000001","cause":"reset","status":502,"resolved":"refused"},` +
		`{"path":"/k/0000000000000000","operation":"0000000000000000","state":"in_flight","attempt":0,"age_ms":0,"tool":"a\"\n*"}],"next":"\"","unreadable":3}`
	if string(page) != want {
		t.Errorf("%s", page)
	}
	for _, text := range [][]byte{page, AppendProblem(nil, `"`), w.AppendOwn(nil, &rows[0]),
		w.AppendResolved(nil, ledger.ResolveRefused, &ledger.Resolution{Found: true, Row: rows[0]}),
		w.AppendResolved(nil, ledger.ResolveRefused, &ledger.Resolution{Found: true, Done: true, Row: rows[0]})} {
		if !json.Valid(text) {
			t.Errorf("no JSON: %s", text)
		}
	}
}
