package envoytest_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/callonce/callonce/e2e/envoytest"
)

func startEnvoy(t *testing.T, opts envoytest.Options) *envoytest.Envoy {
	t.Helper()
	e, err := envoytest.Start(opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(e.Close)
	return e
}

func get(t *testing.T, url string) (status int, body string) {
	t.Helper()
	resp, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(text)
}

func TestWithoutFilter(t *testing.T) {
	upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, r.URL.Path) }))
	t.Cleanup(upstream.Close)
	e := startEnvoy(t, envoytest.Options{Upstream: upstream.URL, Workers: 2})
	before, err := e.CPU()
	if err != nil {
		t.Fatal(err)
	}
	for range 20 {
		if status, body := get(t, e.URL()+"/hello"); status != 200 || body != "/hello" {
			t.Fatalf("want 200 /hello, got %d %s", status, body)
		}
	}
	if after, err := e.CPU(); err != nil || after <= before {
		t.Errorf("want CPU time to grow, got %v, then %v (%v)", before, after, err)
	}
	records, err := e.AccessLog()
	if err != nil || len(records) != 20 {
		t.Fatalf("want 20 access log records, got %d, %v", len(records), err)
	}
	if r := records[0]; r["status"] != "200" || r["path"] != "/hello" || r["details"] != "via_upstream" || r["outcome"] != "" {
		t.Errorf("want a 200 of /hello via_upstream without outcome, got %v", r)
	}
	n, err := e.Counter("envoy_http_downstream_rq_total", map[string]string{"envoy_http_conn_manager_prefix": "mcp"})
	if err != nil || n != 20 {
		t.Errorf("want 20 requests counted, got %d, %v", n, err)
	}
}

func TestRetries(t *testing.T) {
	for _, retries := range []int{0, 2} {
		t.Run(fmt.Sprint(retries), func(t *testing.T) {
			var runs atomic.Int32
			upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				runs.Add(1)
				w.WriteHeader(http.StatusServiceUnavailable)
			}))
			t.Cleanup(upstream.Close)
			e := startEnvoy(t, envoytest.Options{Upstream: upstream.URL, Retries: retries})
			if status, _ := get(t, e.URL()); status != 503 || int(runs.Load()) != 1+retries {
				t.Errorf("want a 503 after %d runs, got %d after %d", 1+retries, status, runs.Load())
			}
		})
	}
}

func TestUpstreamNamedWrongly(t *testing.T) {
	for _, upstream := range []string{"", "127.0.0.1:80", "http://localhost:80", "https://127.0.0.1:80", "http://127.0.0.1", "http://127.0.0.1:80/mcp"} {
		if e, err := envoytest.Start(envoytest.Options{Upstream: upstream}); err == nil || !strings.Contains(err.Error(), "want http://IP:PORT") {
			t.Errorf("upstream %q: want an error that says what was expected, got %v", upstream, err)
			if err == nil {
				e.Close()
			}
		}
	}
}
