package e2e_test

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/callonce/callonce/e2e/envoytest"
)

// A ledger that is full says when it has room, and has it then.
func TestRetryAfterOfCapacity(t *testing.T) {
	var runs atomic.Int32
	server := scripted(t, func(w http.ResponseWriter, r *http.Request) {
		if runs.Add(1) == 1 {
			w.WriteHeader(http.StatusBadGateway)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(`{"jsonrpc":"2.0","id":1,"result":{"content":[]}}`))
	})
	e := startEnvoy(t, envoytest.Options{
		Plugin: must(t, buildPlugin), Upstream: server, Workers: 2,
		Config: `{"policies":{"p":{"server":"s","anonymous":true,"reply":"http","ttl":"5s","lease":"2s","limits":{"tombstones_per_scope":1}}},"default":"p"}`,
	})
	if resp, body := post(t, e.URL(), "Idempotency-Key", "k1"); resp.StatusCode != http.StatusBadGateway {
		t.Fatalf("the first: %d %s", resp.StatusCode, body)
	}
	begun := time.Now()
	resp, body := post(t, e.URL(), "Idempotency-Key", "k2")
	said, err := strconv.Atoi(resp.Header.Get("Retry-After"))
	if resp.StatusCode != 429 || err != nil || said < 5 || said > 15 {
		t.Fatalf("want 429 and a Retry-After of 5 to 15, got %d, %v: %s", resp.StatusCode, resp.Header, body)
	}
	if !strings.Contains(body, fmt.Sprintf(`"retry_after_ms":%d`, 1000*said)) {
		t.Errorf("want the same wait in the data, got %d s and %s", said, body)
	}
	time.Sleep(time.Until(begun.Add(time.Duration(said+1) * time.Second)))
	if resp, body := post(t, e.URL(), "Idempotency-Key", "k2"); resp.StatusCode != 200 || runs.Load() != 2 {
		t.Errorf("after %d s: want the call to run, got %d, %d runs: %s", said, resp.StatusCode, runs.Load(), body)
	}
}
