package e2e_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	keyed "github.com/callonce/callonce/clients/go"
)

// recorder is a server that notes what reaches it, byte for byte. How it answers a
// tools/call hangs on the tool's name.
type recorder struct {
	*httptest.Server
	release chan struct{} // closed: the tool "slow" ends

	mu   sync.Mutex
	seen []recorded
}

type recorded struct {
	Header http.Header
	Body   string
	Method string // of JSON-RPC
	Tool   string
	Run    int // among the calls of tools, from 1
}

func startRecorder(t *testing.T) *recorder {
	t.Helper()
	r := &recorder{release: make(chan struct{})}
	r.Server = httptest.NewServer(http.HandlerFunc(r.serve))
	t.Cleanup(func() {
		r.end()
		r.CloseClientConnections()
		r.Close()
	})
	return r
}

func (r *recorder) end() {
	r.mu.Lock()
	defer r.mu.Unlock()
	select {
	case <-r.release:
	default:
		close(r.release)
	}
}

func (r *recorder) serve(w http.ResponseWriter, req *http.Request) {
	body, err := io.ReadAll(req.Body)
	if err != nil {
		return // cut short: nothing ran
	}
	var m struct {
		ID     json.RawMessage
		Method string
		Params struct{ Name string }
	}
	_ = json.Unmarshal(body, &m) // what is no message has no method
	seen := recorded{Header: req.Header, Body: string(body), Method: m.Method, Tool: m.Params.Name}
	r.mu.Lock()
	if m.Method == "tools/call" {
		seen.Run = r.runs("") + 1
	}
	r.seen = append(r.seen, seen)
	r.mu.Unlock()

	result := fmt.Sprintf(`{"content":[{"type":"text","text":"run %d"}],"structuredContent":{"write_id":"w-%d"}}`, seen.Run, seen.Run)
	switch m.Params.Name {
	case "slow":
		<-r.release
	case "lost":
		if conn, _, err := w.(http.Hijacker).Hijack(); err == nil {
			conn.Close()
		}
		return
	case "declined":
		w.WriteHeader(http.StatusForbidden)
		return
	case "gzipped":
		w.Header().Set("Content-Encoding", "gzip")
	case "long":
		result = `{"content":[{"type":"text","text":"` + strings.Repeat("x", 3000) + `"}]}`
	}
	w.Header().Set("Content-Type", "application/json")
	fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":%s}`, m.ID, result)
}

// runs counts the calls of a tool so far, "" for any. The caller holds mu.
func (r *recorder) runs(tool string) (n int) {
	for _, s := range r.seen {
		if s.Run > 0 && (tool == "" || s.Tool == tool) {
			n++
		}
	}
	return n
}

// Runs counts the calls of a tool so far.
func (r *recorder) Runs(tool string) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.runs(tool)
}

// Last is what reached the server last.
func (r *recorder) Last() recorded {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.seen) == 0 {
		return recorded{}
	}
	return r.seen[len(r.seen)-1]
}

// toolCall is the body of a call; id is a JSON token.
func toolCall(id, tool, arguments string) string {
	return `{"jsonrpc":"2.0","id":` + id + `,"method":"tools/call","params":{"name":"` + tool + `","arguments":` + arguments + `}}`
}

// outcome says in a word what came back, in JSON or as an event: a refusal's type, "replay", "first", or the status. A refusal is one
// whatever its status: a policy's reply may give it 200.
func outcome(resp *http.Response, body string) string {
	messages := []string{body}
	if strings.HasPrefix(resp.Header.Get("Content-Type"), "text/event-stream") {
		messages = strings.Split(body, "\n")
	}
	for _, message := range messages {
		var m struct {
			Result json.RawMessage
			Error  struct{ Data struct{ Type string } }
		}
		if json.Unmarshal([]byte(strings.TrimPrefix(message, "data: ")), &m) != nil {
			continue
		}
		switch {
		case m.Error.Data.Type != "":
			return m.Error.Data.Type
		case m.Result != nil && resp.Header.Get(keyed.ReplayedHeader) == "true":
			return "replay"
		case m.Result != nil:
			return "first"
		}
	}
	return fmt.Sprint(resp.StatusCode)
}

func serveFunc(t *testing.T, f http.HandlerFunc) (url string) {
	s := httptest.NewServer(f)
	t.Cleanup(s.Close)
	return s.URL
}
