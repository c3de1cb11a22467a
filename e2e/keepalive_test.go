package e2e_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/callonce/callonce/e2e/envoytest"
)

// A server that gives up idle connections as a call arrives on them is not met by the
// cluster of envoy.yaml, whose idle connections are gone by then. With Envoy's own limit of an
// hour, the call is lost, and its outcome unknown.
func TestIdleConnectionsAreGoneBeforeTheServersLimit(t *testing.T) {
	for name, c := range map[string]struct {
		edit    func(*envoytest.Tree)
		status  int
		outcome string // of the repeat
	}{
		"as it ships": {func(*envoytest.Tree) {}, 200, "replay"},
		"Envoy's limit": {func(tree *envoytest.Tree) {
			tree.Remove(envoytest.Clusters.To(0, "typed_extension_protocol_options")...)
		}, 503, "unknown_outcome"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := forgetful(t, 4500*time.Millisecond)
			e := startEnvoy(t, envoytest.Options{Plugin: must(t, buildPlugin), Upstream: server.url, Edit: c.edit})
			if resp, body := post(t, e.URL(), "Idempotency-Key", "one"); resp.StatusCode != 200 {
				t.Fatalf("the first call: %d %s", resp.StatusCode, body)
			}
			time.Sleep(5 * time.Second)
			if resp, body := post(t, e.URL(), "Idempotency-Key", "two"); resp.StatusCode != c.status {
				t.Errorf("the call after the pause: want %d, got %d %s", c.status, resp.StatusCode, body)
			}
			post(t, e.URL(), "Idempotency-Key", "two")
			records, err := e.AccessLog()
			if err != nil || len(records) != 3 || records[2]["outcome"] != c.outcome {
				t.Errorf("the repeat: want %s, got %v, %v", c.outcome, records, err)
			}
			wantRuns, wantLost := int32(2), int32(0)
			if c.status != 200 {
				wantRuns, wantLost = 1, 1
			}
			if runs, lost := server.runs.Load(), server.lost.Load(); runs != wantRuns || lost != wantLost {
				t.Errorf("want %d runs and %d calls lost, got %d and %d", wantRuns, wantLost, runs, lost)
			}
		})
	}
}

// forgetfulServer answers calls, but closes a connection that was idle for too long at the very
// moment at which a call arrives on it: the race that a real server's timer loses now and then.
type forgetfulServer struct {
	url        string
	runs, lost atomic.Int32
}

func forgetful(t *testing.T, limit time.Duration) *forgetfulServer {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	s := &forgetfulServer{url: "http://" + l.Addr().String()}
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go s.serve(c, limit)
		}
	}()
	return s
}

func (s *forgetfulServer) serve(c net.Conn, limit time.Duration) {
	defer c.Close()
	const answer = `{"jsonrpc":"2.0","id":1,"result":{"content":[]}}`
	r := bufio.NewReader(c)
	for idle := time.Now(); ; idle = time.Now() {
		if _, err := r.Peek(1); err != nil {
			return
		}
		late := time.Since(idle) > limit
		req, err := http.ReadRequest(r)
		if err != nil {
			return
		}
		if _, err := io.Copy(io.Discard, req.Body); err != nil {
			return
		}
		if late {
			s.lost.Add(1)
			return
		}
		s.runs.Add(1)
		fmt.Fprintf(c, "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n%s", len(answer), answer)
	}
}
