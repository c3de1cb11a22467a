// Package hosttest tests a proxy-wasm filter as net/http/httptest tests a handler: [Start] puts the filter between a server, which
// is an [http.Handler], and clients of any kind, for as long as one test runs. Whoever needs more than that (hooks, a clock that
// moves when told, trailers, retries, timeouts) fills in the [hostsim.Config] and [hostsim.ProxyOptions], or uses hostsim itself.
//
// It knows nothing about any particular filter.
package hosttest

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/callonce/callonce/hostsim"
)

// Build compiles the Go package in a folder, relative to the test's own, as a filter, with more flags of go build where some are
// given. It ends the test, with what the compiler said, where that fails. A filter in another language is read with [os.ReadFile].
func Build(t testing.TB, folder string, flags ...string) []byte {
	t.Helper()
	wasm := filepath.Join(t.TempDir(), "filter.wasm")
	args := append([]string{"build", "-buildmode=c-shared", "-o", wasm}, flags...)
	build := exec.CommandContext(t.Context(), "go", append(args, ".")...)
	build.Dir, build.Env = folder, append(os.Environ(), "GOOS=wasip1", "GOARCH=wasm", "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("compile the filter in %s: %v\n%s", folder, err, out)
	}
	code, err := os.ReadFile(wasm)
	if err != nil {
		t.Fatal(err)
	}
	return code
}

// Front is a filter at work in front of a server.
type Front struct {
	// URL is where clients reach it, over HTTP/1.1 or unencrypted HTTP/2: "http://127.0.0.1:PORT".
	URL string
	// Host runs the filter.
	Host *hostsim.Host

	t      testing.TB
	client *http.Client
}

// Start starts the filter in front of a server that answers with upstream. Everything ends with the test; a filter that refuses
// its configuration ends it at once, with the lines that it logged.
//
// Where c says nothing, what the filter logs goes to the test's log, a VM that ends by itself, as by a panic of the filter, fails the
// test with its stack, and compiled code is kept in the user's cache folder for the next run; a test of such an end has Hooks.Failed of
// its own.
//
// Options of the proxy may follow, once: what they do not say is as it is without. The workers serve requests by turns, beginning with
// worker 0, unless Pick says otherwise. With UpstreamHTTP2 the server speaks HTTP/2 too.
func Start(t testing.TB, c hostsim.Config, upstream http.Handler, options ...hostsim.ProxyOptions) *Front {
	t.Helper()
	var o hostsim.ProxyOptions
	switch len(options) {
	case 0:
	case 1:
		o = options[0]
	default:
		t.Fatalf("want the proxy's options once, got them %d times", len(options))
	}
	test := &speaker{TB: t}
	t.Cleanup(test.end)
	if c.Log == nil {
		c.Log = test.log
	}
	if c.Hooks.Failed == nil {
		c.Hooks.Failed = test.failed
	}
	if c.CacheDir == "" && c.Code == nil {
		c.CacheDir = cache()
	}
	host, err := hostsim.New(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := host.Close(); err != nil {
			t.Error(err)
		}
	})
	server := httptest.NewUnstartedServer(upstream)
	server.Config.Protocols = new(http.Protocols)
	server.Config.Protocols.SetHTTP1(!o.UpstreamHTTP2)
	server.Config.Protocols.SetUnencryptedHTTP2(o.UpstreamHTTP2)
	server.Start()
	t.Cleanup(server.Close)
	address, err := url.Parse(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	if o.Pick == nil {
		o.Pick = byTurns(host.Workers())
	}
	proxy := hostsim.NewProxy(host, address, o)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- proxy.Serve(l) }()
	client := &http.Client{
		Transport: &http.Transport{DisableCompression: true},
		// What the filter answers is what a test wants to see.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	t.Cleanup(func() {
		client.CloseIdleConnections()
		if err := errors.Join(proxy.Close(), <-served); err != nil {
			t.Error(err)
		}
	})
	return &Front{URL: "http://" + l.Addr().String(), Host: host, t: t, client: client}
}

// Send sends a request with headers given as name, value, name, value, … and returns the response and its whole body. Where none
// comes, or not all of it, it ends the test.
func (f *Front) Send(method, path, body string, header ...string) (*http.Response, string) {
	f.t.Helper()
	resp, got, err := f.send(f.t.Context(), method, path, body, header)
	if err != nil {
		f.t.Fatalf("%s %s: %v", method, path, err)
	}
	return resp, got
}

func (f *Front) send(ctx context.Context, method, path, body string, header []string) (*http.Response, string, error) {
	var r io.Reader
	if body != "" {
		r = strings.NewReader(body)
	}
	req, err := http.NewRequestWithContext(ctx, method, f.URL+path, r)
	if err != nil {
		return nil, "", err
	}
	for i := 0; i+1 < len(header); i += 2 {
		req.Header.Add(header[i], header[i+1])
	}
	req.GetBody = nil // Go's client would send a request again when the connection breaks
	resp, err := f.client.Do(req)
	if err != nil {
		return nil, "", err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	return resp, string(b), err
}

func byTurns(workers int) func(*http.Request) int {
	var turn atomic.Uint64
	return func(*http.Request) int { return int((turn.Add(1) - 1) % uint64(workers)) }
}

// speaker says nothing any more once the test is over: a test takes no line then.
type speaker struct {
	testing.TB
	mu   sync.Mutex
	over bool
}

func (s *speaker) end() {
	s.mu.Lock()
	s.over = true
	s.mu.Unlock()
}

func (s *speaker) log(worker int, level hostsim.LogLevel, msg string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.over {
		s.Logf("%s %s: %s", where(worker), level, msg)
	}
}

// failed has all of it in one piece: other workers log in between.
func (s *speaker) failed(worker int, err error, printed string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.over {
		s.Errorf("%s: the filter's VM has ended: %v\n%s", where(worker), err, printed)
	}
}

// where says which VM speaks.
func where(worker int) string {
	switch worker {
	case hostsim.Trial:
		return "trial start"
	case hostsim.MainThread:
		return "main thread"
	}
	return "worker " + strconv.Itoa(worker)
}

// cache is "" where the user has no cache folder: then every test compiles anew.
func cache() string {
	dir, err := os.UserCacheDir()
	if err != nil {
		return ""
	}
	dir = filepath.Join(dir, "hostsim")
	if os.MkdirAll(dir, 0o755) != nil {
		return ""
	}
	return dir
}
