package conformance

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
)

// seen is one request that reached the server.
type seen struct {
	Method string
	Header http.Header
	Body   string
	ID     string // token of the JSON-RPC id
	Tool   string
	Args   string
	Rpc    string          // JSON-RPC method
	Run    int             // number of this run, from 1; 0 for what is no tool call
	Gone   <-chan struct{} // closed when nobody waits for the answer any more
}

// upstream is a scripted MCP server that counts how often its tools really ran.
type upstream struct {
	*httptest.Server
	mu   sync.Mutex
	runs int
	seen []seen
}

// newUpstream serves with answer until the test ends.
func newUpstream(t testing.TB, answer func(w http.ResponseWriter, s seen)) *upstream {
	u := &upstream{}
	u.Server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b, err := io.ReadAll(r.Body)
		if err != nil {
			return // the body never came whole: no server runs a tool on that
		}
		s := seen{Method: r.Method, Header: r.Header, Body: string(b), Gone: r.Context().Done()}
		var m struct {
			ID     json.RawMessage
			Method string
			Params struct {
				Name      string
				Arguments json.RawMessage
			}
		}
		if json.Unmarshal(b, &m) == nil {
			s.ID, s.Rpc, s.Tool, s.Args = string(m.ID), m.Method, m.Params.Name, string(m.Params.Arguments)
		}
		u.mu.Lock()
		if s.Rpc == "tools/call" {
			u.runs++
			s.Run = u.runs
		}
		u.seen = append(u.seen, s)
		u.mu.Unlock()
		answer(w, s)
	}))
	u.Config.Protocols = new(http.Protocols)
	u.Config.Protocols.SetHTTP1(true)
	u.Config.Protocols.SetUnencryptedHTTP2(true)
	u.Start()
	t.Cleanup(u.Close)
	return u
}

// Runs is how often a tool ran.
func (u *upstream) Runs() int {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.runs
}

// Seen is what reached the server, in order.
func (u *upstream) Seen() []seen {
	u.mu.Lock()
	defer u.mu.Unlock()
	return append([]seen(nil), u.seen...)
}

// forget drops what was seen, so that a long test does not keep it all.
func (u *upstream) forget() {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.seen = nil
}

// await returns when a tool has run so often.
func (u *upstream) await(t testing.TB, runs int) {
	t.Helper()
	eventually(t, fmt.Sprint(runs, " runs"), func() bool { return u.Runs() >= runs })
}

// Close ends the server without waiting for handlers that hang on purpose.
func (u *upstream) Close() {
	u.CloseClientConnections()
	u.Server.Close()
}

// result is a tool's result that names its run, so that a second run shows.
func result(s seen) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":{"content":[{"type":"text","text":"run %d of %s"}],"structuredContent":{"run":%d,"id":7}}}`, s.ID, s.Run, s.Tool, s.Run)
}

// asJSON answers with one JSON message.
func asJSON(w http.ResponseWriter, s seen) { writeJSON(w, result(s)) }

func writeJSON(w http.ResponseWriter, body string) {
	w.Header().Set("Content-Type", "application/json")
	_, _ = io.WriteString(w, body)
}

// asEvents answers as the official servers do: an event stream that ends with the
// response, after a notification.
func asEvents(w http.ResponseWriter, s seen) {
	event(w, `{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"working"}}`)
	event(w, result(s))
}

func event(w http.ResponseWriter, data string) {
	w.Header().Set("Content-Type", "text/event-stream")
	_, _ = io.WriteString(w, "event: message\ndata: "+data+"\n\n")
	w.(http.Flusher).Flush()
}

// hangUp cuts the connection under an answer.
func hangUp(w http.ResponseWriter) {
	if c, _, err := w.(http.Hijacker).Hijack(); err == nil {
		_ = c.Close()
	}
}

// plain is the configuration that most cases run under: every call may carry a key,
// callers are told apart by a header, and a refusal has a status of its own, so that it shows.
const plain = `{"namespace":"cases","policies":{"p":{"reply":"http","server":"s","principal":["header:x-user"],"anonymous":true}},"default":"p"}`

// serve starts a server and a proxy with the plain configuration before it.
func serve(t *testing.T, f Front, answer func(http.ResponseWriter, seen)) (*client, *upstream, Proxy) {
	return serveWith(t, f, plain, answer)
}

func serveWith(t *testing.T, f Front, config string, answer func(http.ResponseWriter, seen)) (*client, *upstream, Proxy) {
	t.Helper()
	u := newUpstream(t, answer)
	p := f.Start(t, Setup{Config: config, Upstream: u.URL})
	return newClient(t, p), u, p
}
