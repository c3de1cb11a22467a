package guard

import (
	"runtime"
	"strconv"

	"github.com/callonce/callonce/plugin/internal/etcd"
	"github.com/callonce/callonce/plugin/internal/ledger"
	"github.com/callonce/callonce/plugin/internal/ledger/shared"
	"github.com/callonce/callonce/plugin/internal/mcp"
	"github.com/callonce/callonce/plugin/internal/policy"
)

// Guard is what the streams of one configuration in one worker share. It is not for
// concurrent use: a worker is one thread.
type Guard struct {
	Remote Remote // for stores outside of the proxy; set before Open
	Calls  Calls  // of the filter's own, nil = none; set before Open
	Queues Queues // between workers, nil = none; set before Open

	config    *policy.Config
	store     ledger.Store
	etcd      *etcd.Store // the same, where keys are kept in etcd
	marks     ledger.Marks
	keys      ledger.Keys // what the store shows, nil = nothing
	counts    counts
	numbers   numbers
	log       Log
	waiting   map[ledger.Token]*Stream
	inquiring map[ledger.Token]*waitingInquiry
	now       func() ledger.Mono
	digest    func(text []byte) uint64 // of a principal or a scope, for counting
	open      []*Stream                // those that asked the ledger and have not ended
	servers   map[string]string        // name of a policy → the server's, as last seen
	live      map[ledger.Token]bool    // the same, while a tick runs and they are many
	looked    int                      // streams that searches have looked at, ever
	tokens    uint32
	buffering buffering
	once      once
	roots     map[ledger.Token]*root // that were asked for and not forgotten
	rootBytes int                    // of answers that wait for them

	probing map[*Stream]struct{} // buffered, and their body callback has not come yet
	late    map[*Stream]struct{} // judged; go on outside of their callbacks

	awaiting awaiting
	detached detachedCalls
	paces    map[*policy.Tool]*pace

	hints hints

	adverts        int // answers that may gain an advert, and have not ended
	advertBuffered int // bytes that they keep

	// Scratch that one callback uses at a time.
	request  mcp.Request
	response mcp.Response
	buf      []byte
	scope    []byte
	key      []byte
	cookies  []string
}

// New makes the guard of a configuration. Open must follow.
func New(config *policy.Config, m Metrics, log Log) *Guard {
	g := &Guard{
		config:  config,
		log:     func(text string) { log(OneLine(text, maxLogged)) },
		counts:  newCounts(config.Namespace, m),
		numbers: numbersOf(config.Policies),
		waiting: map[ledger.Token]*Stream{},
		roots:   map[ledger.Token]*root{},

		inquiring: map[ledger.Token]*waitingInquiry{},

		probing: map[*Stream]struct{}{},
		late:    map[*Stream]struct{}{},
		servers: map[string]string{},

		awaiting: newAwaiting(),
		detached: newDetachedCalls(),
		paces:    map[*policy.Tool]*pace{},
	}
	return g
}

// Open opens the ledger where the configuration keeps it. env needs what the worker alone
// knows: table, clock and chance.
func (g *Guard) Open(env ledger.Env, layout shared.Layout) error {
	env.Live, env.Log = g.isOpen, g.log
	env.Count, env.Late, env.Census, env.Evicted = g.notice, g.settledLate, g.census, g.evicted
	env.Policies = g.numbers.each
	g.now = env.Now
	g.awaiting.wakes = wakes{table: env.Table, key: wakesKey(g.config.Namespace), queues: g.Queues}
	local := env
	if g.config.Store.Kind != policy.SharedData {
		local = localEnv(g, env)
	}
	store, err := shared.Open(local, g.config.Namespace, layout)
	if err == nil {
		g.marks, g.digest = store, store.Digest
		g.store = openers[g.config.Store.Kind](g, env, store)
		g.keys, _ = g.store.(ledger.Keys)
	}
	return err
}

// isOpen says whether the stream that asked with a token has not ended.
func (g *Guard) isOpen(t ledger.Token) bool {
	if g.roots[t] != nil {
		return true
	}
	if g.live != nil {
		g.looked++
		return g.live[t]
	}
	g.looked += len(g.open)
	for _, s := range g.open {
		if s.token == t {
			return true
		}
	}
	return false
}

// fewStreams is up to how many open streams are searched one after the other.
const fewStreams = 64

// gatherLive makes an index of many open streams, for a tick: the ledger asks for each.
func (g *Guard) gatherLive() {
	if len(g.open) <= fewStreams {
		return
	}
	g.live = make(map[ledger.Token]bool, len(g.open))
	for _, s := range g.open {
		g.live[s.token] = true
	}
}

// enter and leave keep the streams that asked the ledger, at a cost that does not grow
// with their number.
func (g *Guard) enter(s *Stream) {
	s.asked, s.index = true, len(g.open)
	g.open = append(g.open, s)
}

func (g *Guard) leave(s *Stream) {
	last := len(g.open) - 1
	g.open[s.index], g.open[last].index = g.open[last], s.index
	g.open[last] = nil
	g.open, s.asked = g.open[:last], false
}

// Quotas are what the configuration lets the ledger keep, for its stated maximum.
func (g *Guard) Quotas() []shared.Quota {
	var out []shared.Quota
	for _, p := range g.config.Policies {
		out = append(out, shared.Quota{Limits: limits(p), Budget: budget(p), ReplyBytes: p.Limits.ReplyBytes})
	}
	return out
}

// misnamed stands for the policy of a route whose metadata names none that exists:
// its calls, and what may be one, are refused; all else passes.
var misnamed = &policy.Policy{Name: "(unknown)", MustGuard: true, MaxRequestBytes: policy.DefaultMaxRequestBytes}

// route finds the policy of a request, nil for off.
func (g *Guard) route(h Host) *policy.Policy {
	metadata, is := h.Attribute(propRoutePolicy)
	if is == Unreadable { // what YAML makes of a member without a value: null
		g.tellMisnamed(h, "null")
		return misnamed
	}
	if is == Present && len(metadata) == 0 {
		g.tellMisnamed(h, "")
		return misnamed
	}
	var name []byte
	if len(metadata) == 0 && g.config.ReadsRoutes() {
		name, _ = h.Property(propRouteName)
	}
	if len(metadata) == 1 && metadata[0] == 0 {
		return nil // what YAML makes of an off without quotes: the boolean false
	}
	p, known := g.config.Route(string(metadata), string(name))
	if !known {
		g.tellMisnamed(h, string(metadata))
		return misnamed
	}
	return p
}

// tellMisnamed says once what a route's metadata names.
func (g *Guard) tellMisnamed(h Host, name string) {
	if !g.once.first(remark{topic: aboutRoute, name: name}) {
		return
	}
	route, _ := h.Property(propRouteName)
	found := strconv.QuoteToASCII(OneLine(name, maxPublished))
	switch {
	case name == "":
		found = "an empty name"
	case name == "null":
		found = "no value" // or that word, which names no policy either
	case len(name) == 8 && !isText(name) || len(name) == 1 && name[0] < ' ':
		found = "a number or a boolean"
	}
	g.log("the metadata callonce/policy of the route " + strconv.QuoteToASCII(OneLine(string(route), maxPublished)) +
		": found " + found + ", expected \"off\" or the name of a policy, in quotes. Its tool calls are refused")
}

// Answered implements ledger.Sink: the answer to a claim that had to wait.
func (g *Guard) Answered(t ledger.Token, a ledger.Answer) {
	if s, ok := g.waiting[t]; ok {
		delete(g.waiting, t)
		s.answered(a)
	}
	if r := g.roots[t]; r != nil {
		g.rootAnsweredLate(r, a)
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

// Close is called when the proxy has done with the configuration: nothing follows.
func (g *Guard) Close() { g.counts.tell() }

// Tick does what must be done now and then.
func (g *Guard) Tick(now ledger.Mono) {
	defer func() {
		g.live = nil
		if f := recover(); f != nil {
			g.fault(f)
		}
		g.counts.tell()
	}()
	for s := range g.probing {
		s.wait.ticks++
	}
	g.look(len(g.probing))
	g.goOn()
	g.gatherLive()
	g.store.Tick(now)
	g.live = nil
	g.lookAtDetached(now)
	g.lookReady()
	g.lookAtWaiters(now)
}
