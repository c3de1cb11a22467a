package schedule

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/callonce/callonce/hostsim"
)

// BenchmarkGuardedCalls measures first calls of a guarded tool over TCP, client and server included, and tells how many there are to a
// second of this process's CPU time. The table is the small one, with a ttl after which its places are free again.
func BenchmarkGuardedCalls(b *testing.B) {
	for _, workers := range []int{1, 2} {
		b.Run(fmt.Sprint("workers=", workers), func(b *testing.B) {
			config := `{"policies":{"p":{"principal":["header:x-user"],"ttl":"2s","lease":"2s"}},"default":"p"}`
			clock := hostsim.NewManualClock(Epoch)
			h, err := hostsim.New(context.Background(), hostsim.Config{Code: code, PluginConfig: []byte(config), Workers: workers, HoldHeaders: true, Clock: clock})
			if err != nil {
				b.Fatal(err)
			}
			defer h.Close()
			up := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				io.Copy(io.Discard, r.Body)
				w.Header().Set("Content-Type", "application/json")
				io.WriteString(w, `{"jsonrpc":"2.0","id":1,"result":{"content":[]}}`)
			}))
			defer up.Close()
			target, _ := url.Parse(up.URL)
			p := hostsim.NewProxy(h, target, hostsim.ProxyOptions{})
			l, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				b.Fatal(err)
			}
			go p.Serve(l)
			defer p.Close()
			client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 16}}
			defer client.CloseIdleConnections()
			var n, refused atomic.Int64
			before := cpu()
			b.ResetTimer()
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					i := n.Add(1)
					if i%16 == 0 {
						clock.Jump(time.Second)
					}
					body := `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"charge","arguments":{"pad":"` + strings.Repeat("x", 300) + `"}}}`
					req, _ := http.NewRequest("POST", "http://"+l.Addr().String()+"/mcp", strings.NewReader(body))
					req.Header.Set("Content-Type", "application/json")
					req.Header.Set("X-User", "u")
					req.Header.Set("Idempotency-Key", fmt.Sprint("k", i))
					resp, err := client.Do(req)
					if err != nil {
						refused.Add(1)
						continue
					}
					io.Copy(io.Discard, resp.Body)
					resp.Body.Close()
					if resp.StatusCode != http.StatusOK {
						refused.Add(1)
					}
				}
			})
			b.StopTimer()
			b.ReportMetric(float64(b.N)/(cpu()-before).Seconds(), "calls/cpu-s")
			b.ReportMetric(float64(refused.Load()), "refused")
		})
	}
}

func cpu() time.Duration {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
