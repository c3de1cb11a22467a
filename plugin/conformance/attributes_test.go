package conformance

import (
	"fmt"
	"maps"
	"net"
	"net/http"
	"net/url"
	"sync/atomic"
	"testing"

	"github.com/callonce/callonce/hostsim"
)

// What hostsim tells the filter of a request in Envoy's stead: the route that it
// took, and the caller that was verified.

// callerHeader names a caller to the simulated proxy. A real one has a token or a
// certificate to go by.
const callerHeader = "X-Simulated-Caller"

// attributes are the properties of a request that differ from the host's own.
func (p *simulated) attributes(s Setup, r *http.Request) map[string]string {
	out := map[string]string{}
	for _, route := range s.Routes {
		if r.Header.Get("X-Route") == route.When {
			out["xds.route_name"] = route.When
			if route.Policy != "" {
				out["xds.route_metadata.filter_metadata.callonce.policy"] = route.Policy
			}
			break
		}
	}
	for _, name := range s.Hosts {
		if r.Host == Authority(name) {
			out["xds.virtual_host_name"] = name
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if c, known := p.callers[r.Header.Get(callerHeader)]; known {
		maps.Copy(out, c.attributes())
	}
	return out
}

func (c Caller) attributes() map[string]string {
	out := map[string]string{}
	verdict := "denied"
	if c.URI != "" {
		out["connection.mtls"] = "\x01"
		out["connection.uri_san_peer_certificate"] = c.URI
		if !c.Stranger {
			verdict = "allowed"
		}
	}
	out["metadata.filter_metadata.envoy.filters.http.rbac.callonce_peer_shadow_engine_result"] = verdict
	return out
}

// metadata is what jwt_authn leaves of the token that a request brought.
func (p *simulated) metadata(r *http.Request) map[string]any {
	p.mu.Lock()
	defer p.mu.Unlock()
	c := p.callers[r.Header.Get(callerHeader)]
	if c.Issuer == "" {
		return nil
	}
	payload := map[string]any{"iss": c.Issuer, "sub": c.Subject}
	if c.Tenant != "" {
		payload["tenant"] = c.Tenant
	}
	maps.Copy(payload, c.Claims)
	return map[string]any{"envoy.filters.http.jwt_authn": map[string]any{"payload": payload}}
}

// Caller implements Verifier.
func (p *simulated) Caller(_ testing.TB, c Caller) http.RoundTripper {
	p.mu.Lock()
	defer p.mu.Unlock()
	name := fmt.Sprint(len(p.callers))
	p.callers[name] = c
	return simulatedCaller(name)
}

type simulatedCaller string

// RoundTrip implements http.RoundTripper.
func (c simulatedCaller) RoundTrip(req *http.Request) (*http.Response, error) {
	req.Header.Set(callerHeader, string(c))
	return http.DefaultTransport.RoundTrip(req)
}

// weigh serves two versions of a server, in turn, behind one filter: what Envoy calls
// weighted clusters.
func (p *simulated) weigh(t testing.TB, l net.Listener, canary string) {
	t.Helper()
	o := p.options()
	u, err := url.Parse(canary)
	if err != nil {
		t.Fatal(err)
	}
	stable := o.Properties
	o.Properties = func(r *http.Request, path string) ([]byte, bool) {
		if path == "xds.cluster_name" {
			return []byte("canary"), true
		}
		return stable(r, path)
	}
	other := hostsim.NewProxy(p.host, u, o)
	p.others = append(p.others, func() { _ = other.Close() })
	var turn atomic.Uint64
	p.server = &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if turn.Add(1)%2 == 0 {
			other.ServeHTTP(w, r)
		} else {
			p.proxy.ServeHTTP(w, r)
		}
	})}
	go func() { _ = p.server.Serve(l) }()
}
