package guard

import (
	"runtime"

	"github.com/callonce/callonce/plugin/ledger"
	"github.com/callonce/callonce/plugin/mcp"
	"github.com/callonce/callonce/plugin/policy"
)

// Guard is what the streams of one configuration in one worker share. It is not for
// concurrent use: a worker is one thread.
type Guard struct {
	config  *policy.Config
	store   ledger.Store
	counts  counts
	log     Log
	places  map[*policy.Policy][]string // the pointers among a policy's keys
	waiting map[ledger.Token]*Stream
	tokens  uint32
	holding holding
	probing map[*Stream]struct{} // held headers whose body callback has not come yet

	// Scratch that one callback uses at a time.
	request  mcp.Request
	response mcp.Response
	buf      []byte
}

// New wires a guard together. The store answers through the Guard, which is its
// ledger.Sink.
func New(config *policy.Config, store ledger.Store, m Metrics, log Log) *Guard {
	g := &Guard{
		config: config, store: store, log: log,
		counts:  newCounts(config.Namespace, m),
		places:  map[*policy.Policy][]string{},
		waiting: map[ledger.Token]*Stream{},
		probing: map[*Stream]struct{}{},
	}
	for _, p := range config.Policies {
		g.places[p] = pointers(p)
	}
	g.places[misnamed] = nil
	return g
}

func pointers(p *policy.Policy) []string {
	var out []string
	for _, k := range p.Keys {
		if k.Pointer != "" {
			out = append(out, k.Pointer)
		}
	}
	return out
}

// misnamed stands for the policy of a route whose metadata names none that exists:
// its calls, and what may be one, are refused; all else passes.
var misnamed = &policy.Policy{Name: "(unknown)", MustGuard: true, MaxRequestBytes: 983040}

// route finds the policy of a request, nil for off.
func (g *Guard) route(h Host) *policy.Policy {
	metadata, _ := h.Property(propRoutePolicy)
	var name []byte
	if len(metadata) == 0 && g.config.ReadsRoutes() {
		name, _ = h.Property(propRouteName)
	}
	p, known := g.config.Route(string(metadata), string(name))
	if !known {
		return misnamed
	}
	return p
}

// Answered implements ledger.Sink: the answer to a claim that had to wait.
func (g *Guard) Answered(t ledger.Token, a ledger.Answer) {
	if s, ok := g.waiting[t]; ok {
		delete(g.waiting, t)
		s.answered(a)
	}
}

// fault logs a panic that was contained. Errors of the runtime name an index or a
// type, never a byte of a request; anything else is not printed.
func (g *Guard) fault(f any) {
	text := "a fault of the filter's own was contained"
	if err, ok := f.(runtime.Error); ok {
		text += ": " + err.Error()
	}
	g.log(text)
}

// Tick does what must be done now and then.
func (g *Guard) Tick(now ledger.Mono) {
	defer func() {
		if f := recover(); f != nil {
			g.fault(f)
		}
	}()
	g.Look()
	g.store.Tick(now)
}
