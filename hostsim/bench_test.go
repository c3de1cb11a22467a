package hostsim

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
)

// BenchmarkRequests measures a request through the proxy and back, for a plan that passes everything and for one that holds the
// request until its body is there.
func BenchmarkRequests(b *testing.B) {
	for _, bench := range []struct{ name, plan string }{{"passed", ""}, {"held", "rh pause; rb pause"}, {"answered", "rh reply 200 x"}} {
		for _, workers := range []int{1, 2} {
			b.Run(fmt.Sprintf("%s/workers=%d", bench.name, workers), func(b *testing.B) {
				h, err := New(context.Background(), Config{Wasm: probeWasm, CacheDir: cacheDir, HoldHeaders: true, Workers: workers})
				if err != nil {
					b.Fatal(err)
				}
				defer h.Close()
				up := newHTTP(b, func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, "hello") })
				p := NewProxy(h, mustURL("http://"+up), ProxyOptions{})
				l := listen(b)
				go p.Serve(l)
				defer p.Close()
				client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 64}}
				defer client.CloseIdleConnections()
				var failed atomic.Int64
				b.ReportAllocs()
				b.RunParallel(func(pb *testing.PB) {
					for pb.Next() {
						req, _ := http.NewRequest("POST", "http://"+l.Addr().String()+"/", strings.NewReader(`{"jsonrpc":"2.0","id":1}`))
						req.Header.Set("x-do", bench.plan)
						resp, err := client.Do(req)
						if err != nil {
							failed.Add(1)
							continue
						}
						io.Copy(io.Discard, resp.Body)
						resp.Body.Close()
					}
				})
				if n := failed.Load(); n > 0 {
					b.Errorf("%d requests failed", n)
				}
			})
		}
	}
}
