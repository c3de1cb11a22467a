// Package conformance is a table of reports from the field: what people met when agents
// repeat tool calls, each boiled down to an input and the right outcome. Every case
// runs against a Front, a way to put the compiled filter before a server: hostsim
// here, a real Envoy in the e2e module. A case belongs here when a proxy must show
// it; what a package shows alone is tested there. docs/cases.md tells of all.
//
// The cases know HTTP and the filter's configuration. They must not know which host
// they run on, nor what the filter is made of.
package conformance

import (
	"net/http"
	"slices"
	"testing"
	"time"
)

// Setup is what a case wants to stand behind.
type Setup struct {
	Config        string // the filter's configuration, JSON
	Upstream      string // http://host:port of the server
	Workers       int    // 0 = 2
	NoHoldHeaders bool   // a host that cannot hold headers while a body is read
	Retries       int    // the route's own retries on 5xx and resets

	Small       bool          // the filter with a table of a handful of buckets (plugin/internal/boot/layout_small.go)
	Faults      bool          // the filter with faults to order (plugin/internal/boot/faults.go)
	Changes     bool          // Proxy.Change will be called
	Drain       time.Duration // how long an old configuration goes on with its streams; 0 = a minute
	HTTP2       bool          // spoken to the server, in the clear, where the host can: hostsim speaks HTTP/1.1
	IdleTimeout time.Duration // ends a stream on which nothing moves; 0 = minutes

	Routes  []Route  // besides the one named mcp, which takes what none of them does
	Canary  string   // another version of the server: takes about half of the calls of every route
	Hosts   []string // names of further virtual hosts, for requests to their Authority
	Callers bool     // the proxy verifies tokens and client certificates: it is a Verifier
}

// Route takes the requests whose header x-route has a value.
type Route struct {
	When   string // the value, and the route's name
	Policy string // metadata callonce/policy, "" = none
}

// Caller is who sends a request, by what a Verifier can check.
type Caller struct {
	Issuer, Subject string         // of a token that is right, "" = none; the issuer is First or Second
	Tenant          string         // the token's claim tenant
	Claims          map[string]any // more claims of the token, as encoding/json has them
	URI             string         // in the client certificate, "" = no certificate
	Stranger        bool           // the certificate was shown, and not validated
}

// The issuers whose tokens a Verifier takes.
const (
	First  = "https://first.example"
	Second = "https://second.example"
)

// Verifier is a Proxy that knows callers by tokens and certificates.
type Verifier interface {
	// Caller gives what sends requests as a caller, until the test ends.
	Caller(t testing.TB, c Caller) http.RoundTripper
}

// Proxy is a running front.
type Proxy interface {
	URL() string
	// Counter is the sum of a counter's series that have these labels, as operators
	// would read it.
	Counter(t testing.TB, name string, labels map[string]string) int64
	// AccessLog gives the records so far, oldest first, with the keys status, outcome,
	// key_hash, tool, settled, settled_by and details; "" or "-" where a field is unset.
	AccessLog(t testing.TB) []map[string]string
	Logs() string
	// Change gives the filter another configuration or, where faults differs from what
	// serves, other code, and returns when requests on new connections get it. Streams that
	// are open go on as they are.
	Change(t testing.TB, config string, faults bool)
	// Memory is what the proxy uses, in bytes: the workers' VMs, or the whole process.
	Memory(t testing.TB) int64
	Close()
}

// Front starts proxies.
type Front interface {
	Name() string
	// Start serves until the test ends.
	Start(t testing.TB, s Setup) Proxy
	// StartError starts what must be refused and gives the host's log.
	StartError(t testing.TB, s Setup) string
}

// Case is one report. Number is its place in the list of reports.
type Case struct {
	Number int
	Name   string
	Envoy  bool // must be shown on a real Envoy too
	Run    func(t *testing.T, f Front)
}

// All is every case that a proxy shows.
var All = slices.Concat(duplicates, layer, canon, refused, scopes, framing, responses, rounds, streams, holders, changes, limits, lost, settled, intents)

// Run runs the cases that want accepts, each as a subtest.
func Run(t *testing.T, f Front, want func(Case) bool) {
	for _, c := range All {
		if want(c) {
			t.Run(c.label(), func(t *testing.T) { c.Run(t, f) })
		}
	}
}

func (c Case) label() string {
	return "case-" + string([]byte{byte('0' + c.Number/10), byte('0' + c.Number%10)}) + "-" + c.Name
}
