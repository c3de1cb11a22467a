package e2e_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
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
	// Under load: calls of four clients, while an operator reads pages at a pace, on the one worker that serves both.
	from := listedEntries
	load := func(pace time.Duration, query string) (out loaded) {
		done := make(chan struct{})
		var reader sync.WaitGroup
		if query != "" {
			reader.Go(func() {
				next := ""
				for {
					status, text := ask(ops, "GET", "/mcp/keys?"+query+next, "", "")
					var page struct{ Next string }
					if err := json.Unmarshal([]byte(text), &page); status != 200 || err != nil {
						t.Errorf("%d %s", status, text)
						return
					}
					out.pages++
					if next = ""; page.Next != "" {
						next = "&at=" + page.Next
					}
					select {
					case <-done:
						return
					case <-time.After(pace):
					}
				}
			})
		}
		began := time.Now()
		out.cpu = cpu(1, func() {
			var mu sync.Mutex
			var wg sync.WaitGroup
			for c := range loadClients {
				wg.Go(func() {
					for n := from + c; n < from+loadCalls; n += loadClients {
						began := time.Now()
						calls(n, n+1, 1)
						mu.Lock()
						out.took = append(out.took, time.Since(began))
						mu.Unlock()
					}
				})
			}
			wg.Wait()
		})
		out.lasted = time.Since(began)
		close(done)
		reader.Wait()
		from += loadCalls
		slices.Sort(out.took)
		return out
	}
	variants := []struct {
		name, query string
		pace        time.Duration
	}{{"nobody lists", "", 0}, {"a page of 100 each 100 ms", "limit=100", 100 * time.Millisecond}, {"a page of 500 each 100 ms", "limit=500", 100 * time.Millisecond}, {"pages of 100 without a pause", "limit=100", 0}, {"pages of 500 without a pause", "limit=500", 0}}
	all := make([]loaded, len(variants))
	for range loadRounds {
		for i, v := range variants {
			all[i].add(load(v.pace, v.query))
		}
	}
	for i, v := range variants {
		slices.Sort(all[i].took)
		t.Logf("| %s | %s |", v.name, all[i])
	}
	if n, want := server.Runs("charge"), listedEntries+len(variants)*loadRounds*loadCalls; n != want {
		t.Errorf("%d calls ran, want %d", n, want)
	}
}

const loadClients, loadCalls, loadRounds = 4, 200, 4

// loaded is what calls took while keys were listed.
type loaded struct {
	took        []time.Duration // of each call
	cpu, lasted time.Duration   // of the proxy; of the whole
	pages       int
}

func (l *loaded) add(o loaded) {
	l.took, l.cpu, l.lasted, l.pages = append(l.took, o.took...), l.cpu+o.cpu, l.lasted+o.lasted, l.pages+o.pages
}

// String has the columns of docs/measurements.md: pages and calls a second, the proxy's CPU time for each call, all that was spent on pages
// in it, and what calls took.
func (l loaded) String() string {
	n := len(l.took)
	ms := func(d time.Duration) string { return fmt.Sprintf("%.1f", float64(d)/float64(time.Millisecond)) }
	return fmt.Sprintf("%.0f | %.0f | %.0f | %s | %s | %s", float64(l.pages)/l.lasted.Seconds(), float64(n)/l.lasted.Seconds(), float64(l.cpu)/float64(n)/float64(time.Microsecond),
		ms(l.took[n/2]), ms(l.took[n*99/100]), ms(l.took[n-1]))
}
