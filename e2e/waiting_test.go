package e2e_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	keyed "github.com/callonce/callonce/clients/go"
	"github.com/callonce/callonce/e2e/envoytest"
	"github.com/callonce/callonce/e2e/payments"
)

// Fifty repeats at once over two Envoys, while the call runs in one of them, with the keys in etcd: one run, and fifty answers.
func TestWaitingOverTwoProxies(t *testing.T) {
	for name, json := range map[string]bool{"JSON": true, "events": false} {
		t.Run(name, func(t *testing.T) {
			server := startPayments(t, payments.Options{Stateless: true, JSON: json})
			etcd := startMember(t)
			config := etcdConfig(`,"timeout":"10s"`, `,"on_in_flight":"wait"`)
			proxies := []*envoytest.Envoy{replica(t, server, etcd.addr, config), replica(t, server, etcd.addr, config)}
			for _, e := range proxies {
				pay(t, e, "warm", 0)
			}
			got := make(chan string, 51)
			var all sync.WaitGroup
			// A worker that has no lease yet says so, and is asked again.
			all.Go(func() { got <- pay(t, proxies[0], "k", 3000) })
			for i := range 50 {
				all.Go(func() { got <- pay(t, proxies[i%2], "k", 3000) })
			}
			all.Wait()
			close(got)
			kinds := map[string]int{}
			for kind := range got {
				kinds[kind]++
			}
			if fmt.Sprint(kinds) != "map[first:1 replay:50]" || server.Book.CountFor("k") != 1 {
				t.Errorf("got %v, charged %d times", kinds, server.Book.CountFor("k"))
			}
			for _, e := range proxies {
				if n, err := e.Counter("callonce_waiting", nil); err != nil || n != 0 {
					t.Errorf("%d still wait, %v", n, err)
				}
			}
		})
	}
}

// A client leaves after a second of a call of three, at one of two Envoys with the keys in etcd. Fifty repeats at once over both get its answer, from one
// run, and so does one that comes when it has ended.
func TestContinuingOverTwoProxies(t *testing.T) {
	for name, json := range map[string]bool{"JSON": true, "events": false} {
		t.Run(name, func(t *testing.T) {
			server := startPayments(t, payments.Options{Stateless: true, JSON: json})
			etcd := startMember(t)
			config := etcdConfig(`,"timeout":"10s"`, `,"on_disconnect":"continue"`)
			proxies := []*envoytest.Envoy{replica(t, server, etcd.addr, config), replica(t, server, etcd.addr, config)}
			for _, e := range proxies {
				pay(t, e, "warm", 0)
			}
			ctx, leave := context.WithTimeout(t.Context(), time.Second)
			defer leave()
			body := `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"charge","arguments":{"customer":"k","amount_cents":1,"delay_ms":3000}}}`
			req, err := http.NewRequestWithContext(ctx, "POST", proxies[0].URL()+"/mcp", strings.NewReader(body))
			if err != nil {
				t.Fatal(err)
			}
			req.Header = http.Header{"Content-Type": {"application/json"}, "Accept": {"application/json, text/event-stream"}, keyed.Header: {"k"}}
			if resp, err := http.DefaultTransport.RoundTrip(req); err == nil {
				t.Fatalf("the client did not leave: status %d", resp.StatusCode)
			}
			got := make(chan string, 50)
			var all sync.WaitGroup
			for i := range 50 {
				all.Go(func() { got <- payOnce(t, proxies[i%2].URL(), "k", 3000) })
			}
			all.Wait()
			close(got)
			kinds := map[string]int{}
			for kind := range got {
				kinds[kind]++
			}
			kinds["afterwards: "+payOnce(t, proxies[1].URL(), "k", 3000)]++
			if fmt.Sprint(kinds) != "map[afterwards: replay:1 replay:50]" || server.Book.CountFor("k") != 1 {
				t.Errorf("got %v, charged %d times", kinds, server.Book.CountFor("k"))
			}
			for _, e := range proxies {
				for _, gauge := range []string{"callonce_waiting", "callonce_detached"} {
					if n, err := e.Counter(gauge, nil); err != nil || n != 0 {
						t.Errorf("%s is %d, %v", gauge, n, err)
					}
				}
			}
		})
	}
}
