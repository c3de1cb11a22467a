package hostsim

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"runtime"
	"sync"
	"testing"
	"time"
)

// Whatever clients, servers and plans do to one another, every stream ends, once, and nothing is left over.
func TestNothingIsLeftOver(t *testing.T) {
	before := runtime.NumGoroutine()
	t.Run("storm", func(t *testing.T) {
		r := newRig(t, func(c *Config, o *ProxyOptions) {
			c.Workers, c.FailReload, c.ReloadBackoff = 2, true, time.Millisecond
			o.IdleTimeout, o.ResponseTimeout = 600*time.Millisecond, 400*time.Millisecond
			o.RouteRetries = 1
		})
		plans := []string{"", "rh pause; rb pause", "rh pause; rb pause; re pause", "rh pause; rb pause; re pause; tick resume", "rh reply 401 no", "re reply 409 no", "sb reply 500 no",
			"rh pause; rb pause; re pause; re call up /ok 300; call resume", "rh pause; rb pause; re replace abc", "sh pause", "sb pause; se pause"}
		paths := []string{"/ok", "/chunks", "/empty", "/close", "/reset", "/cutchunk", "/cutlength", "/garbage", "/never", "/endless", "/503", "/untilclose"}
		const requests = 300
		client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 20}}
		var wg sync.WaitGroup
		slots := make(chan struct{}, 24)
		for i := range requests {
			slots <- struct{}{}
			wg.Go(func() {
				defer func() { <-slots }()
				rng := rand.New(rand.NewPCG(1, uint64(i)))
				plan, path := plans[rng.IntN(len(plans))], paths[rng.IntN(len(paths))]
				if rng.IntN(40) == 0 {
					plan = "sh panic"
				}
				ctx, leave := context.WithCancel(context.Background())
				defer leave()
				if rng.IntN(3) == 0 || path == "/endless" {
					time.AfterFunc(time.Duration(rng.IntN(200))*time.Millisecond, leave)
				}
				resp, err := client.Do(r.request(ctx, "POST", path, fmt.Sprint("N", i), plan, "body"))
				if err != nil {
					return
				}
				io.Copy(io.Discard, resp.Body)
				resp.Body.Close()
			})
			if i%100 == 50 {
				r.host.Crash(i / 100 % 2)
			}
			if i%20 == 0 {
				r.host.Tick()
			}
		}
		wg.Wait()
		client.CloseIdleConnections()
		// A request that a client gave up before it was sent leaves no record, so only the streams themselves can be counted.
		for deadline := time.Now().Add(patience); ; time.Sleep(20 * time.Millisecond) {
			open := 0
			for _, w := range r.host.workers {
				w.loop.do("count", func() {
					open += len(w.streams)
					if w.vm != nil && len(w.streams) == 0 && len(w.vm.contexts) != 2 {
						t.Errorf("worker %d: %d contexts without a stream, want the VM's and the plugin's", w.number, len(w.vm.contexts))
					}
				})
			}
			if open == 0 {
				break
			}
			if time.Now().After(deadline) {
				t.Fatalf("%d streams never ended", open)
			}
		}
		if n := len(r.records); n > requests {
			t.Errorf("%d records for %d requests", n, requests)
		}
	})
	for deadline := time.Now().Add(patience); runtime.NumGoroutine() > before+2; time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			buf := make([]byte, 1<<20)
			t.Fatalf("%d goroutines, %d before:\n%s", runtime.NumGoroutine(), before, buf[:runtime.Stack(buf, true)])
		}
	}
}
