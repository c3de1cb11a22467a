package e2e_test

import (
	"context"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/callonce/callonce/e2e/envoytest"
	"github.com/callonce/callonce/e2e/tools"
)

// secretServer is an MCP server behind TLS, under another path than its callers know.
type secretServer struct {
	*httptest.Server
	works chan struct{} // closed: the tool charge ends

	mu   sync.Mutex
	seen []*http.Request
	runs map[string]int // by tool
}

func startSecretServer(t *testing.T) *secretServer {
	s := &secretServer{works: make(chan struct{}), runs: map[string]int{}}
	s.Server = httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		var m struct {
			ID     json.RawMessage
			Params struct {
				Name      string
				Arguments struct{ Status int }
			}
		}
		if err != nil || json.Unmarshal(body, &m) != nil {
			w.WriteHeader(400)
			return
		}
		s.mu.Lock()
		s.seen = append(s.seen, r)
		s.runs[m.Params.Name]++
		n := s.runs[m.Params.Name]
		s.mu.Unlock()
		w.Header().Set("Server-Timing", "db;dur=53")
		if m.Params.Arguments.Status > 0 {
			w.WriteHeader(m.Params.Arguments.Status)
			return
		}
		if m.Params.Name == "charge" {
			select {
			case <-s.works:
			case <-r.Context().Done():
				return
			}
		}
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":{"content":[{"type":"text","text":"run %d"}]}}`, m.ID, n)
	}))
	t.Cleanup(s.Close)
	return s
}

func (s *secretServer) last() (*http.Request, int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.seen) == 0 {
		return nil, 0
	}
	return s.seen[len(s.seen)-1], len(s.seen)
}

// envoy/detach.yaml as it is, but for the server's address and authority: a call of the filter's own goes by the routes that rewrite
// path, host and headers, to a server behind TLS, and outlives its caller.
func TestDetachedByTheSameRoutes(t *testing.T) {
	for name, envoy := range map[string]func() (string, error){"newest": tools.Envoy, "oldest": tools.OldestEnvoy} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("ENVOY", must(t, envoy))
			server := startSecretServer(t)
			ca := filepath.Join(t.TempDir(), "ca.pem")
			if err := os.WriteFile(ca, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}), 0o600); err != nil {
				t.Fatal(err)
			}
			e := startEnvoy(t, envoytest.Options{
				Plugin: must(t, buildPlugin), Upstream: strings.Replace(server.URL, "https:", "http:", 1), File: "detach.yaml", Retries: 2,
				Edit: func(tree *envoytest.Tree) {
					tls := envoytest.Clusters.To(0, "transport_socket", "typed_config")
					trust := tls.To("common_tls_context", "validation_context")
					tree.Set("example.com", tls.To("sni")...)
					tree.Set(map[string]any{"filename": ca}, trust.To("trusted_ca")...)
					tree.Set("example.com", trust.To("match_typed_subject_alt_names", 0, "matcher", "exact")...)
				},
			})
			for line := range strings.Lines(e.Logs()) {
				for _, bad := range []string{"[warning]", "[error]", "[critical]", "eprecated"} {
					if strings.Contains(line, bad) {
						t.Errorf("want no remarks, got %s", line)
					}
				}
			}
			post := func(ctx context.Context, tool, arguments, key string) (*http.Response, string, error) {
				req, err := http.NewRequestWithContext(ctx, "POST", e.URL()+"/MCP/tenant?q=1", strings.NewReader(toolCall("1", tool, arguments)))
				if err != nil {
					t.Fatal(err)
				}
				req.GetBody = nil
				req.Header = http.Header{"Content-Type": {"application/json"}, "Accept": {"application/json, text/event-stream"}, "Idempotency-Key": {key},
					"X-Internal": {"1"}, "X-Gateway": {"mine"}, "X-Request-Id": {"6f9b7c1e-0000-4000-8000-000000000001"}, "Authorization": {"Bearer t"},
					"X-Forwarded-For": {"192.0.2.7"}, "Traceparent": {"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"}}
				resp, err := http.DefaultTransport.RoundTrip(req)
				if err != nil {
					return nil, "", err
				}
				return resp, whole(t, resp), nil
			}
			if _, body, err := post(t.Context(), "plain", `{}`, "plain"); err != nil || !strings.Contains(body, "run 1") {
				t.Fatalf("the call that the proxy makes: %s, %v", body, err)
			}
			plain, _ := server.last()

			ctx, leave := context.WithCancel(t.Context())
			left := make(chan error, 1)
			go func() {
				_, _, err := post(ctx, "charge", `{}`, "k")
				left <- err
			}()
			var detached *http.Request
			for n := 0; n < 2; time.Sleep(10 * time.Millisecond) {
				if detached, n = server.last(); t.Context().Err() != nil {
					t.Fatal("the call did not come to the server")
				}
			}
			leave()
			if err := <-left; err == nil {
				t.Fatal("the client did not leave")
			}
			type answered struct {
				resp *http.Response
				body string
			}
			answers := make(chan answered, 4)
			for range cap(answers) {
				go func() {
					resp, body, _ := post(t.Context(), "charge", `{}`, "k")
					answers <- answered{resp, body}
				}()
			}
			for n := int64(0); n < int64(cap(answers)); time.Sleep(10 * time.Millisecond) {
				n, _ = e.Counter("callonce_waiting", nil)
			}
			close(server.works)
			for range cap(answers) {
				a := <-answers
				if a.resp == nil || outcome(a.resp, a.body) != "replay" || !strings.Contains(a.body, "run 1") {
					t.Errorf("the repeat got %v: %s", a.resp, a.body)
				}
			}
			if resp, body, err := post(t.Context(), "charge", `{"a":1}`, "stays"); err != nil || outcome(resp, body) != "first" || resp.Header.Get("Server-Timing") != "" {
				t.Errorf("a caller that stays got %v, %s, %v", resp, body, err)
			}

			if plain.URL.Path != "/v2/mcp/tenant" || plain.Host != "mcp.example.com" || plain.Header.Get("X-Gateway") != "callonce" || plain.Header.Get("X-Internal") != "" {
				t.Fatalf("the route does not rewrite: %s %s %v", plain.Host, plain.URL, plain.Header)
			}
			if detached.Method != plain.Method || detached.Host != plain.Host || detached.RequestURI != plain.RequestURI || detached.ContentLength != plain.ContentLength+1 {
				t.Errorf("the server got %s %s %s of %d bytes, of the proxy %s %s %s of %d", detached.Method, detached.Host, detached.RequestURI, detached.ContentLength,
					plain.Method, plain.Host, plain.RequestURI, plain.ContentLength)
			}
			for _, name := range slices.Sorted(maps.Keys(union(detached.Header, plain.Header))) {
				d, p := detached.Header[name], plain.Header[name]
				switch name {
				case "Content-Length", "X-Envoy-Expected-Rq-Timeout-Ms":
				default:
					if !slices.Equal(d, p) {
						t.Errorf("%s: the server got %q, of the proxy %q", name, d, p)
					}
				}
			}
			before := server.ran("charge")
			if resp, body, err := post(t.Context(), "charge", `{"status":503}`, "fails"); err != nil || resp.StatusCode != 503 {
				t.Errorf("got %v, %s, %v", resp, body, err)
			}
			if resp, body, err := post(t.Context(), "charge", `{"status":503}`, "fails"); err != nil || outcome(resp, body) != "idempotency_outcome_unknown" {
				t.Errorf("the repeat got %v, %s, %v", resp, body, err)
			}
			if n := server.ran("charge") - before; n != 1 {
				t.Errorf("a call that failed ran %d times", n)
			}
			for _, gauge := range []string{"callonce_waiting", "callonce_detached"} {
				if n, err := e.Counter(gauge, nil); err != nil || n != 0 {
					t.Errorf("%s is %d, %v", gauge, n, err)
				}
			}
			if t.Failed() {
				t.Logf("%.3000s", e.Logs())
			}
		})
	}
}

func (s *secretServer) ran(tool string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.runs[tool]
}

func union(a, b http.Header) map[string]bool {
	out := map[string]bool{}
	for _, h := range []http.Header{a, b} {
		for name := range h {
			out[name] = true
		}
	}
	return out
}
