package conformance

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"
)

// reply is what a client saw.
type reply struct {
	Status int
	Header http.Header
	Body   string
	Err    error // the connection broke before or within the body
}

// client talks to a proxy. It never repeats a request by itself.
type client struct {
	t    testing.TB
	url  string
	http *http.Client
	// eventual is for how long settlements may be on their way after the answer (see Eventual); 0 = not at all.
	eventual time.Duration
}

// Eventual is a Proxy whose ledger lies elsewhere: what an answer, or the loss of one, makes of its key is known there a moment later.
// Until then a repeat is told that its call is in flight, as it may be; the cases then ask again, for as long as that may take. And a worker
// that is new, or that stood still, gets into that ledger a moment later: until then the ledger is unavailable.
type Eventual interface{ Eventual() time.Duration }

const (
	eventualPause = 5 * time.Millisecond
	// untilReady bounds how long a worker may take to get into a ledger that lies elsewhere.
	untilReady = 10 * time.Second
)

func newClient(t testing.TB, p Proxy) *client {
	tr := &http.Transport{DisableCompression: true, MaxIdleConnsPerHost: 256}
	t.Cleanup(tr.CloseIdleConnections)
	var eventual time.Duration
	if e, ok := p.(Eventual); ok {
		eventual = e.Eventual()
	}
	return &client{t, p.URL() + "/mcp", &http.Client{
		Transport: tr, Timeout: 60 * time.Second,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}, eventual}
}

// headers is a list of name, value, name, value…: a name may come twice.
type headers []string

func (c *client) do(method, body string, h headers) reply {
	return c.patiently(func() reply { return c.once(method, body, h) })
}

// patiently asks again where the ledger may not know yet (see Eventual).
func (c *client) patiently(ask func() reply) reply {
	r := ask()
	for began := time.Now(); c.eventual > 0; r = ask() {
		waited := time.Since(began)
		if !(r.saysInFlight() && waited < c.eventual || r.isRefusal() == "idempotency_unavailable" && waited < untilReady) {
			break
		}
		time.Sleep(eventualPause)
	}
	return r
}

// saysInFlight reports whether it is the refusal of a call that runs, in whatever shape.
func (r reply) saysInFlight() bool {
	return strings.Contains(r.Body, `"type":"idempotency_in_flight"`) || strings.Contains(r.Body, `"type":"idempotency_key_in_progress"`)
}

func (c *client) once(method, body string, h headers) reply {
	res, err := c.open(context.Background(), method, strings.NewReader(body), h)
	if err != nil {
		return reply{Err: err}
	}
	return readAll(res)
}

func readAll(res *http.Response) reply {
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	return reply{res.StatusCode, res.Header, string(b), err}
}

// open sends a request and gives its answer as soon as that begins. A body that is no
// strings.Reader has no length: it goes in chunks.
func (c *client) open(ctx context.Context, method string, body io.Reader, h headers) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, method, c.url, body)
	if err != nil {
		c.t.Fatal(err)
	}
	req.GetBody = nil // Go's transport would repeat a request that has an Idempotency-Key
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json, text/event-stream")
	for i := 0; i < len(h); i += 2 {
		name := http.CanonicalHeaderKey(h[i])
		if name == "Host" {
			req.Host = h[i+1]
			continue
		}
		if name == "Content-Type" || name == "Accept" {
			req.Header.Set(name, h[i+1])
			continue
		}
		req.Header[name] = append(req.Header[name], h[i+1])
	}
	return c.http.Do(req)
}

func (c *client) post(body string, h ...string) reply { return c.do("POST", body, h) }

// call is a tools/call with a key header, "" for none.
func (c *client) call(id, name, args, key string, h ...string) reply {
	if key != "" {
		h = append(h, "Idempotency-Key", key)
	}
	return c.post(toolCall(id, name, args), h...)
}

// toolCall is the body of a tools/call; id is a JSON token.
func toolCall(id, name, args string) string {
	return `{"jsonrpc":"2.0","id":` + id + `,"method":"tools/call","params":{"name":"` + name + `","arguments":` + args + `}}`
}

// refusal is the error of a JSON-RPC answer.
type refusal struct {
	ID    json.RawMessage
	Error struct {
		Code    int
		Message string
		Data    struct {
			Type       string
			MayHaveRun string `json:"may_have_run"`
			Retry      string
			Operation  string
			StatusPath string `json:"status_path"`
		}
	}
}

func (r reply) refusal(t testing.TB) refusal {
	t.Helper()
	var f refusal
	if err := json.Unmarshal([]byte(r.Body), &f); err != nil {
		t.Fatalf("status %d, error %v: not a JSON-RPC error: %q", r.Status, r.Err, r.Body)
	}
	return f
}

// isRefusal reports what the answer refuses with, "" when it does not.
func (r reply) isRefusal() string {
	var f refusal
	if json.Unmarshal([]byte(r.Body), &f) != nil {
		return ""
	}
	return f.Error.Data.Type
}

func wantRefusal(t testing.TB, r reply, status int, kind string) refusal {
	t.Helper()
	if r.Err != nil {
		t.Fatalf("expected %d %s, found a broken connection: %v", status, kind, r.Err)
	}
	if r.Status != status || r.isRefusal() != kind {
		t.Fatalf("expected %d %s, found %d %s", status, kind, r.Status, r.Body)
	}
	if got := r.Header.Get("Content-Type"); got != "application/json" {
		t.Fatalf("a refusal's Content-Type: expected application/json, found %q", got)
	}
	if r.Header.Get("Idempotency-Replayed") != "" {
		t.Fatal("a refusal says that it is a replay")
	}
	return r.refusal(t)
}

// message is the JSON-RPC message of an answer, taken out of its event if it came as one.
func (r reply) message(t testing.TB) string {
	t.Helper()
	if !strings.HasPrefix(r.Header.Get("Content-Type"), "text/event-stream") {
		return r.Body
	}
	last := ""
	for _, line := range strings.Split(r.Body, "\n") {
		if d, ok := strings.CutPrefix(strings.TrimSuffix(line, "\r"), "data:"); ok && strings.TrimSpace(d) != "" {
			last = strings.TrimPrefix(d, " ")
		}
	}
	if last == "" {
		t.Fatalf("an event stream without data: %q", r.Body)
	}
	return last
}

func wantFirst(t testing.TB, r reply) {
	t.Helper()
	if r.Err != nil || r.Status != 200 || r.isRefusal() != "" {
		t.Fatalf("expected the first answer, found status %d, error %v: %s", r.Status, r.Err, r.Body)
	}
	if v := r.Header.Get("Idempotency-Replayed"); v != "" {
		t.Fatalf("a first answer says Idempotency-Replayed: %s", v)
	}
}

func wantReplay(t testing.TB, r reply) {
	t.Helper()
	if r.Err != nil || r.Status != 200 || r.isRefusal() != "" {
		t.Fatalf("expected a replay, found status %d, error %v: %s", r.Status, r.Err, r.Body)
	}
	if got := r.Header.Values("Idempotency-Replayed"); len(got) != 1 || got[0] != "true" {
		t.Fatalf("a replay's Idempotency-Replayed: expected [true], found %q", got)
	}
}

func wantRuns(t testing.TB, u *upstream, want int) {
	t.Helper()
	if got := u.Runs(); got != want {
		t.Fatalf("the tool ran %d times, expected %d", got, want)
	}
}

// wantCount waits until a counter says so: a worker counts what it did right after, or tells it
// at its next tick, so a client can be quicker.
func wantCount(t testing.TB, p Proxy, name string, labels map[string]string, want int64) {
	t.Helper()
	var got int64
	for end := time.Now().Add(longest); ; time.Sleep(5 * time.Millisecond) {
		if got = p.Counter(t, name, labels); got == want {
			return
		}
		if got > want || time.Now().After(end) {
			t.Errorf("%s%v: counted %d, expected %d", name, labels, got, want)
			return
		}
	}
}

func idOf(t testing.TB, r reply) string {
	t.Helper()
	var m struct{ ID json.RawMessage }
	if err := json.Unmarshal([]byte(r.message(t)), &m); err != nil {
		t.Fatalf("not a message: %q", r.Body)
	}
	return string(m.ID)
}
