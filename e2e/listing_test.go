package e2e_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/callonce/callonce/e2e/callers"
	"github.com/callonce/callonce/e2e/envoytest"
)

const listedEntries = 16384

// A listing of a full table takes bounded pages, while calls go on. What a page costs is logged: docs/operators.md has it.
func TestListingAFullTable(t *testing.T) {
	server := startRecorder(t)
	config := strings.Replace(keysConfig, `"strip":true,`, fmt.Sprintf(`"strip":true,"ttl":"1h","limits":{"entries":%[1]d,"entries_per_principal":%[1]d,"entries_per_scope":%[1]d},`, listedEntries+4096), 1)
	config = strings.Replace(config, `"path":"/callonce/keys"`, `"path":"/mcp/keys"`, 1)
	v := startVerifier(t, envoytest.Options{Plugin: must(t, buildPlugin), Config: config, Upstream: server.URL, Workers: 1}, everybodyPasses)
	as := func(sub string, claims map[string]any) (http.RoundTripper, string) {
		token := v.realm.Token(callers.First, sub, claims)
		return v.transport(t, callers.Client{Token: token}), token
	}
	ada, _ := as("ada", nil)
	ops, _ := as("olga", map[string]any{"roles": []string{"payments-ops"}})
	ask := func(by http.RoundTripper, method, path, body, key string) (int, string) {
		req, err := http.NewRequestWithContext(t.Context(), method, v.URL()+path, strings.NewReader(body))
		if err != nil {
			t.Error(err)
			return 0, ""
		}
		req.Header = http.Header{"Content-Type": {"application/json"}, "Accept": {"application/json, text/event-stream"}}
		if key != "" {
			req.Header.Set("Idempotency-Key", key)
		}
		req.GetBody = nil
		resp, err := by.RoundTrip(req)
		if err != nil {
			t.Error(err)
			return 0, ""
		}
		defer resp.Body.Close()
		text, _ := io.ReadAll(resp.Body)
		return resp.StatusCode, string(text)
	}
	calls := func(from, to, at int) {
		var wg sync.WaitGroup
		for c := range at {
			wg.Go(func() {
				for n := from + c; n < to; n += at {
					if status, text := ask(ada, "POST", "/mcp", toolCall("1", "charge", `{}`), fmt.Sprint("k", n)); status != 200 || strings.Contains(text, "idempotency_") {
						t.Errorf("call %d: %d %s", n, status, text)
						return
					}
				}
			})
		}
		wg.Wait()
	}
	calls(0, listedEntries, 8)
	cpu := func(n int, do func()) time.Duration {
		before, err := v.CPU()
		if err != nil {
			t.Fatal(err)
		}
		for range n {
			do()
		}
		after, err := v.CPU()
		if err != nil {
			t.Fatal(err)
		}
		return (after - before) / time.Duration(n)
	}
	list := func(query string) (pages, keys, bytes int) {
		from := ""
		for {
			status, text := ask(ops, "GET", "/mcp/keys?"+query+from, "", "")
			var page struct {
				Keys []struct{}
				Next string
			}
			if err := json.Unmarshal([]byte(text), &page); status != 200 || err != nil {
				t.Fatalf("%d %s", status, text)
			}
			pages, keys, bytes = pages+1, keys+len(page.Keys), bytes+len(text)
			if page.Next == "" {
				return pages, keys, bytes
			}
			from = "&at=" + page.Next
		}
	}
	denied := cpu(200, func() { ask(ada, "GET", "/mcp/keys", "", "") })
	for _, query := range []string{"limit=500", "limit=100", "state=outcome_unknown&limit=500"} {
		pages, keys, bytes := 0, 0, 0
		whole := cpu(3, func() { pages, keys, bytes = list(query) })
		t.Logf("%s: %d keys, %d bytes, %d pages; CPU time %v each, %v for all (a request that is denied: %v)", query, keys, bytes, pages, whole/time.Duration(pages), whole, denied)
		switch {
		case strings.Contains(query, "state"):
			if keys != 0 || pages != 8 {
				t.Errorf("%s: %d keys on %d pages", query, keys, pages)
			}
		case keys != listedEntries:
			t.Errorf("%s: %d keys, want %d", query, keys, listedEntries)
		}
	}
	// Under load: the slowest call while pages are read without a pause, on the one worker that serves both.
	slowest := func(n int) (most time.Duration) {
		for i := range 300 {
			began := time.Now()
			calls(listedEntries+n+i, listedEntries+n+i+1, 1)
			most = max(most, time.Since(began))
		}
		return most
	}
	alone := slowest(0)
	done := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			select {
			case <-done:
				return
			default:
				list("limit=500")
			}
		}
	})
	beside := slowest(1000)
	close(done)
	wg.Wait()
	t.Logf("the slowest of 300 calls: %v alone, %v beside pages without a pause", alone, beside)
	if n := server.Runs("charge"); n != listedEntries+600 {
		t.Errorf("%d calls ran", n)
	}
}
