// Package boot brings a configuration to work, whichever binding joins the filter to its proxy: it reads the configuration, opens the ledger, and
// says in the proxy's log what operators must know. It knows no proxy, and which binding it is that calls only by what that lacks.
package boot

import (
	"strconv"
	"strings"
	"time"

	"github.com/callonce/callonce/plugin/internal/guard"
	"github.com/callonce/callonce/plugin/internal/ledger"
	"github.com/callonce/callonce/plugin/internal/policy"
	"github.com/callonce/callonce/plugin/internal/version"
)

// Level is how urgent a line of the log is: proxy-wasm's numbers.
type Level uint32

const (
	Info     Level = 2
	Warn     Level = 3
	Critical Level = 5
)

// Proxy is what a binding hands over of the worker that it runs in. Errors mean that the proxy would not.
type Proxy struct {
	Lacks policy.Lacks // what the binding cannot do

	Log           func(level Level, line string)
	Configuration func() ([]byte, error) // empty where there is none
	Property      func(path []string) (value []byte, ok bool)
	Ticks         func(period time.Duration) error

	Table   ledger.Table
	Now     func() ledger.Mono
	Random  func(into []byte)
	Metrics guard.Metrics
	Queues  guard.Queues
	Calls   guard.Calls  // nil where they are lacking
	Remote  guard.Remote // Node is filled in. Nothing where gRPC calls are lacking
}

// started are the configurations that this VM has started.
var started guard.Started

var (
	pluginNamePath = []string{"plugin_name"}
	nodeIDPath     = []string{"node", "id"}
)

// text is an attribute, copied. "" where there is none.
func (p *Proxy) text(path []string) string {
	v, _ := p.Property(path)
	return string(v)
}

// Start reads the configuration and opens the ledger. It refuses to start, with every reason in the log, rather than run unguarded: ok is
// false then. then is the period of ticks after the first one.
func Start(p Proxy) (g *guard.Guard, then time.Duration, ok bool) {
	warn := func(line string) { p.Log(Warn, line) }
	p.Log(Info, "callonce "+version.String())
	text, err := p.Configuration()
	if err != nil {
		p.Log(Critical, "the configuration cannot be read: "+err.Error())
		return nil, 0, false
	}
	// A copy: what is parsed may keep parts of the text.
	config, mistakes := policy.Parse([]byte(string(text)))
	if len(mistakes) == 0 {
		mistakes = config.Beyond(p.Lacks)
	}
	if len(mistakes) > 0 {
		for _, line := range strings.Split(mistakes.Error(), "\n") {
			p.Log(Critical, line)
		}
		return nil, 0, false
	}
	for _, w := range config.Warnings() {
		warn(w)
	}
	for _, q := range config.Policies {
		if q.Observe {
			warn("the policy " + strconv.Quote(q.Name) + " observes: it decides, counts and logs as if it enforced, and refuses, replays and edits nothing")
		}
	}
	g = guard.New(config, p.Metrics, warn)
	g.Queues, g.Calls = p.Queues, p.Calls
	g.Remote = p.Remote
	g.Remote.Node = p.text(nodeIDPath)
	g.TellBuild(version.Build())
	if err := g.Open(ledger.Env{Table: tableOf(p.Table, p.Now), Now: p.Now, Random: p.Random}, layout); err != nil {
		p.Log(Critical, "the ledger cannot be kept: "+err.Error())
		return nil, 0, false
	}
	then = tickPeriod(config)
	first := then
	if config.Store.Kind != policy.SharedData {
		first = firstTick
	}
	if err := p.Ticks(first); err != nil {
		p.Log(Critical, "no ticks: "+err.Error())
		return nil, 0, false
	}
	record := guard.Recall(p.Table, p.text(pluginNamePath), config, &started, warn)
	keys, bytes := layout.Most(config.Namespace, g.Quotas())
	keys, bytes = keys+2, bytes+int64(record+guard.MostWakeBytes(config.Namespace))
	p.Log(Info, "the ledger holds at most "+strconv.Itoa(keys)+" keys and "+strconv.FormatInt(bytes, 10)+" bytes of shared data")
	return g, then, true
}
