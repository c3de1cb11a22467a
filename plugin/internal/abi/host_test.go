package abi

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/callonce/callonce/hostsim"
	"github.com/callonce/callonce/hostsim/hosttest"
)

// refusing makes one host call of worker 0 fail, the nth since it was set.
type refusing struct {
	mu       sync.Mutex
	n        int // counts down; 0 = none fails
	with     hostsim.Status
	function string // that failed
	seen     int
	died     string
}

func (r *refusing) set(n int, with hostsim.Status) (seen int, function, died string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	seen, function, died = r.seen, r.function, r.died
	r.n, r.with, r.seen, r.function, r.died = n, with, 0, "", ""
	return seen, function, died
}

func (r *refusing) before(c *hostsim.Call) hostsim.Verdict {
	r.mu.Lock()
	defer r.mu.Unlock()
	if c.Worker != 0 {
		return hostsim.Proceed()
	}
	r.seen++
	if r.seen == r.n {
		r.function = c.Function
		return hostsim.Fail(r.with)
	}
	return hostsim.Proceed()
}

func (r *refusing) log(_ int, level hostsim.LogLevel, line string) {
	if level == hostsim.LogCritical {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.died += line + "\n"
	}
}

// Whichever call of the host fails during a call with a key, and with whatever status: the VM lives, the call runs at most once however
// often it is sent, and a client is answered.
func TestHostSaysNo(t *testing.T) {
	var mu sync.Mutex
	ran := map[string]int{}
	r := &refusing{}
	f := hosttest.Start(t, hostsim.Config{
		Wasm: hosttest.Build(t, "../.."), PluginName: "callonce", HoldHeaders: true, Log: r.log, Hooks: hostsim.Hooks{Before: r.before},
		PluginConfig: []byte(`{"policies":{"p":{"server":"s","anonymous":true,"tools":[{"match":"*","guard":"required"}]}},"default":"p"}`),
		Clock:        hostsim.NewManualClock(time.Unix(1_700_000_000, 0)),
	}, http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		mu.Lock()
		ran[q.Header.Get("X-Call")]++
		mu.Unlock()
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(`{"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":"done"}]}}`))
	}))
	send := func(key string) int {
		resp, _ := f.Send("POST", "/mcp", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"charge","arguments":{"amount":5}}}`,
			"Content-Type", "application/json", "Accept", "application/json", "Idempotency-Key", key, "X-Call", key)
		f.Host.Wait()
		return resp.StatusCode
	}
	send("the-first-call-fetches-what-all-use")
	r.set(0, 0)
	send("how-many-calls-there-are")
	calls, _, _ := r.set(0, 0)
	if calls < 20 {
		t.Fatalf("%d host calls in a call with a key", calls)
	}
	failed := map[string]bool{}
	for _, with := range []hostsim.Status{hostsim.StatusNotFound, hostsim.StatusBadArgument, hostsim.StatusInvalidMemory, hostsim.StatusEmpty,
		hostsim.StatusCasMismatch, hostsim.StatusInternalFailure, hostsim.StatusUnimplemented} {
		for n := 1; n <= calls; n++ {
			key := fmt.Sprintf("%d-%d", with, n)
			r.set(n, with)
			first := send(key)
			_, function, died := r.set(0, 0)
			second := send(key)
			failed[function] = true
			mu.Lock()
			runs := ran[key]
			mu.Unlock()
			if strings.Contains(died, "VM failed") || runs > 1 || first < 200 || second < 200 {
				t.Errorf("%s (call %d) answers %v: ran %d times, %d, then %d; %s", function, n, with, runs, first, second, died)
			}
			f.Host.Tick()
			f.Host.Wait()
		}
	}
	if len(failed) < 6 {
		t.Errorf("only these failed: %v", failed)
	}
}
