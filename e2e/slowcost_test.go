package e2e_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/callonce/callonce/e2e/envoytest"
)

// gatedServer answers the tool slow when its gate opens, and all else at once.
type gatedServer struct {
	*httptest.Server

	mu   sync.Mutex
	gate chan struct{}
	runs int
}

func startGated(t *testing.T) *gatedServer {
	g := &gatedServer{gate: make(chan struct{})}
	g.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var m struct {
			ID     json.RawMessage
			Params struct{ Name string }
		}
		body, err := io.ReadAll(r.Body)
		if err != nil || json.Unmarshal(body, &m) != nil {
			return
		}
		g.mu.Lock()
		g.runs++
		gate := g.gate
		g.mu.Unlock()
		if m.Params.Name == "slow" {
			<-gate
		}
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":{"content":[{"type":"text","text":"%s"}]}}`, m.ID, strings.Repeat("x", 300))
	}))
	t.Cleanup(func() { g.open(); g.CloseClientConnections(); g.Close() })
	return g
}

// open lets all go that wait, and closes again.
func (g *gatedServer) open() {
	g.mu.Lock()
	defer g.mu.Unlock()
	close(g.gate)
	g.gate = make(chan struct{})
}

func (g *gatedServer) ran() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.runs
}

// What 200 detached calls and 500 repeats that wait for them cost while nothing happens, and whether anything is left of them after eighty
// rounds, sixty of them once all tables are full: an hour of calls of a minute each. The figures are for docs/measurements.md.
func TestSlowCallsInNumbers(t *testing.T) {
	if os.Getenv("CALLONCE_LONG_RUN") == "" {
		t.Skip("takes minutes: set CALLONCE_LONG_RUN=1")
	}
	// The limits are small, so that entries and answers that are kept fill what they may after few rounds, and look like nothing that is left over.
	const calls, waiters, full, rounds, idle = 200, 500, 20, 80, 5 * time.Second
	server := startGated(t)
	e := startEnvoy(t, envoytest.Options{Plugin: must(t, buildPlugin), Upstream: server.URL, Workers: 2,
		Config: `{"policies":{"p":{"server":"s","principal":["header:x-user"],"ttl":"5s","lease":"5s","wait":"2m","tools":[{"match":"quick"},{"match":"quick_detached","detach":true},{"match":"slow","on_disconnect":"continue"}],
			"limits":{"waiting":1024,"waiting_per_scope":1024,"detached":512,"detached_per_scope":512,"in_flight_per_principal":512,"in_flight_per_scope":512,"entries":4096,"entries_per_principal":4096,"entries_per_scope":4096,"stored_bytes":1048576,"on_full":"evict"}}},"default":"p"}`})
	transport := &http.Transport{MaxIdleConnsPerHost: 64}
	t.Cleanup(transport.CloseIdleConnections)
	post := func(ctx context.Context, tool, key string) (string, error) {
		req, err := http.NewRequestWithContext(ctx, "POST", e.URL()+"/mcp", strings.NewReader(toolCall("1", tool, `{"text":"`+strings.Repeat("y", 200)+`"}`)))
		if err != nil {
			return "", err
		}
		req.Header = http.Header{"Content-Type": {"application/json"}, "Accept": {"application/json, text/event-stream"}, "Idempotency-Key": {key}, "X-User": {"ada"}}
		req.GetBody = nil
		resp, err := transport.RoundTrip(req)
		if err != nil {
			return "", err
		}
		defer resp.Body.Close()
		body, err := io.ReadAll(resp.Body)
		return outcome(resp, string(body)), err
	}
	gauge := func(name string, want int64) {
		t.Helper()
		for end := time.Now().Add(time.Minute); ; time.Sleep(20 * time.Millisecond) {
			n, err := e.Counter(name, nil)
			if err == nil && n == want {
				return
			}
			if time.Now().After(end) {
				t.Fatalf("%s is %d, %v, want %d", name, n, err, want)
			}
		}
	}
	measure := func(what string) int64 {
		t.Helper()
		rss, err := e.RSS()
		if err != nil {
			t.Fatal(err)
		}
		before, err := e.CPU()
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(idle)
		after, err := e.CPU()
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("%s: %.1f MiB, %.2f ms CPU a second", what, float64(rss)/(1<<20), float64(after-before)/float64(time.Millisecond)/idle.Seconds())
		return rss
	}
	round := func(n int, look func(what string)) {
		t.Helper()
		before := server.ran()
		ctx, leave := context.WithCancel(t.Context())
		for i := range calls {
			go func() { _, _ = post(ctx, "slow", fmt.Sprint("k", n, "-", i)) }()
		}
		for server.ran() < before+calls {
			time.Sleep(10 * time.Millisecond)
		}
		leave()
		look(fmt.Sprint(calls, " detached calls"))
		words := make(chan string, waiters)
		for i := range waiters {
			go func() {
				word, err := post(t.Context(), "slow", fmt.Sprint("k", n, "-", i%calls))
				if err != nil {
					word = err.Error()
				}
				words <- word
			}()
		}
		gauge("callonce_waiting", waiters)
		look(fmt.Sprint("and ", waiters, " repeats that wait for them"))
		server.open()
		said := map[string]int{}
		for range waiters {
			said[<-words]++
		}
		if fmt.Sprint(said) != fmt.Sprintf("map[replay:%d]", waiters) || server.ran() != before+calls {
			t.Fatalf("round %d: got %v, %d runs", n, said, server.ran()-before)
		}
	}
	round(0, func(string) {})
	measure("after a first round")
	round(1, func(what string) { measure(what) })
	for n := 2; n < full; n++ {
		round(n, func(string) {})
	}
	early := measure(fmt.Sprint("after ", full, " rounds"))
	for n := full; n < rounds; n++ {
		round(n, func(string) {})
	}
	gauge("callonce_waiting", 0)
	gauge("callonce_detached", 0)
	late := measure(fmt.Sprint("after ", rounds, " rounds"))
	if late > early+12<<20 {
		t.Errorf("from %d MiB after %d rounds to %d MiB after %d", early>>20, full, late>>20, rounds)
	}
	cost := func(tool string, n int) float64 {
		before, err := e.CPU()
		if err != nil {
			t.Fatal(err)
		}
		for i := range n {
			if word, err := post(t.Context(), tool, fmt.Sprintf("%s-%d-%d", tool, i, time.Now().UnixNano())); err != nil || word != "first" {
				t.Fatalf("%s: %s, %v", tool, word, err)
			}
		}
		after, err := e.CPU()
		if err != nil {
			t.Fatal(err)
		}
		return float64(after-before) / float64(time.Microsecond) / float64(n)
	}
	cost("quick", 500)
	cost("quick_detached", 500)
	for range 3 {
		t.Logf("CPU of a call: %.0f µs as the proxy makes it, %.0f µs detached", cost("quick", 1500), cost("quick_detached", 1500))
	}
}
