package conformance

import (
	"context"
	"net"
	"net/http"
	"testing"

	"github.com/callonce/callonce/hostsim"
)

// load starts the code and configuration that the setup asks for, in the process that
// there may be already.
func (p *simulated) load(t testing.TB) {
	t.Helper()
	h, err := hostsim.New(context.Background(), p.config)
	if err != nil {
		t.Fatal(err)
	}
	proxy := hostsim.NewProxy(h, p.upstream, p.options())
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.host != nil {
		oldHost, oldProxy := p.host, p.proxy
		p.others = append(p.others, func() { _, _ = oldProxy.Close(), oldHost.Close() })
	}
	p.host, p.proxy = h, proxy
}

// serveWhatIsNewest takes connections for whatever was loaded last.
func (p *simulated) serveWhatIsNewest(l net.Listener) {
	p.server = &http.Server{Protocols: new(http.Protocols), Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p.mu.Lock()
		now := p.proxy
		p.mu.Unlock()
		now.ServeHTTP(w, r)
	})}
	p.server.Protocols.SetHTTP1(true)
	p.server.Protocols.SetUnencryptedHTTP2(true)
	go func() { _ = p.server.Serve(l) }()
}

// Change implements Proxy. Other code comes as a second host in the same process, which
// is what new VMs beside old ones are.
func (p *simulated) Change(t testing.TB, config string, faults bool) {
	t.Helper()
	if faults == p.setup.Faults {
		if err := p.host.Configure([]byte(config)); err != nil {
			t.Fatal(err)
		}
		return
	}
	p.setup.Config, p.setup.Faults = config, faults
	c, _ := p.front.config(t, p.setup)
	c.Store, c.Log = p.host.Store(), p.config.Log
	p.config = c
	p.load(t)
}

// Memory implements Proxy.
func (p *simulated) Memory(testing.TB) int64 {
	var sum int64
	for i := range p.host.Workers() {
		sum += p.host.Memory(i)
	}
	return sum
}
