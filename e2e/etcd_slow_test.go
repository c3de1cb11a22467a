package e2e_test

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	keyed "github.com/callonce/callonce/clients/go"
	"github.com/callonce/callonce/e2e/envoytest"
	"github.com/callonce/callonce/e2e/payments"
)

// etcd is lost while a call goes on without its client at one of two Envoys, and repeats wait for it at both. Nothing runs twice, nobody
// waits for longer than he may, and each is told what is so.
func TestContinuingThroughEtcdTroubles(t *testing.T) {
	if os.Getenv("CALLONCE_LONG_RUN") == "" {
		t.Skip("takes a minute and more: set CALLONCE_LONG_RUN=1")
	}
	const wait, timeout = 8 * time.Second, 250 * time.Millisecond
	server := startPayments(t, payments.Options{Stateless: true, JSON: true})
	etcd := startMember(t)
	cable := startWire(t, etcd.addr)
	config := etcdConfig("", `,"on_disconnect":"continue","wait":"8s","lease":"3s"`)
	proxies := []*envoytest.Envoy{replica(t, server, cable.addr(), config), replica(t, server, etcd.addr, config)}
	for i, e := range proxies {
		pay(t, e, fmt.Sprint("warm", i), 0)
	}
	for _, c := range []struct {
		name       string
		begin, end func()
		brief      bool
		words      [2]string // that those who wait at each may get
		at         string    // what the key has become for all, when etcd is back
	}{
		{"still for two seconds", func() { etcd.signal(syscall.SIGSTOP) }, func() { etcd.signal(syscall.SIGCONT) }, true, [2]string{"replay", "replay"}, "replay"},
		{"still", func() { etcd.signal(syscall.SIGSTOP) }, func() { etcd.signal(syscall.SIGCONT) }, false, [2]string{unavailable + " " + inFlight, unavailable + " " + inFlight}, "replay " + outcomeUnknown},
		{"cut off from the one that has the call", func() { cable.set(0, true) }, func() { cable.set(0, false) }, false, [2]string{unavailable, outcomeUnknown}, outcomeUnknown},
	} {
		t.Run(c.name, func(t *testing.T) {
			key := strings.ReplaceAll(c.name, " ", "-")
			ctx, leave := context.WithCancel(t.Context())
			body := fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"charge","arguments":{"customer":%q,"amount_cents":1,"delay_ms":4000}}}`, key)
			req, err := http.NewRequestWithContext(ctx, "POST", proxies[0].URL()+"/mcp", strings.NewReader(body))
			if err != nil {
				t.Fatal(err)
			}
			req.Header = http.Header{"Content-Type": {"application/json"}, "Accept": {"application/json, text/event-stream"}, keyed.Header: {key}}
			req.GetBody = nil
			left := make(chan struct{})
			go func() {
				if resp, err := http.DefaultTransport.RoundTrip(req); err == nil {
					resp.Body.Close()
				}
				close(left)
			}()
			awaitRunning(t, server)
			leave()
			<-left
			var all sync.WaitGroup
			got := [2]chan string{make(chan string, 3), make(chan string, 3)}
			since := time.Now()
			for i, e := range proxies {
				for range cap(got[i]) {
					all.Go(func() { got[i] <- payOnce(t, e.URL(), key, 4000) })
				}
			}
			for i, e := range proxies {
				awaitRun(t, func() bool {
					n, err := e.Counter("callonce_waiting", nil)
					return err == nil && n == int64(cap(got[i]))
				})
			}
			c.begin()
			if c.brief {
				time.Sleep(2 * time.Second)
				c.end()
			}
			all.Wait()
			if took := time.Since(since); took > wait+timeout+10*time.Second {
				t.Errorf("the last was answered after %v", took)
			}
			if !c.brief {
				c.end()
			}
			for i, words := range c.words {
				for range cap(got[i]) {
					if word := <-got[i]; !strings.Contains(words, word) || word == "" {
						t.Errorf("who waits at %d got %s, want %s", i, word, words)
					}
				}
			}
			for _, e := range proxies {
				if word := payUntil(t, e, key, 4000, settled); !strings.Contains(c.at, word) {
					t.Errorf("afterwards: got %s, want %s", word, c.at)
				}
				if n, err := e.Counter("callonce_waiting", nil); err != nil || n != 0 {
					t.Errorf("%d still wait, %v", n, err)
				}
			}
			if n := server.Book.CountFor(key); n != 1 {
				t.Errorf("ran %d times", n)
			}
		})
	}
}
