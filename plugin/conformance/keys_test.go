package conformance

import (
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
)

// million is the environment variable that makes case 29 count to a million; it then
// takes a good part of an hour.
const million = "CALLONCE_MILLION"

// Case 29: however many distinct keys there were, shared data holds no more keys and
// bytes than were stated at the start, and no more later than sooner.
func TestDistinctKeys(t *testing.T) {
	const config = `{"namespace":"cases","policies":{"p":{"reply":"http","server":"s","anonymous":true,"limits":{
		"entries":2000,"entries_per_principal":2000,"entries_per_scope":2000,"reply_bytes":4096,"stored_bytes":1048576,"on_full":"evict"}}},"default":"p"}`
	calls := 30_000
	if os.Getenv(million) != "" {
		calls = 1_000_000
	}
	u := newUpstream(t, asJSON)
	p := simulator{}.start(t, Setup{Config: config, Upstream: u.URL})
	c := newClient(t, p)
	var mostKeys int
	var mostBytes int
	if _, err := fmt.Sscanf(p.Logs()[strings.Index(p.Logs(), "the ledger holds"):], "the ledger holds at most %d keys and %d bytes", &mostKeys, &mostBytes); err != nil {
		t.Fatalf("the stated maximum: %v in %q", err, p.Logs())
	}
	store := p.host.Store()
	n := 0
	tenth := func() (keys, bytes int, memory int64) {
		var all sync.WaitGroup
		turn := make(chan int)
		for range 8 {
			all.Go(func() {
				for i := range turn {
					if r := c.call("1", "charge", `{}`, fmt.Sprint("k", i)); r.Status != 200 || r.isRefusal() != "" {
						t.Errorf("call %d: %d %v %.300s", i, r.Status, r.Err, r.Body)
					}
				}
			})
		}
		for i := range calls / 10 {
			n++
			turn <- n
			if i%500 == 0 {
				p.host.Tick() // no matter how fast the machine is, the sweep goes on
			}
		}
		close(turn)
		all.Wait()
		u.forget()
		return len(store.Keys(vmID)), store.Bytes(vmID), p.Memory(t)
	}
	type figures struct {
		keys, bytes int
		memory      int64
	}
	var seen []figures
	for range 10 {
		keys, bytes, memory := tenth()
		seen = append(seen, figures{keys, bytes, memory})
		if t.Failed() {
			return
		}
		if keys > mostKeys || bytes > mostBytes {
			t.Errorf("after %d distinct keys: %d keys and %d bytes of shared data, stated were %d and %d", n, keys, bytes, mostKeys, mostBytes)
		}
	}
	half, end := seen[4], seen[9]
	t.Logf("%d distinct keys; shared data: %d keys and %d bytes after half, %d and %d at the end; at most %d and %d were stated; VMs: %d MiB, %d MiB",
		n, half.keys, half.bytes, end.keys, end.bytes, mostKeys, mostBytes, half.memory>>20, end.memory>>20)
	if end.keys != half.keys || end.bytes > half.bytes+half.bytes/10 || end.memory > half.memory+half.memory/8 {
		t.Errorf("not flat: %+v", seen)
	}
	wantRuns(t, u, n)
}
