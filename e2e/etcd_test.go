package e2e_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	keyed "github.com/callonce/callonce/clients/go"
	"github.com/callonce/callonce/e2e/child"
	"github.com/callonce/callonce/e2e/envoytest"
	"github.com/callonce/callonce/e2e/payments"
	"github.com/callonce/callonce/e2e/tools"
)

var buildEtcd = sync.OnceValues(func() (string, error) { return goBuild("etcd", "e2e", "./cmd/etcd", nil) })

// member is one etcd, a process of its own, that can be stopped and started again on its data.
type member struct {
	t       testing.TB
	addr    string
	args    []string
	process *child.Process
}

// startMember runs etcd on a free port, or at once with more flags of its own.
func startMember(t testing.TB, more ...string) *member {
	t.Helper()
	addr, err := child.FreeAddr()
	if err != nil {
		t.Fatal(err)
	}
	m := &member{t: t, addr: addr, args: append([]string{"-data-dir", t.TempDir(), "-listen-client-urls", "http://" + addr}, more...)}
	m.start()
	t.Cleanup(func() { m.process.Stop() })
	return m
}

func (m *member) start() {
	m.t.Helper()
	p, err := child.Start("etcd", exec.Command(must(m.t, buildEtcd), m.args...), nil)
	if err != nil {
		m.t.Fatal(err)
	}
	m.process = p
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	if err := p.Await(ctx, func() error {
		if !strings.Contains(p.Output(), "ready on") {
			return fmt.Errorf("it has not said that it is ready")
		}
		return nil
	}); err != nil {
		p.Stop()
		m.t.Fatal(err)
	}
}

func (m *member) signal(s syscall.Signal) {
	m.t.Helper()
	if err := syscall.Kill(m.process.PID(), s); err != nil {
		m.t.Fatal(err)
	}
}

// client calls f with a client of its own.
func (m *member) client(f func(ctx context.Context, c *clientv3.Client)) {
	m.t.Helper()
	c, err := clientv3.New(clientv3.Config{Endpoints: []string{m.addr}, Logger: zap.NewNop()})
	if err != nil {
		m.t.Fatal(err)
	}
	defer c.Close()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	f(ctx, c)
}

// fill puts things until the database has reached its quota, which raises the alarm NOSPACE.
func (m *member) fill() {
	m.t.Helper()
	m.client(func(ctx context.Context, c *clientv3.Client) {
		for i := 0; ; i++ {
			switch _, err := c.Put(ctx, fmt.Sprint("/filler/", i), strings.Repeat("x", 1<<20)); {
			case errors.Is(err, rpctypes.ErrNoSpace):
				return
			case err != nil:
				m.t.Fatal(err)
			}
		}
	})
}

// empty does what an operator does then.
func (m *member) empty() {
	m.t.Helper()
	m.client(func(ctx context.Context, c *clientv3.Client) {
		deleted, err := c.Delete(ctx, "/filler/", clientv3.WithPrefix())
		if err == nil {
			_, err = c.Compact(ctx, deleted.Header.Revision, clientv3.WithCompactPhysical())
		}
		if err == nil {
			_, err = c.Defragment(ctx, m.addr)
		}
		if err == nil {
			_, err = c.AlarmDisarm(ctx, &clientv3.AlarmMember{})
		}
		if err != nil {
			m.t.Fatal(err)
		}
	})
}

// etcdConfig is the demo's policy with its keys in etcd.
func etcdConfig(store, policy string) string {
	return `{"namespace":"e2e","store":{"kind":"etcd","cluster":"etcd"` + store + `},"policies":{"p":{"server":"payments","anonymous":true,"strip":true` + policy + `}},"default":"p"}`
}

// replica is an Envoy with its keys in etcd.
func replica(t testing.TB, server *payments.Server, etcd, config string, more ...func(*envoytest.Options)) *envoytest.Envoy {
	t.Helper()
	opts := envoytest.Options{
		Plugin: must(t, buildPlugin), Upstream: server.URL(), Workers: 4, Config: config,
		Edit: func(e *envoytest.Tree) { addEtcd(e, "etcd", "http://"+etcd) },
	}
	for _, f := range more {
		f(&opts)
	}
	e, err := envoytest.Start(opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		e.Close()
		if t.Failed() {
			t.Logf("envoy logged:\n%s", e.Logs())
		}
	})
	return e
}

// addEtcd adds the cluster that the store calls, as docs/etcd.md has it.
func addEtcd(e *envoytest.Tree, name, url string) {
	e.Insert([]any{e.HTTP2(name, url)}, envoytest.Clusters...)
}

// pay sends a call of a key until the store serves, and gives what came back.
func pay(t testing.TB, e *envoytest.Envoy, key string, delayMS int) (outcome string) {
	t.Helper()
	return payUntil(t, e, key, delayMS, func(kind string) bool { return kind != "idempotency_unavailable" })
}

func payUntil(t testing.TB, e *envoytest.Envoy, key string, delayMS int, done func(string) bool) string {
	t.Helper()
	deadline := time.Now().Add(time.Minute)
	for {
		kind := payOnce(t, e.URL(), key, delayMS)
		if done(kind) {
			return kind
		}
		if time.Now().After(deadline) {
			t.Fatalf("key %s: for a minute nothing but %s; envoy logged:\n%s", key, kind, e.Logs())
		}
		time.Sleep(50 * time.Millisecond)
	}
}

// One call at one proxy; its repeat at the other is a replay.
func TestEtcdTwoReplicas(t *testing.T) {
	for name, envoy := range map[string]func() (string, error){"newest": tools.Envoy, "oldest": tools.OldestEnvoy} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("ENVOY", must(t, envoy))
			twoReplicas(t)
		})
	}
}

func twoReplicas(t *testing.T) {
	server := startPayments(t, payments.Options{Stateless: true, JSON: true})
	etcd := startMember(t)
	one, two := replica(t, server, etcd.addr, etcdConfig("", "")), replica(t, server, etcd.addr, etcdConfig("", ""))
	for i := range 20 {
		key := fmt.Sprint("k", i)
		if got := pay(t, one, key, 0); got != "first" {
			t.Errorf("%s at one: got %s, want first", key, got)
		}
		// The settlement is on its way when the answer's last byte goes on.
		if got := payUntil(t, two, key, 0, settled); got != "replay" {
			t.Errorf("%s at the other: got %s, want a replay", key, got)
		}
		if n := server.Book.CountFor(key); n != 1 {
			t.Errorf("%s ran %d times", key, n)
		}
	}
	for _, e := range []*envoytest.Envoy{one, two} {
		if up, err := e.Counter("callonce_store_up", map[string]string{"namespace": "e2e"}); err != nil || up != 1 {
			t.Errorf("callonce_store_up is %d, %v", up, err)
		}
		if strings.Contains(e.Logs(), "cannot be used") {
			t.Errorf("a store that works is complained of:\n%s", e.Logs())
		}
	}
}

// payOnce sends one call and gives "first", "replay", or the type of the refusal; "" where the connection broke.
func payOnce(t testing.TB, url, key string, delayMS int) string {
	t.Helper()
	kind, _ := payText(t, url, key, delayMS)
	return kind
}

// payText is payOnce, and the body that came.
func payText(t testing.TB, url, key string, delayMS int) (kind, body string) {
	t.Helper()
	call := fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"charge","arguments":{"customer":%q,"amount_cents":1,"delay_ms":%d}}}`, key, delayMS)
	req, err := http.NewRequest("POST", url+"/mcp", strings.NewReader(call))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json, text/event-stream")
	req.Header.Set(keyed.Header, key)
	req.GetBody = nil // the transport sends nothing again
	resp, err := http.DefaultTransport.RoundTrip(req)
	if err != nil {
		return "", ""
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		return "", ""
	}
	switch kind := outcome(resp, string(text)); {
	case kind == "replay", kind == "first" && charged(text):
		return kind, string(text)
	case strings.HasPrefix(kind, "idempotency_"):
		return kind, ""
	}
	t.Errorf("key %s: neither an answer nor a refusal: %d %s", key, resp.StatusCode, text)
	return "?", ""
}
