package serve

import (
	"bytes"
	"context"
	"crypto/rand"
	"fmt"
	"io"
	"net/http"
	"net/http/httputil"
	"net/url"
	"sync"
	"time"

	"github.com/callonce/callonce/hostsim"
)

// faultServer stands between the filter and the real server, and in front of the proxy too: a request is known on both sides by its
// x-request-id.
type faultServer struct {
	rules    []*faultRule
	matchers []Matcher
	target   *url.URL
	host     *hostsim.Host
	log      io.Writer
	proxy    *httputil.ReverseProxy
	client   *http.Client

	mu   sync.Mutex
	turn int
	open map[string]*opened
}

// opened is a request that is under way.
type opened struct {
	worker int
	drop   context.CancelFunc
}

func newFaultServer(rules []*faultRule, matchers []Matcher, target *url.URL, h *hostsim.Host, log io.Writer) *faultServer {
	// A connection for each request: net/http would send one again whose kept connection turns out to be dead.
	tr := &http.Transport{DisableKeepAlives: true, DisableCompression: true}
	f := &faultServer{rules: rules, matchers: matchers, target: target, host: h, log: log, open: map[string]*opened{}}
	f.client = &http.Client{Transport: tr, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	f.proxy = &httputil.ReverseProxy{Transport: tr, FlushInterval: -1, Rewrite: func(r *httputil.ProxyRequest) {
		r.SetURL(target)
		r.Out.Host = r.In.Host
		for _, name := range []string{"Forwarded", "X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto"} {
			if v := r.In.Header[name]; v != nil {
				r.Out.Header[name] = v
			}
		}
	}, ErrorHandler: func(http.ResponseWriter, *http.Request, error) { panic(http.ErrAbortHandler) }}
	return f
}

// front gives every request an id and a worker, and lets go of its client when a rule says so.
func (f *faultServer) front(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		id := r.Header.Get("X-Request-Id")
		if id == "" {
			id = rand.Text()
			r.Header.Set("X-Request-Id", id)
		}
		ctx, cancel := context.WithCancel(r.Context())
		defer cancel()
		f.mu.Lock()
		o := &opened{worker: f.turn % f.host.Workers(), drop: cancel}
		f.turn++
		f.open[id] = o
		f.mu.Unlock()
		defer func() {
			f.mu.Lock()
			delete(f.open, id)
			f.mu.Unlock()
		}()
		next.ServeHTTP(w, r.WithContext(context.WithValue(ctx, openKey{}, o)))
	})
}

type openKey struct{}

// pick is the worker that front has chosen.
func pick(r *http.Request) int {
	if o, ok := r.Context().Value(openKey{}).(*opened); ok {
		return o.worker
	}
	return 0
}

func (f *faultServer) of(r *http.Request) *opened {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.open[r.Header.Get("X-Request-Id")]
}

// ServeHTTP is the server's side.
func (f *faultServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	read, words := map[string]string{}, ""
	for _, m := range f.matchers {
		if read[m.Name] = m.Read(body); read[m.Name] != "" {
			words += " " + read[m.Name]
		}
	}
	for i, rule := range f.rules {
		if !rule.strikes(r.Method, r.URL.Path, read) {
			continue
		}
		fmt.Fprintf(f.log, "fault /%d %s: %s %s%s\n", i, rule.action, r.Method, r.URL.Path, words)
		f.act(rule, w, r)
		return
	}
	f.proxy.ServeHTTP(w, r)
}

func (f *faultServer) act(rule *faultRule, w http.ResponseWriter, r *http.Request) {
	switch rule.action {
	case "delay":
		select {
		case <-time.After(rule.delay):
		case <-r.Context().Done():
		}
	case "reset_before":
		panic(http.ErrAbortHandler)
	case "reset_after_body", "cut_reply":
		f.lose(rule.action == "cut_reply", w, r)
		return
	case "drop_client":
		if o := f.of(r); o != nil {
			o.drop()
		}
	case "crash_worker":
		if o := f.of(r); o != nil {
			f.host.Crash(o.worker)
		}
	}
	// The server works on, whoever has left: that is what makes an outcome unknown. A context that cannot be cancelled at all would
	// make ReverseProxy watch the connection instead.
	ctx, cancel := context.WithCancel(context.WithoutCancel(r.Context()))
	defer cancel()
	f.proxy.ServeHTTP(w, r.WithContext(ctx))
}

// lose lets the server do its work and loses its answer, or the second half of it.
func (f *faultServer) lose(half bool, w http.ResponseWriter, r *http.Request) {
	out := r.Clone(context.WithoutCancel(r.Context()))
	out.RequestURI, out.URL.Scheme, out.URL.Host = "", f.target.Scheme, f.target.Host
	resp, err := f.client.Do(out)
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err == nil && half {
		for name, values := range resp.Header {
			w.Header()[name] = values
		}
		w.Header().Set("Content-Length", fmt.Sprint(len(body)))
		w.WriteHeader(resp.StatusCode)
		w.Write(body[:len(body)/2])
		http.NewResponseController(w).Flush()
	}
	panic(http.ErrAbortHandler)
}
