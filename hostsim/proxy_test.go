package hostsim

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"
)

// The first event of a stream passes while the server holds back the rest.
func TestEventsPassAtOnce(t *testing.T) {
	r := newRig(t, nil)
	release := r.up.hold("/sse")
	defer release()
	resp, err := http.DefaultClient.Do(r.request(context.Background(), "POST", "/sse", "A", "", "x"))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b := make([]byte, 15)
	if _, err := io.ReadFull(resp.Body, b); err != nil || string(b) != "ev000ev001ev002" {
		t.Fatalf("got %q, %v", b, err)
	}
	release()
	if rest, err := io.ReadAll(resp.Body); err != nil || len(rest) > 0 {
		t.Errorf("rest: %q, %v", rest, err)
	}
}

// A kept connection that the server has closed is never used to send a request twice, whatever net/http's Transport thinks of
// requests with an Idempotency-Key.
func TestUpstreamIsNeverAskedTwice(t *testing.T) {
	r := newRig(t, nil)
	for i := range 20 {
		release := r.up.hold("/closelater")
		if a := r.do("POST", "/closelater", fmt.Sprint("L", i), "", "x", "Idempotency-Key", "k"); a.status != 200 {
			t.Fatalf("first: %d %v", a.status, a.err)
		}
		// The close races with the next request: it may be answered, or fail, but is never repeated.
		go release()
		r.do("POST", "/again", fmt.Sprint("M", i), "", "x", "Idempotency-Key", "k", "x-n", fmt.Sprint(i))
	}
	count := map[string]int{}
	for _, got := range r.up.requests("/again") {
		count[got.header.Get("x-n")]++
	}
	for n, times := range count {
		if times > 1 {
			t.Errorf("request %s arrived %d times", n, times)
		}
	}
}

// A request on a connection that dies under it fails; it is not sent again.
func TestResetUpstreamIsAskedOnce(t *testing.T) {
	r := newRig(t, nil)
	for _, method := range []string{"GET", "POST", "PUT"} {
		before := len(r.up.requests("/close"))
		body := map[bool]string{true: "x"}[method != "GET"]
		a := r.do(method, "/close", "A"+method, "", body, "Idempotency-Key", "k")
		if a.status != 503 || len(r.up.requests("/close")) != before+1 {
			t.Errorf("%s: status %d, %d requests at the server, want 503 and 1", method, a.status, len(r.up.requests("/close"))-before)
		}
	}
}

// The route's retries happen, unless the filter switches them off.
func TestRouteRetries(t *testing.T) {
	r := newRig(t, func(_ *Config, o *ProxyOptions) { o.RouteRetries = 2 })
	if a := r.do("POST", "/503", "A", "", "body"); a.status != 503 {
		t.Errorf("status %d", a.status)
	}
	got := r.up.requests("/503")
	if len(got) != 3 {
		t.Fatalf("executions: %d, want 3", len(got))
	}
	for _, g := range got {
		if g.body != "body" {
			t.Errorf("body of an execution: %q", g.body)
		}
	}
	if rec := r.record(); rec.Flags != "URX" {
		t.Errorf("flags %q, want URX", rec.Flags)
	}
	r.do("POST", "/503", "B", "rh set x-envoy-max-retries 0", "body")
	got = r.up.requests("/503")
	if len(got) != 4 {
		t.Errorf("with x-envoy-max-retries: 0: %d executions more, want 1", len(got)-3)
	}
	if got[3].header.Get("x-envoy-max-retries") != "" {
		t.Error("the control header reached the server")
	}
}

func TestUpstreamSeesWhatTheFilterLeft(t *testing.T) {
	r := newRig(t, nil)
	r.do("POST", "/ok", "A", "rh pause; rb pause; re set x-new v; re remove accept-encoding; re replace other; re remove content-length", "body",
		"Accept-Encoding", "gzip", "Connection", "x-hop", "X-Hop", "1", "X-Two", "a", "X-Two", "b")
	got := r.up.requests("/ok")
	if len(got) != 1 {
		t.Fatalf("%d requests", len(got))
	}
	h := got[0].header
	if got[0].body != "other" || h.Get("x-new") != "v" || strings.Join(h["X-Two"], ",") != "a,b" || h.Get("X-Request-Id") == "" || h.Get("X-Forwarded-Proto") != "http" {
		t.Errorf("got %+v", got[0])
	}
	for _, gone := range []string{"Accept-Encoding", "X-Hop", "Connection"} {
		if h.Get(gone) != "" {
			t.Errorf("%s reached the server", gone)
		}
	}
}

// A connection ends with a local reply of 400, whatever made it, and with one that the request's rest could follow; with no other.
func TestConnectionAfterLocalReplies(t *testing.T) {
	r := newRig(t, nil)
	for plan, want := range map[string]bool{
		"rh pause; rb pause; re reply 409 no": false,
		"rh pause; rb pause; re reply 400 no": true,
		"rh reply 409 no":                     true,
		"sh replace :status 400":              false,
	} {
		resp, err := http.DefaultTransport.RoundTrip(r.request(t.Context(), "POST", "/ok", "A", plan, "body"))
		if err != nil {
			t.Fatal(err)
		}
		io.Copy(io.Discard, resp.Body)
		resp.Body.Close()
		if resp.Close != want {
			t.Errorf("%s: status %d, connection closes: %v, want %v", plan, resp.StatusCode, resp.Close, want)
		}
	}
}

func TestHTTP2(t *testing.T) {
	r := newRig(t, nil)
	p := new(http.Protocols)
	p.SetUnencryptedHTTP2(true)
	c := &http.Client{Transport: &http.Transport{Protocols: p}}
	for _, test := range []struct{ name, method, path, plan, body, want string }{
		{"get", "GET", "/ok", "rh prop request/protocol", "", `rh end=true|rh prop request/protocol -> "HTTP/2" <nil>|sh status=200 err=<nil> end=false|sb size=5 end=false|se size=0 end=true`},
		{"held", "POST", "/ok", "rh pause; rb pause; re body", "abc", `rh end=false|re size=3 end=true|re body  -> "abc" <nil>|sh status=200 err=<nil> end=false|sb size=5 end=false|se size=0 end=true`},
		{"reply", "POST", "/ok", "rh pause; rb pause; re reply 409 no", "abc", `rh end=false|re size=3 end=true|re reply 409 no -> "" <nil>|sh status=409 err=<nil> end=false|se size=2 end=true`},
		{"cut", "POST", "/cutchunk", "", "abc", `rh end=false|re size=3 end=true|sh status=200 err=<nil> end=false|sb size=5 end=false`},
	} {
		a := r.doWith(c, test.method, test.path, test.name, test.plan, test.body)
		lines := r.end(test.name)
		got := strings.Join(lines[:len(lines)-1], "|")
		if got != test.want {
			t.Errorf("%s: the module saw\n%s\nwant\n%s", test.name, got, test.want)
		}
		if cut := a.err != nil; cut != (test.name == "cut") {
			t.Errorf("%s: client error %v", test.name, a.err)
		}
	}
	if rec := r.record(); rec.Protocol != "HTTP/2" {
		t.Errorf("protocol %q", rec.Protocol)
	}
}

func TestRecord(t *testing.T) {
	r := newRig(t, func(c *Config, o *ProxyOptions) {
		c.Workers, o.Pick = 2, pickByHeader
		c.Properties = map[string][]byte{"xds.route_name": []byte("static"), "other": []byte("of the host")}
		o.Properties = func(r *http.Request, path string) ([]byte, bool) {
			return []byte(r.Header.Get("x-route")), path == "xds.route_name"
		}
	})
	r.do("POST", "/ok?q=1", "A", "rh setprop callonce.outcome first; rh setprop a/b c; done setprop late yes; rh prop xds/route_name; rh prop other", "12345", "x-worker", "1", "x-route", "of the request")
	rec := r.record()
	if rec.Method != "POST" || rec.Path != "/ok?q=1" || rec.Status != 200 || rec.Worker != 1 || rec.RequestBytes != 5 || rec.ResponseBytes != 5 ||
		rec.Details != "via_upstream" || rec.Flags != "-" || rec.RequestID == "" || rec.Time.IsZero() {
		t.Errorf("got %+v", rec)
	}
	if len(rec.FilterState) != 2 || rec.FilterState["callonce.outcome"] != "first" || rec.FilterState["late"] != "yes" {
		t.Errorf("filter state: %q", rec.FilterState)
	}
	got := strings.Join(r.end("A"), "\n")
	if !strings.Contains(got, `xds/route_name -> "of the request"`) || !strings.Contains(got, `other -> "of the host"`) {
		t.Errorf("properties:\n%s", got)
	}
}

// The streams of a worker interleave: one that is held, or streams, does not keep others from being served.
func TestStreamsOfAWorkerInterleave(t *testing.T) {
	r := newRig(t, nil)
	release := r.up.hold("/sse")
	held := make(chan answer, 1)
	streaming := make(chan answer, 1)
	go func() { held <- r.do("POST", "/ok", "H", "rh pause; rb pause; re pause; queue resume", "x") }()
	go func() { streaming <- r.do("POST", "/sse", "S", "", "x") }()
	r.book.wait(t, "H re", func(l []string) bool { return len(l) > 0 })
	r.book.wait(t, "S sb", func(l []string) bool { return len(l) > 0 })
	for i := range 10 {
		if a := r.do("POST", "/ok", fmt.Sprint("N", i), "", "x"); a.status != 200 {
			t.Fatalf("beside them: %d %v", a.status, a.err)
		}
	}
	r.do("POST", "/ok", "W", "rh enqueue H", "x") // the message names the stream to wake
	release()
	for _, c := range []chan answer{held, streaming} {
		if a := <-c; a.status != 200 || a.err != nil {
			t.Errorf("got %d %v", a.status, a.err)
		}
	}
}

// Large bodies flow both ways, slowly read ones too, without being kept whole.
func TestLargeBodiesFlow(t *testing.T) {
	r := newRig(t, nil)
	const size = 24 << 20
	server := newHTTP(t, func(w http.ResponseWriter, req *http.Request) {
		n, _ := io.Copy(io.Discard, req.Body)
		w.Header().Set("x-got", fmt.Sprint(n))
		w.(http.Flusher).Flush()
		for range size >> 20 {
			w.Write(make([]byte, 1<<20))
		}
	})
	r.sendTo(server)
	req := r.request(context.Background(), "POST", "/", "A", "", "")
	req.Body, req.ContentLength = io.NopCloser(io.LimitReader(zeros{}, size)), -1
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if got := resp.Header.Get("x-got"); got != fmt.Sprint(size) {
		t.Errorf("the server got %s bytes, want %d", got, size)
	}
	slow := bufio.NewReaderSize(resp.Body, 1<<10)
	n, err := io.Copy(io.Discard, struct{ io.Reader }{slow})
	if n != size || err != nil {
		t.Errorf("the client got %d bytes, %v", n, err)
	}
}

type zeros struct{}

func (zeros) Read(b []byte) (int, error) { clear(b); return len(b), nil }

// A client that does not read holds the server up, rather than filling our memory.
func TestSlowClientHoldsTheServerUp(t *testing.T) {
	r := newRig(t, func(c *Config, _ *ProxyOptions) { c.BufferLimit = 64 << 10 })
	written := make(chan int, 1)
	server := newHTTP(t, func(w http.ResponseWriter, req *http.Request) {
		total := 0
		for {
			http.NewResponseController(w).SetWriteDeadline(time.Now().Add(500 * time.Millisecond))
			n, err := w.Write(make([]byte, 64<<10))
			if total += n; err != nil || total > 512<<20 {
				written <- total
				return
			}
		}
	})
	r.sendTo(server)
	c := dial(t, r.address)
	c.send("GET / HTTP/1.1\r\nhost: h\r\nx-name: A\r\n\r\n")
	if got := <-written; got > 64<<20 {
		t.Errorf("the server could write %d bytes that nobody read", got)
	}
}

func TestKeepAliveAndPipelining(t *testing.T) {
	r := newRig(t, nil)
	c := dial(t, r.address)
	one := "POST /ok HTTP/1.1\r\nhost: h\r\nx-name: P%d\r\ncontent-length: 1\r\n\r\nx"
	c.send(fmt.Sprintf(one, 1) + fmt.Sprintf(one, 2))
	for i := range 2 {
		if a := c.answer("POST"); a.status != 200 || a.body != "hello" {
			t.Fatalf("answer %d: %+v", i+1, a)
		}
	}
	c.send(fmt.Sprintf(one, 3))
	if a := c.answer("POST"); a.status != 200 {
		t.Errorf("on the kept connection: %+v", a)
	}
}

// A client that still sends when the answer is there finds the answer, not a broken connection.
func TestAnswerBeforeTheRequestsEnd(t *testing.T) {
	r := newRig(t, nil)
	c := dial(t, r.address)
	c.send("POST /ok HTTP/1.1\r\nhost: h\r\nx-name: A\r\nx-do: rh reply 401 no\r\ncontent-length: 1000000\r\n\r\n")
	r.end("A")
	for range 10 {
		c.send(strings.Repeat("x", 1000))
	}
	a := c.answer("POST")
	if a.status != 401 || a.body != "no" || a.err != nil {
		t.Errorf("got %+v", a)
	}
	if _, err := c.r.ReadByte(); err == nil {
		t.Error("the connection goes on, in the middle of a request")
	}
}

func TestConnectionsGetWorkersInTurn(t *testing.T) {
	r := newRig(t, func(c *Config, _ *ProxyOptions) { c.Workers = 3 })
	seen := map[int]int{}
	for range 6 {
		r.do("GET", "/ok", "A", "", "")
		seen[r.record().Worker]++
	}
	if len(seen) != 3 || seen[0] != 2 {
		t.Errorf("requests by worker: %v", seen)
	}
	c := &http.Client{Transport: &http.Transport{}}
	defer c.CloseIdleConnections()
	var first int
	for i := range 3 {
		r.doWith(c, "GET", "/ok", "A", "", "")
		if w := r.record().Worker; i == 0 {
			first = w
		} else if w != first {
			t.Error("a connection changed its worker")
		}
	}
}

// As a plain handler in somebody's server it works too.
func TestProxyAsHandler(t *testing.T) {
	r := newRig(t, func(c *Config, _ *ProxyOptions) { c.Workers = 2 })
	addr := newHTTP(t, r.proxy.ServeHTTP)
	resp, err := http.Get("http://" + addr + "/ok")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if b, _ := io.ReadAll(resp.Body); string(b) != "hello" {
		t.Errorf("got %q", b)
	}
}

func TestUpgradeIsRefused(t *testing.T) {
	r := newRig(t, nil)
	c := dial(t, r.address)
	c.send("GET /ok HTTP/1.1\r\nhost: h\r\nconnection: upgrade\r\nupgrade: websocket\r\n\r\n")
	if a := c.answer("GET"); a.status != 403 || a.body != "" {
		t.Errorf("got %+v", a)
	}
	if rec := r.record(); rec.Details != "upgrade_failed" {
		t.Errorf("details %q", rec.Details)
	}
	if len(r.up.requests("/ok")) != 0 {
		t.Error("the server was asked")
	}
}

// Shutdown lets an open stream end; when its patience ends the stream is cut.
func TestShutdown(t *testing.T) {
	for _, patient := range []bool{true, false} {
		t.Run(fmt.Sprintf("patient=%v", patient), func(t *testing.T) {
			r := newRig(t, nil)
			release := r.up.hold("/sse")
			got := make(chan answer, 1)
			go func() { got <- r.do("POST", "/sse", "A", "", "x") }()
			r.book.wait(t, "A sb", threeEvents)
			ctx, cancel := context.WithCancel(context.Background())
			stopped := make(chan error, 1)
			go func() { stopped <- r.proxy.Shutdown(ctx) }()
			if patient {
				release()
			} else {
				cancel()
				defer release()
			}
			a, err := <-got, <-stopped
			cancel()
			if patient && (a.err != nil || a.body != "ev000ev001ev002" || err != nil) {
				t.Errorf("got %+v, %v", a, err)
			}
			if !patient && (a.err == nil || !errors.Is(err, context.Canceled)) {
				t.Errorf("got %+v, %v", a, err)
			}
			r.end("A")
		})
	}
}

func mustURL(raw string) *url.URL {
	u, err := url.Parse(raw)
	if err != nil {
		panic(err)
	}
	return u
}

func newHTTP(t testing.TB, f http.HandlerFunc) (address string) {
	l := listen(t)
	s := &http.Server{Handler: f}
	go s.Serve(l)
	t.Cleanup(func() { s.Close() })
	return l.Addr().String()
}

func TestPickOutOfRange(t *testing.T) {
	r := newRig(t, func(_ *Config, o *ProxyOptions) { o.Pick = func(*http.Request) int { return 7 } })
	if a := r.do("GET", "/ok", "A", "", ""); a.status != 500 || !strings.Contains(a.body, "worker 7 of 1") {
		t.Errorf("got %+v", a)
	}
}

// A response that the filter makes longer than it says is cut, and the log says why.
func TestResponseLongerThanItSays(t *testing.T) {
	r := newRig(t, nil)
	a := r.do("POST", "/ok", "A", "sb sreplace muchlongerthanfive", "x")
	if a.err == nil {
		t.Errorf("got %+v", a)
	}
	if rec := r.record(); rec.Details != "via_upstream" && rec.Details != "response_longer_than_content_length" {
		t.Errorf("details %q", rec.Details)
	}
}

// The access log has what the module sets in proxy_on_log, the last callback before Envoy's is written.
func TestRecordFollowsOnLog(t *testing.T) {
	r := newRig(t, func(*Config, *ProxyOptions) {})
	r.do("GET", "/ok", "A", "rh setprop early yes; done setprop late yes", "")
	if got := r.record().FilterState; got["early"] != "yes" || got["late"] != "yes" {
		t.Errorf("the record has %v, want early and late", got)
	}
}
