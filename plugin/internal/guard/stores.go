package guard

import (
	"time"

	"github.com/callonce/callonce/plugin/internal/etcd"
	"github.com/callonce/callonce/plugin/internal/ledger"
	"github.com/callonce/callonce/plugin/internal/ledger/shared"
	"github.com/callonce/callonce/plugin/internal/policy"
)

// Remote is what a store outside of the proxy needs of the worker that it runs in.
type Remote struct {
	// Caller calls a cluster of the proxy's; what comes of a call is for [Guard.CallEnded].
	Caller func(cluster string) etcd.Caller
	Wall   func() int64 // nanoseconds since 1970
	Node   string       // the proxy's name, for operators; may be ""
}

var (
	storeUp      = &metric{"callonce_store_up", nil}
	storeTrouble = &metric{"callonce_store_errors_total", []string{"reason"}}
)

// openers are the stores that there are. What each is given has been opened: the ledger in shared data, which decides, or only counts
// what this proxy claims.
var openers = map[policy.StoreKind]func(*Guard, ledger.Env, *shared.Shared) ledger.Store{
	policy.SharedData: func(_ *Guard, _ ledger.Env, s *shared.Shared) ledger.Store { return s },
	policy.Etcd:       openEtcd,
}

func openEtcd(g *Guard, env ledger.Env, local *shared.Shared) ledger.Store {
	o := g.config.Store
	up := g.counts.gauge("", storeUp)
	up.Set(0) // until it has answered
	prefix := o.Prefix
	if g.config.Namespace != "" {
		prefix += g.config.Namespace + "/"
	}
	g.etcd = etcd.Open(etcd.Env{
		Caller: g.Remote.Caller(o.Cluster), Sink: g, Now: env.Now, Wall: g.Remote.Wall, Random: env.Random, Log: env.Log,
		Count: g.notice, Late: g.settledLate, Live: g.isOpen, Local: local, Taken: g.taken,
		Up: func(is bool) {
			value := uint64(0)
			if is {
				value = 1
			}
			up.Set(value)
		},
		Trouble: func(why etcd.Reason) { g.counts.add("", storeTrouble, string(why)) },
	}, etcd.Options{Prefix: prefix, Cluster: o.Cluster, Timeout: o.Timeout, Lease: g.longestLease(), TTLs: g.ttls(), Holder: g.Remote.Node, Page: g.page()})
	return g.etcd
}

// localEnv makes the ledger in shared data one that only counts for another store: what it evicts is still there, and what it settles
// is settled there.
func localEnv(g *Guard, env ledger.Env) ledger.Env {
	env.Late, env.Evicted = nil, nil
	env.Count = func(what ledger.Notice, policy uint64) {
		switch what {
		case ledger.Orphaned, ledger.BucketFull, ledger.Foreign:
			g.notice(what, policy)
		}
	}
	return env
}

// longestLease is that of the policies: in etcd a worker has one for all, also where the
// configuration has no policy any more.
func (g *Guard) longestLease() time.Duration {
	if len(g.config.Policies) == 0 {
		return policy.DefaultLease
	}
	d := time.Duration(0)
	for _, p := range g.config.Policies {
		d = max(d, p.Lease)
	}
	return d
}

// ttls are how long entries last.
func (g *Guard) ttls() []time.Duration {
	var out []time.Duration
	for _, p := range g.config.Policies {
		tools := append([]policy.Tool{p.Unlisted}, p.Tools...)
		for i := range tools {
			t := &tools[i]
			switch t.Guard {
			case policy.GuardOff:
			case policy.GuardDerived:
				out = append(out, t.TTL, max(t.TTL, t.Window))
			default:
				out = append(out, t.TTL)
			}
		}
	}
	return out
}

// CallEnded takes what has come of a call to a store outside of the proxy: a message, or none and gRPC's status.
func (g *Guard) CallEnded(id uint32, status int, message []byte) {
	defer func() {
		if f := recover(); f != nil {
			g.fault(f)
		}
	}()
	if g.etcd != nil {
		g.etcd.Answered(etcd.CallID(id), status, message)
		g.lookReady()
	}
}

// mostPage bounds, in bytes, what a page for operators takes of answers that it does not show: etcd hands records over whole.
const mostPage = 1 << 20

// page is how many records of etcd's fit on a page.
func (g *Guard) page() int {
	longest := 1
	for _, p := range g.config.Policies {
		longest = max(longest, p.Limits.ReplyBytes)
	}
	return min(max(mostPage/longest, 1), 100)
}
