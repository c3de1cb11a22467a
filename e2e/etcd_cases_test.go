package e2e_test

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/callonce/callonce/e2e/envoytest"
	"github.com/callonce/callonce/plugin/conformance"
)

// The cases that a real Envoy must show, by the same code, with the keys in a real etcd.
func TestCasesOnEtcd(t *testing.T) {
	f := &etcdFront{member: startMember(t)}
	conformance.Run(t, f, func(c conformance.Case) bool { return c.Envoy && !slices.Contains(notInEtcd, c.Number) })
}

// notInEtcd are the cases whose promise is another one in etcd: stored_bytes bounds the ring of replies in shared data.
var notInEtcd = []int{53}

// etcdFront is a real Envoy over an etcd in which each proxy has a prefix of its own.
type etcdFront struct {
	front
	member *member
	n      int
	// callers: those are verified too.
	callers bool
}

// verifierOnEtcd knows callers by tokens and certificates.
type verifierOnEtcd struct {
	*etcdProxy
	verifier verifier
}

func (v verifierOnEtcd) Caller(t testing.TB, c conformance.Caller) http.RoundTripper {
	return v.verifier.Caller(t, c)
}

// Operators see and resolve what lies in a real etcd.
func TestOperatorsOnEtcd(t *testing.T) {
	conformance.Operators(t, &etcdFront{member: startMember(t), callers: true})
}

func (f *etcdFront) Name() string { return "envoy with etcd" }

func (f *etcdFront) Start(t testing.TB, s conformance.Setup) conformance.Proxy {
	t.Helper()
	f.n++
	p := &etcdProxy{prefix: fmt.Sprintf("/case-%d/", f.n), member: f.member}
	s.Config = p.inEtcd(s.Config)
	opts := f.options(t, s)
	edit := opts.Edit
	opts.Edit = func(e *envoytest.Tree) {
		edit(e) // it means the first cluster, which ours must not become before
		addEtcd(e, "etcd", "http://"+f.member.addr)
	}
	if s.Callers && !f.callers {
		t.Skip("who calls is verified before the ledger is asked: the same code for every store")
	}
	if s.Callers {
		v := startVerifier(t, opts, opts.Edit, acceptStrangers)
		p.proxy = v.proxy
		p.ready(t, 1)
		return verifierOnEtcd{p, v}
	}
	p.proxy = f.startWith(t, opts)
	p.ready(t, opts.Workers+1)
	return p
}

type etcdProxy struct {
	proxy
	prefix string
	member *member
}

// Eventual implements conformance.Eventual.
func (*etcdProxy) Eventual() time.Duration { return time.Second }

func (p *etcdProxy) inEtcd(config string) string {
	return `{"store":{"kind":"etcd","cluster":"etcd","timeout":"5s","prefix":"` + p.prefix + `"},` + strings.TrimLeft(config, " \n\t")[1:]
}

func (p *etcdProxy) Change(t testing.TB, config string, faults bool) {
	t.Helper()
	before := p.workers(t)
	p.proxy.Change(t, p.inEtcd(config), faults)
	// Where the same configuration still drains, its workers go on. Whoever is too early asks again.
	for deadline := time.Now().Add(3 * time.Second); len(p.news(t, before)) == 0 && time.Now().Before(deadline); {
		time.Sleep(20 * time.Millisecond)
	}
}

// news are the workers that were not there before.
func (p *etcdProxy) news(t testing.TB, before []string) []string {
	t.Helper()
	return slices.DeleteFunc(p.workers(t), func(key string) bool { return slices.Contains(before, key) })
}

// ready waits until so many workers have made themselves known, and with that have their leases.
func (p *etcdProxy) ready(t testing.TB, workers int) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); len(p.workers(t)) < workers; time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%d of %d workers are at etcd after a minute", len(p.workers(t)), workers)
		}
	}
	time.Sleep(50 * time.Millisecond) // from the answer in etcd to the worker
}

// workers are the keys of those that live.
func (p *etcdProxy) workers(t testing.TB) (keys []string) {
	t.Helper()
	p.member.client(func(ctx context.Context, c *clientv3.Client) {
		r, err := c.Get(ctx, p.prefix, clientv3.WithPrefix(), clientv3.WithKeysOnly())
		if err != nil {
			t.Fatal(err)
		}
		for _, kv := range r.Kvs {
			if strings.Contains(string(kv.Key), "/h/") {
				keys = append(keys, string(kv.Key))
			}
		}
	})
	return keys
}
