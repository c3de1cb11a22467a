package e2e_test

import (
	"fmt"
	"sync"
	"testing"

	"github.com/callonce/callonce/e2e/envoytest"
	"github.com/callonce/callonce/e2e/payments"
)

// Fifty repeats at once over two Envoys, while the call runs in one of them, with the keys in etcd: one run, and fifty answers.
func TestWaitingOverTwoProxies(t *testing.T) {
	for name, json := range map[string]bool{"JSON": true, "events": false} {
		t.Run(name, func(t *testing.T) {
			server := startPayments(t, payments.Options{Stateless: true, JSON: json})
			etcd := startMember(t)
			config := etcdConfig("", `,"on_in_flight":"wait"`)
			proxies := []*envoytest.Envoy{replica(t, server, etcd.addr, config), replica(t, server, etcd.addr, config)}
			for _, e := range proxies {
				pay(t, e, "warm", 0)
			}
			got := make(chan string, 51)
			var all sync.WaitGroup
			all.Go(func() { got <- payOnce(t, proxies[0].URL(), "k", 3000) })
			for i := range 50 {
				all.Go(func() { got <- payOnce(t, proxies[i%2].URL(), "k", 3000) })
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
