package e2e_test

import (
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/callonce/callonce/e2e/envoytest"
	"github.com/callonce/callonce/e2e/payments"
)

const unavailable, inFlight, outcomeUnknown = "idempotency_unavailable", "idempotency_in_flight", "idempotency_outcome_unknown"

// settled is for payUntil: etcd serves, and knows what became of the call.
func settled(kind string) bool { return kind != unavailable && kind != inFlight && kind != "" }

// An Envoy that is killed in mid call leaves an unknown outcome; and a restart of everything, etcd too, forgets nothing.
func TestEtcdKillAndRestart(t *testing.T) {
	server := startPayments(t, payments.Options{Stateless: true, JSON: true})
	etcd := startMember(t)
	config := etcdConfig("", `,"lease":"3s"`)
	one, two := replica(t, server, etcd.addr, config), replica(t, server, etcd.addr, config)
	if got := pay(t, one, "done", 0); got != "first" {
		t.Fatalf("got %s", got)
	}
	pay(t, two, "warm", 0)
	lost := make(chan string, 1)
	go func() { lost <- payOnce(t, one.URL(), "lost", 60_000) }()
	awaitRunning(t, server)
	if got := payOnce(t, two.URL(), "lost", 60_000); got != inFlight {
		t.Errorf("while it runs: got %s, want in flight", got)
	}
	if err := syscall.Kill(one.PID(), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if got := <-lost; got != "" {
		t.Errorf("of a killed proxy: got %s, want nothing", got)
	}
	if got := payUntil(t, two, "lost", 60_000, settled); got != outcomeUnknown {
		t.Errorf("after its proxy died: got %s, want an unknown outcome", got)
	}
	if got := payUntil(t, two, "done", 0, settled); got != "replay" {
		t.Errorf("of the dead proxy's completed call: got %s, want a replay", got)
	}
	two.Close()
	etcd.signal(syscall.SIGKILL)
	<-etcd.process.Done()
	etcd.start()
	three := replica(t, server, etcd.addr, config)
	if got := payUntil(t, three, "done", 0, settled); got != "replay" {
		t.Errorf("after a restart of everything: got %s, want a replay", got)
	}
	if got := payUntil(t, three, "lost", 60_000, settled); got != outcomeUnknown {
		t.Errorf("after a restart of everything: got %s, want an unknown outcome", got)
	}
	if done, lost := server.Book.CountFor("done"), server.Book.CountFor("lost")+server.Book.Running(); done != 1 || lost > 1 {
		t.Errorf("done ran %d times, lost %d times", done, lost)
	}
}

// What callers get while etcd cannot be used, and that nothing runs twice or stays stuck.
func TestEtcdTroubles(t *testing.T) {
	server := startPayments(t, payments.Options{Stateless: true, JSON: true})
	etcd := startMember(t, "-quota-backend-bytes", fmt.Sprint(32<<20))
	cable := startWire(t, etcd.addr)
	one, two := replica(t, server, cable.addr(), etcdConfig("", "")), replica(t, server, etcd.addr, etcdConfig("", ""))
	for i, e := range []*envoytest.Envoy{one, two} {
		pay(t, e, fmt.Sprint("warm", i), 0)
	}
	for _, c := range []struct {
		name       string
		begin, end func()
		during     string // what new calls get at one
		other      string // and at two
		says       string // the log of one
	}{
		{"stopped", func() { etcd.signal(syscall.SIGSTOP) }, func() { etcd.signal(syscall.SIGCONT) }, unavailable, unavailable, "it does not answer"},
		{"down", func() { etcd.process.Stop() }, etcd.start, unavailable, unavailable, "it does not answer"},
		{"cut off from one", func() { cable.set(0, true) }, func() { cable.set(0, false) }, unavailable, "first", "it does not answer"},
		{"slow by 200 ms", func() { cable.set(100*time.Millisecond, false) }, func() { cable.set(0, false) }, "", "first", ""},
		{"out of space", etcd.fill, etcd.empty, unavailable, unavailable, "it has no space left (alarm NOSPACE)"},
	} {
		t.Run(c.name, func(t *testing.T) {
			key := func(s string) string { return strings.ReplaceAll(c.name, " ", "-") + "-" + s }
			// A call that runs when it begins, and is answered meanwhile.
			across := make(chan string, 1)
			go func() { across <- payOnce(t, one.URL(), key("across"), 3000) }()
			awaitRunning(t, server)
			c.begin()
			began := time.Now()
			kinds := map[string]int{}
			for i := range 12 {
				kind := payOnce(t, one.URL(), key(fmt.Sprint("during", i)), 0)
				kinds[kind]++
				if c.during != "" && kind != c.during {
					t.Errorf("during: got %s, want %s", kind, c.during)
				}
			}
			t.Logf("12 calls at one: %v in %v", kinds, time.Since(began).Round(time.Millisecond))
			if got := payOnce(t, two.URL(), key("other"), 0); got != c.other {
				t.Errorf("during, at the other: got %s, want %s", got, c.other)
			}
			if got := <-across; got != "first" {
				t.Errorf("the call that was running: got %s, want its answer", got)
			}
			c.end()
			began = time.Now()
			if got := payUntil(t, two, key("across"), 3000, settled); got != "replay" {
				t.Errorf("the call that was answered meanwhile, once more: got %s, want a replay", got)
			}
			for i := range 12 {
				k := key(fmt.Sprint("during", i))
				for _, e := range []*envoytest.Envoy{one, two} {
					if got := payUntil(t, e, k, 0, settled); got != "first" && got != "replay" {
						t.Errorf("%s afterwards: got %s", k, got)
					}
				}
				if n := server.Book.CountFor(k); n != 1 {
					t.Errorf("%s ran %d times", k, n)
				}
			}
			if n := server.Book.CountFor(key("across")); n != 1 {
				t.Errorf("the call across ran %d times", n)
			}
			t.Logf("all served again after %v", time.Since(began).Round(time.Millisecond))
			if c.says != "" && !strings.Contains(one.Logs(), "cannot be used: "+c.says) {
				t.Errorf("the log does not say %q:\n%s", c.says, one.Logs())
			}
		})
	}
}

// awaitRunning waits until a call runs at the server.
func awaitRunning(t testing.TB, server *payments.Server) {
	t.Helper()
	awaitRun(t, func() bool { return server.Book.Running() > 0 })
}

func awaitRun(t testing.TB, runs func() bool) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); !runs(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("no call reaches the server")
		}
	}
}
