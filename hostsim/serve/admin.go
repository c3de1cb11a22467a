package serve

import (
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"

	"github.com/callonce/callonce/hostsim"
)

// admin answers /metrics, /ready and a page of requests as they come, on an address of its own.
type admin struct {
	store  *hostsim.Store
	recent *recent
	own    http.Handler // the filter's part of the page; nil = none
	ready  atomic.Bool
}

// ownPrefix is where the filter's part of the page lies.
const ownPrefix = "/filter"

var sameOrigin = http.NewCrossOriginProtection()

// byNumber keeps out pages of other sites whose name has come to stand for this address.
func byNumber(w http.ResponseWriter, r *http.Request) bool {
	host, _, err := net.SplitHostPort(r.Host)
	if err != nil {
		host = r.Host
	}
	if host != "localhost" && net.ParseIP(strings.Trim(host, "[]")) == nil {
		http.Error(w, "want this address by its number, or localhost", http.StatusForbidden)
		return false
	}
	return true
}

// serveOwn keeps other pages of other sites out.
func (a *admin) serveOwn(w http.ResponseWriter, r *http.Request) {
	protectPage(w.Header())
	sameOrigin.Handler(http.StripPrefix(ownPrefix, a.own)).ServeHTTP(w, r)
}

func (a *admin) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch r.URL.Path {
	case "/metrics":
		w.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
		writeMetrics(w, a.store.AllMetrics())
	case "/ready":
		if !a.ready.Load() {
			http.Error(w, "not serving", http.StatusServiceUnavailable)
			return
		}
		io.WriteString(w, "ready\n")
	default:
		if a.recent != nil && !byNumber(w, r) {
			return
		}
		if a.own != nil && strings.HasPrefix(r.URL.Path, ownPrefix+"/") {
			a.serveOwn(w, r)
			return
		}
		if a.recent == nil || !a.recent.serve(w, r, a.store.AllMetrics()) {
			http.Error(w, "there are / (a page of requests as they come), /metrics and /ready", http.StatusNotFound)
		}
	}
}

// sample is a metric with its labels taken out of its name.
type sample struct {
	name   string
	labels [][2]string
	metric hostsim.Metric
}

// takeApart reads the spelling that an Envoy is told about with stats_tags: "label=.=value;.;other=.=value;.;name".
func takeApart(m hostsim.Metric) sample {
	parts := strings.Split(m.Name, ";.;")
	s := sample{metric: m}
	for _, p := range parts[:len(parts)-1] {
		k, v, ok := strings.Cut(p, "=.=")
		if !ok {
			// Not that spelling: the whole is the name.
			return sample{name: metricName(m.Name), metric: m}
		}
		s.labels = append(s.labels, [2]string{labelName(k), v})
	}
	s.name = metricName(parts[len(parts)-1])
	return s
}

var (
	notName  = regexp.MustCompile(`[^a-zA-Z0-9_:]`)
	notLabel = regexp.MustCompile(`[^a-zA-Z0-9_]`)
	escape   = strings.NewReplacer(`\`, `\\`, "\n", `\n`, `"`, `\"`)
)

func metricName(s string) string { return leadingLetter(notName.ReplaceAllString(s, "_")) }
func labelName(s string) string  { return leadingLetter(notLabel.ReplaceAllString(s, "_")) }

func leadingLetter(s string) string {
	if s == "" || s[0] >= '0' && s[0] <= '9' {
		return "_" + s
	}
	return s
}

// writeMetrics writes Prometheus' text format. A histogram, of which the host keeps number and sum only, is a summary there.
func writeMetrics(w io.Writer, all []hostsim.Metric) {
	var samples []sample
	for _, m := range all {
		samples = append(samples, takeApart(m))
	}
	slices.SortStableFunc(samples, func(a, b sample) int {
		return strings.Compare(a.name+"\x00"+a.metric.Kind, b.name+"\x00"+b.metric.Kind)
	})
	last := ""
	for _, s := range samples {
		if s.name != last {
			last = s.name
			kind := s.metric.Kind
			if kind == "histogram" {
				kind = "summary"
			}
			fmt.Fprintf(w, "# TYPE %s %s\n", s.name, kind)
		}
		if s.metric.Kind == "histogram" {
			fmt.Fprintf(w, "%s_sum%s %d\n", s.name, s.braces(), s.metric.Sum)
			fmt.Fprintf(w, "%s_count%s %d\n", s.name, s.braces(), s.metric.Value)
			continue
		}
		fmt.Fprintf(w, "%s%s %d\n", s.name, s.braces(), s.metric.Value)
	}
}

func (s sample) braces() string {
	if len(s.labels) == 0 {
		return ""
	}
	var parts []string
	for _, l := range s.labels {
		parts = append(parts, fmt.Sprintf(`%s="%s"`, l[0], escape.Replace(l[1])))
	}
	return "{" + strings.Join(parts, ",") + "}"
}

// listen says which flag's address cannot be had, and what to do where somebody else has it.
func listen(flag, address string) (net.Listener, error) {
	l, err := net.Listen("tcp", address)
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		return nil, fmt.Errorf("%s: another program has %s already: end that one, or name another port (0 is any free one, which is printed)", flag, address)
	case err != nil:
		return nil, fmt.Errorf("%s: %w", flag, err)
	}
	return l, nil
}

// listenAndServe serves h on an address of its own until stop is called.
func listenAndServe(flag, address string, h http.Handler) (where string, stop func(), err error) {
	l, err := listen(flag, address)
	if err != nil {
		return "", nil, err
	}
	server := &http.Server{Handler: h, ErrorLog: log.New(io.Discard, "", 0)}
	go server.Serve(l)
	return l.Addr().String(), func() { server.Close() }, nil
}
