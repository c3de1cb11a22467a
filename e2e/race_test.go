package e2e_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"

	keyed "github.com/callonce/callonce/clients/go"
	"github.com/callonce/callonce/e2e/envoytest"
	"github.com/callonce/callonce/e2e/payments"
)

const (
	raceWorkers = 8
	raceCalls   = 200 // at the same instant
	raceRounds  = 100
)

// Of identical calls at the same instant, on all workers, exactly one runs.
func TestRace(t *testing.T) {
	server := startPayments(t, payments.Options{Stateless: true})
	envoy := startEnvoy(t, envoytest.Options{Plugin: must(t, buildPlugin), Upstream: server.URL(), Workers: raceWorkers})
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: raceCalls}}
	t.Cleanup(client.CloseIdleConnections)

	total := map[string]int{}
	for round := range raceRounds {
		// Short payments and ones that outlast the round's start, so that repeats meet
		// both a call in flight and a completed one.
		call := raceCall{client, envoy.URL() + "/mcp", fmt.Sprintf("round-%d", round), round % 3 * 10}
		for kind, n := range call.atOnce(t) {
			total[kind] += n
		}
		if n := server.Book.CountFor(call.name); n != 1 {
			t.Fatalf("%s: want 1 charge at the server, got %d", call.name, n)
		}
		if got, err := call.send(); err != nil || got != "replay" {
			t.Fatalf("%s: the call once more: want a replay, got %q, %v", call.name, got, err)
		}
	}
	t.Logf("%d rounds of %d calls on %d workers: %v", raceRounds, raceCalls, raceWorkers, total)
	if total["first"] != raceRounds {
		t.Errorf("want one first answer a round, got %d in %d rounds", total["first"], raceRounds)
	}
	allWorkersServed(t, envoy)
}

// allWorkersServed checks that the race was one: that each worker had connections.
func allWorkersServed(t *testing.T, envoy *envoytest.Envoy) {
	t.Helper()
	for worker := range raceWorkers {
		n, err := envoy.Counter("envoy_listener_worker_downstream_cx_total", map[string]string{"envoy_worker_id": fmt.Sprint(worker)})
		if err != nil || n == 0 {
			t.Errorf("want connections on worker %d, got %d, %v", worker, n, err)
		}
	}
}

type raceCall struct {
	client  *http.Client
	url     string
	name    string // customer and key
	delayMS int
}

// atOnce sends the call many times at the same instant and counts what came back.
func (c raceCall) atOnce(t *testing.T) map[string]int {
	t.Helper()
	var (
		mu     sync.Mutex
		counts = map[string]int{}
		start  = make(chan struct{})
		all    sync.WaitGroup
	)
	for range raceCalls {
		all.Go(func() {
			<-start
			kind, err := c.send()
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				t.Errorf("%s: %v", c.name, err)
			}
			counts[kind]++
		})
	}
	close(start)
	all.Wait()
	return counts
}

// send sends the call once and returns "first", "replay" or "in_flight"; anything
// else that comes back is an error.
func (c raceCall) send() (string, error) {
	body := fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"charge","arguments":{"customer":%q,"amount_cents":1,"delay_ms":%d}}}`, c.name, c.delayMS)
	req, err := http.NewRequest("POST", c.url, strings.NewReader(body))
	if err != nil {
		return "", err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json, text/event-stream")
	req.Header.Set(keyed.Header, c.name)
	resp, err := c.client.Do(req)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		return "", err
	}
	switch kind := outcome(resp, string(text)); {
	case kind == "replay" && charged(text), kind == "first" && charged(text):
		return kind, nil
	case kind == "idempotency_in_flight":
		return "in_flight", nil
	}
	return "", fmt.Errorf("want a charge, a replay or an in_flight refusal, got %d: %s", resp.StatusCode, text)
}

// charged says that an answer of the payments server is one of a charge.
func charged(text []byte) bool { return strings.Contains(string(text), `"charge_id":"ch_`) }
