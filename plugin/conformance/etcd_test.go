package conformance

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/callonce/callonce/hostsim"
	"github.com/callonce/callonce/plugin/internal/etcd/etcdsim"
)

// sharedEtcd is a simulated etcd that several hosts call.
type sharedEtcd struct {
	mu      sync.Mutex
	cluster *etcdsim.Cluster
	clock   hostsim.Clock
	// stalled keeps calls without an answer, to be answered when it ends.
	stalled bool
	waiting []*hostsim.Arrival
}

func newSharedEtcd(clock hostsim.Clock) *sharedEtcd {
	return &sharedEtcd{cluster: etcdsim.New(), clock: clock}
}

// serve answers one call.
func (s *sharedEtcd) serve(a *hostsim.Arrival) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stalled {
		s.waiting = append(s.waiting, a)
		return
	}
	s.answer(a)
}

func (s *sharedEtcd) answer(a *hostsim.Arrival) {
	s.cluster.Advance(s.clock.Mono())
	message, _ := a.GrpcMessage()
	path := a.Header(":path")
	status, response := s.cluster.Apply(path[strings.LastIndexByte(path, '/')+1:], message)
	a.RespondGrpc(response, status, "")
}

// do changes the cluster.
func (s *sharedEtcd) do(f func(c *etcdsim.Cluster)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.cluster.Advance(s.clock.Mono())
	f(s.cluster)
}

// stall begins and ends a time in which nothing is answered. What came meanwhile is applied then, as etcd does it.
func (s *sharedEtcd) stall(begin bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stalled = begin
	for _, a := range s.waiting {
		s.answer(a)
	}
	s.waiting = nil
}

// count counts the keys with records, or those of workers that live.
func (s *sharedEtcd) count(kind string) (n int) {
	s.do(func(c *etcdsim.Cluster) {
		for k := range c.Keys {
			if strings.Contains(k, kind) {
				n++
			}
		}
	})
	return n
}

const (
	recordKeys = "/k/"
	workerKeys = "/h/"
)

// onEtcd is hostsim with the keys of every proxy in an etcd of its own, or in one that they share.
type onEtcd struct {
	simulator
	etcd *sharedEtcd
	// exact: cases that count requests ask once.
	exact bool
}

func (onEtcd) Name() string { return "hostsim with etcd" }

func inEtcd(config string) string {
	return `{"store":{"kind":"etcd","cluster":"etcd","timeout":"2s"},` + strings.TrimLeft(config, " \n\t")[1:]
}

func (f onEtcd) Start(t testing.TB, s Setup) Proxy {
	t.Helper()
	if f.exact {
		return f.start(t, s)
	}
	return eventualOnEtcd{f.start(t, s)}
}

type eventualOnEtcd struct{ *simulatedOnEtcd }

// Eventual implements Eventual.
func (eventualOnEtcd) Eventual() time.Duration { return 200 * time.Millisecond }

func (f onEtcd) start(t testing.TB, s Setup) *simulatedOnEtcd {
	t.Helper()
	s.Config = inEtcd(s.Config)
	e, inner := f.etcd, f.simulator
	adjust := inner.adjust
	inner.adjust = func(c *hostsim.Config) {
		if adjust != nil {
			adjust(c)
		}
		if e == nil {
			clock := c.Clock
			if clock == nil {
				clock = hostsim.RealClock()
			}
			e = newSharedEtcd(clock)
		}
		c.Servers = map[string]func(*hostsim.Arrival){"etcd": e.serve}
	}
	var p *simulatedOnEtcd
	before := 0
	if e != nil {
		before = e.count(workerKeys)
	}
	p = &simulatedOnEtcd{inner.start(t, s), e}
	p.ready(t, before)
	return p
}

type simulatedOnEtcd struct {
	*simulated
	etcd *sharedEtcd
}

// ready waits until every VM has made itself known, and with that has its leases.
func (p *simulatedOnEtcd) ready(t testing.TB, before int) {
	t.Helper()
	vms := p.host.Workers() + 1
	eventually(t, "all workers at etcd", func() bool { return p.etcd.count(workerKeys) >= before+vms })
	p.host.Wait()
}

func (p *simulatedOnEtcd) Change(t testing.TB, config string, faults bool) {
	t.Helper()
	before := p.etcd.count(workerKeys)
	p.simulated.Change(t, inEtcd(config), faults)
	p.ready(t, before)
}

// Repeats that wait, and calls that outlive their callers, with the keys in etcd.
func TestSlowCallsOnEtcd(t *testing.T) {
	Waiting(t, onEtcd{exact: true})
	Detached(t, onEtcd{exact: true})
}

// Four replicas behind a balancer: of 200 identical calls at once one runs, whatever replica and worker each comes to, and every replica
// replays its answer.
func TestFourReplicas(t *testing.T) {
	etcd := newSharedEtcd(hostsim.RealClock())
	u := newUpstream(t, func(w http.ResponseWriter, s seen) {
		time.Sleep(5 * time.Millisecond)
		asJSON(w, s)
	})
	var replicas []*client
	for range 4 {
		p := onEtcd{etcd: etcd}.start(t, Setup{Config: plain, Upstream: u.URL, Workers: 2})
		replicas = append(replicas, newClient(t, p))
	}
	kinds := map[string]int{}
	for round := range 10 {
		key := "round-" + string(rune('a'+round))
		var mu sync.Mutex
		var all sync.WaitGroup
		for i := range 200 {
			all.Go(func() {
				r := replicas[i%len(replicas)].call("1", "charge", `{}`, key)
				kind := r.isRefusal()
				if kind == "" {
					kind = r.Header.Get("Idempotency-Replayed")
				}
				mu.Lock()
				kinds[kind]++
				mu.Unlock()
			})
		}
		all.Wait()
		wantRuns(t, u, round+1)
		for _, c := range replicas {
			eventually(t, "the settlement", func() bool {
				r := c.call("2", "charge", `{}`, key)
				if r.isRefusal() == "idempotency_in_flight" {
					return false
				}
				wantReplay(t, r)
				return true
			})
		}
	}
	wantRuns(t, u, 10)
	t.Logf("%v", kinds)
	if kinds[""] != 10 || kinds["true"]+kinds["idempotency_in_flight"]+kinds[""] != 2000 {
		t.Errorf("got %v, want 10 first answers, and replays and in-flight refusals else", kinds)
	}
}

// notInEtcd are the cases whose promise is another one in etcd, and why.
var notInEtcd = map[int]string{
	53: "stored_bytes bounds the ring of replies in shared data; in etcd a reply lies in its record and lasts as long as that",
}

// The cases, by the same code, with the keys in etcd.
func TestCasesOnEtcd(t *testing.T) {
	Run(t, onEtcd{}, func(c Case) bool { return again(c) && notInEtcd[c.Number] == "" && c.Number != 32 })
	Run(t, onEtcd{exact: true}, func(c Case) bool { return c.Number == 32 })
}

// The same where the host cannot hold headers.
func TestOperatorsOnEtcd(t *testing.T) { Operators(t, onEtcd{}) }

func TestCasesOnEtcdHeadersNotHeld(t *testing.T) {
	f := onEtcd{simulator: simulator{adjust: func(c *hostsim.Config) { c.HoldHeaders = false }}}
	Run(t, f, func(c Case) bool {
		return again(c) && notInEtcd[c.Number] == "" && !slices.Contains([]int{32, 33, 34, 55, 56, 71, 74}, c.Number)
	})
}

// While etcd stalls a call waits for its timeout and no longer; a client that leaves meanwhile leaves nothing in flight; and once etcd
// answers again, having applied what came, every key is free.
func TestEtcdStalls(t *testing.T) {
	for name, held := range map[string]bool{"headers held": true, "headers not held": false} {
		t.Run(name, func(t *testing.T) {
			etcd := newSharedEtcd(hostsim.RealClock())
			u := newUpstream(t, asJSON)
			p := onEtcd{etcd: etcd, simulator: simulator{adjust: func(c *hostsim.Config) { c.HoldHeaders = held }}}.start(t, Setup{
				Config: plain, Upstream: u.URL, Workers: 1})
			c := newClient(t, p)
			wantFirst(t, c.call("1", "charge", `{}`, "before"))
			etcd.stall(true)
			ctx, leave := context.WithCancel(t.Context())
			gone := make(chan struct{})
			go func() {
				defer close(gone)
				res, err := c.open(ctx, "POST", strings.NewReader(toolCall("1", "charge", `{}`)), headers{"Idempotency-Key", "left"})
				if err == nil {
					res.Body.Close()
				}
			}()
			eventually(t, "the claim at etcd", func() bool { return etcd.stuck() > 0 })
			leave()
			<-gone
			for i := range 10 {
				wantRefusal(t, c.call("1", "charge", `{}`, "during"), 503, "idempotency_unavailable")
				if i == 0 {
					wantRefusal(t, c.call("1", "charge", `{"other":1}`, "before"), 503, "idempotency_unavailable")
				}
			}
			wantRuns(t, u, 1)
			etcd.stall(false)
			for _, key := range []string{"left", "during"} {
				eventually(t, key+" to be free", func() bool {
					r := c.call("2", "charge", `{}`, key)
					if kind := r.isRefusal(); kind == "idempotency_in_flight" || kind == "idempotency_unavailable" {
						return false
					}
					wantFirst(t, r)
					return true
				})
			}
			wantReplay(t, c.call("2", "charge", `{}`, "before"))
			wantRuns(t, u, 3)
			eventually(t, "callonce_store_up", func() bool { return p.host.Metrics()["namespace=.=cases;.;callonce_store_up"] == 1 })
			if n := p.Counter(t, "callonce_store_errors_total", map[string]string{"reason": "unreachable"}); n < 11 {
				t.Errorf("%d troubles counted", n)
			}
		})
	}
}

// stuck is how many calls wait for an answer.
func (s *sharedEtcd) stuck() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.waiting)
}

// etcd that is full, without a leader, or closed to us refuses claims and loses nothing; a new leader is none of anybody's business.
func TestEtcdRefuses(t *testing.T) {
	etcd := newSharedEtcd(hostsim.RealClock())
	u := newUpstream(t, asJSON)
	p := onEtcd{etcd: etcd}.start(t, Setup{Config: plain, Upstream: u.URL, Workers: 1})
	c := newClient(t, p)
	wantFirst(t, c.call("1", "charge", `{}`, "before"))
	runs := 1
	for reason, set := range map[string]func(c *etcdsim.Cluster, on bool){
		"exhausted":   func(c *etcdsim.Cluster, on bool) { c.Full = on },
		"denied":      func(c *etcdsim.Cluster, on bool) { c.Denied = on },
		"unreachable": func(c *etcdsim.Cluster, on bool) { c.Leaderless = on },
	} {
		etcd.do(func(c *etcdsim.Cluster) { set(c, true) })
		for range 3 {
			wantRefusal(t, c.call("1", "charge", `{}`, reason), 503, "idempotency_unavailable")
		}
		if p.Counter(t, "callonce_store_errors_total", map[string]string{"reason": reason}) == 0 {
			t.Errorf("%s: not counted", reason)
		}
		wantRuns(t, u, runs)
		etcd.do(func(c *etcdsim.Cluster) {
			set(c, false)
			c.NewLeader()
		})
		runs++
		eventually(t, reason+" to be over", func() bool { return c.call("1", "charge", `{}`, reason).isRefusal() == "" })
		wantRuns(t, u, runs)
		wantReplay(t, c.call("2", "charge", `{}`, "before"))
		wantReplay(t, c.call("2", "charge", `{}`, reason))
	}
}
