package hostsim

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// patience bounds every wait of the tests. It is long because the machine may be busy; nothing waits for it to pass.
const patience = 20 * time.Second

var (
	probeWasm []byte
	probePath string
	cacheDir  string
)

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "hostsim")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	cacheDir = filepath.Join(dir, "cache")
	probePath = filepath.Join(dir, "probe.wasm")
	if err := buildWasm("./testdata/probe", probePath, "-buildmode=c-shared"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	if probeWasm, err = os.ReadFile(probePath); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	code := m.Run()
	os.RemoveAll(dir)
	os.Exit(code)
}

func buildWasm(pkg, out string, more ...string) error {
	cmd := exec.Command("go", append(append([]string{"build", "-ldflags=-s -w", "-o", out}, more...), pkg)...)
	cmd.Env = append(os.Environ(), "GOOS=wasip1", "GOARCH=wasm", "CGO_ENABLED=0")
	if b, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("build %s: %v\n%s", pkg, err, b)
	}
	return nil
}

// book collects what the probe says.
type book struct {
	mu    sync.Mutex
	lines []string
	more  chan struct{}
}

func newBook() *book { return &book{more: make(chan struct{})} }

func (b *book) add(line string) {
	b.mu.Lock()
	b.lines = append(b.lines, line)
	close(b.more)
	b.more = make(chan struct{})
	b.mu.Unlock()
}

// all returns the lines that begin with prefix, without it.
func (b *book) all(prefix string) []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	var out []string
	for _, l := range b.lines {
		if rest, ok := strings.CutPrefix(l, prefix); ok {
			out = append(out, rest)
		}
	}
	return out
}

// wait returns when done holds of the lines that begin with prefix.
func (b *book) wait(t *testing.T, prefix string, done func([]string) bool) []string {
	t.Helper()
	timeout := time.After(patience)
	for {
		b.mu.Lock()
		more := b.more
		b.mu.Unlock()
		got := b.all(prefix)
		if done(got) {
			return got
		}
		select {
		case <-more:
		case <-timeout:
			t.Fatalf("the probe's lines beginning with %q never came to that; they are:\n%s", prefix, strings.Join(got, "\n"))
		}
	}
}

// bytesSeen adds up the sizes of the body callbacks among the lines.
func bytesSeen(lines []string) int {
	total := 0
	for _, l := range lines {
		n := 0
		if _, rest, ok := strings.Cut(l, "size="); ok {
			fmt.Sscan(rest, &n)
		}
		total += n
	}
	return total
}

func threeEvents(lines []string) bool { return bytesSeen(lines) == len("ev000ev001ev002") }

func streamEnded(lines []string) bool { return hasPrefix(lines, "done details") }

func hasPrefix(lines []string, prefix string) bool {
	for _, l := range lines {
		if strings.HasPrefix(l, prefix) {
			return true
		}
	}
	return false
}

// rig is a host with the probe, a proxy on it, and an upstream.
type rig struct {
	t       *testing.T
	host    *Host
	proxy   *Proxy
	address string
	book    *book
	records chan Record
	up      *upstream
	served  chan error
}

func newRig(t *testing.T, change func(*Config, *ProxyOptions)) *rig {
	t.Helper()
	r := &rig{t: t, book: newBook(), records: make(chan Record, 10000), up: newUpstream(t), served: make(chan error, 1)}
	c := Config{Wasm: probeWasm, CacheDir: cacheDir, HoldHeaders: true, VMID: "vmid", PluginName: "probe", RootID: "rootid",
		PluginConfig: []byte("start register probe\n"),
		Clusters:     map[string]string{"up": "http://" + r.up.address, "dead": "http://" + deadAddress(t)},
		Log: func(worker int, level LogLevel, msg string) {
			if text, ok := strings.CutPrefix(msg, "probe: "); ok {
				r.book.add(text)
			} else {
				r.book.add(fmt.Sprintf("log worker=%d %s: %s", worker, level, msg))
			}
		}}
	o := ProxyOptions{AccessLog: func(rec Record) { r.records <- rec }}
	if change != nil {
		change(&c, &o)
	}
	h, err := New(context.Background(), c)
	if err != nil {
		t.Fatal(err)
	}
	r.host = h
	r.proxy = NewProxy(h, &url.URL{Scheme: "http", Host: r.up.address}, o)
	l := listen(t)
	r.address = l.Addr().String()
	go func() { r.served <- r.proxy.Serve(l) }()
	t.Cleanup(func() {
		r.proxy.Close()
		r.host.Close()
		if err := <-r.served; err != nil {
			t.Error(err)
		}
	})
	return r
}

func listen(t *testing.T) net.Listener {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// deadAddress is one where nobody listens.
func deadAddress(t *testing.T) string {
	l := listen(t)
	defer l.Close()
	return l.Addr().String()
}

// answer is what a client got: a status, headers and a body, perhaps cut short.
type answer struct {
	status int
	header http.Header
	body   string
	err    error
}

// do sends one request with a plan on a connection of its own.
func (r *rig) do(method, path, name, plan, body string, header ...string) answer {
	r.t.Helper()
	return r.doWith(&http.Client{Transport: &http.Transport{DisableKeepAlives: true, DisableCompression: true}}, method, path, name, plan, body, header...)
}

func (r *rig) doWith(c *http.Client, method, path, name, plan, body string, header ...string) answer {
	req := r.request(context.Background(), method, path, name, plan, body, header...)
	resp, err := c.Do(req)
	if err != nil {
		return answer{err: err}
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	return answer{resp.StatusCode, resp.Header, string(b), err}
}

func (r *rig) request(ctx context.Context, method, path, name, plan, body string, header ...string) *http.Request {
	r.t.Helper()
	var rd io.Reader
	if body != "" {
		rd = strings.NewReader(body)
	}
	req, err := http.NewRequestWithContext(ctx, method, "http://"+r.address+path, rd)
	if err != nil {
		r.t.Fatal(err)
	}
	req.Header.Set("x-name", name)
	req.Header.Set("x-do", plan)
	for i := 0; i+1 < len(header); i += 2 {
		req.Header.Add(header[i], header[i+1])
	}
	return req
}

// end waits for the end of the stream of that name and returns its lines.
func (r *rig) end(name string) []string {
	r.t.Helper()
	r.book.wait(r.t, name+" ", streamEnded)
	r.host.Wait()
	return r.book.all(name + " ")
}

// record waits for the next line of the access log.
func (r *rig) record() Record {
	r.t.Helper()
	select {
	case rec := <-r.records:
		return rec
	case <-time.After(patience):
		r.t.Fatal("no access log record")
	}
	panic("unreachable")
}

// upstream is a server whose path says what it does. It works below net/http, so as to misbehave.
type upstream struct {
	address string
	mu      sync.Mutex
	got     []received
	// gates hold a response back until they are closed.
	gates map[string]chan struct{}
	// acks say that a client, by the name of its request, has received something.
	acks map[string]chan struct{}
}

// ack is told by a client of whatever it receives, so that the next piece follows only then.
func (u *upstream) ack(name string) chan struct{} {
	u.mu.Lock()
	defer u.mu.Unlock()
	c := u.acks[name]
	if c == nil {
		c = make(chan struct{}, 100)
		u.acks[name] = c
	}
	return c
}

type received struct {
	method, path string
	header       http.Header
	body         string
}

func newUpstream(t *testing.T) *upstream {
	l := listen(t)
	u := &upstream{address: l.Addr().String(), gates: map[string]chan struct{}{}, acks: map[string]chan struct{}{}}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go u.serve(c)
		}
	}()
	return u
}

// hold makes requests for path wait until release is called.
func (u *upstream) hold(path string) (release func()) {
	gate := make(chan struct{})
	u.mu.Lock()
	u.gates[path] = gate
	u.mu.Unlock()
	return sync.OnceFunc(func() { close(gate) })
}

func (u *upstream) requests(path string) []received {
	u.mu.Lock()
	defer u.mu.Unlock()
	var out []received
	for _, r := range u.got {
		if r.path == path {
			out = append(out, r)
		}
	}
	return out
}

func (u *upstream) serve(c net.Conn) {
	defer c.Close()
	r := bufio.NewReader(c)
	for {
		req, err := http.ReadRequest(r)
		if err != nil {
			return
		}
		body, err := io.ReadAll(req.Body)
		if err != nil {
			return
		}
		u.mu.Lock()
		u.got = append(u.got, received{req.Method, req.URL.Path, req.Header, string(body)})
		gate := u.gates[req.URL.Path]
		u.mu.Unlock()
		if !u.respond(c, req.URL.Path, gate, u.ack(req.Header.Get("x-name"))) {
			return
		}
	}
}

const chunkedHead = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"

// respond answers, and says whether the connection lives on.
func (u *upstream) respond(c net.Conn, path string, gate, ack chan struct{}) bool {
	write := func(s string) { io.WriteString(c, s) }
	// A pause ends when the client has the piece; if it tells nothing, or gets nothing, after a while.
	pause := func() {
		select {
		case <-ack:
		case <-time.After(200 * time.Millisecond):
		}
	}
	wait := func() {
		if gate != nil {
			<-gate
		}
	}
	reset := func() { c.(*net.TCPConn).SetLinger(0) }
	switch path {
	case "/ok", "/again":
		wait()
		write("HTTP/1.1 200 OK\r\nContent-Length: 5\r\nX-Up: a\r\nX-Up: b\r\n\r\nhello")
	case "/chunks", "/sse":
		write(chunkedHead)
		for i := range 3 {
			write(fmt.Sprintf("5\r\nev%03d\r\n", i))
			pause()
		}
		wait()
		write("0\r\n\r\n")
	case "/endless":
		write(chunkedHead)
		for i := 0; ; i++ {
			if _, err := fmt.Fprintf(c, "5\r\nev%03d\r\n", i%1000); err != nil {
				return false
			}
			pause()
		}
	case "/empty":
		write("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
	case "/204":
		write("HTTP/1.1 204 No Content\r\n\r\n")
	case "/503":
		write("HTTP/1.1 503 Service Unavailable\r\nContent-Length: 4\r\n\r\nnope")
	case "/interim":
		write("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello")
	case "/trailers":
		write("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\nx-t: v\r\n\r\n")
	case "/untilclose":
		write("HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nhello")
		return false
	case "/never":
		if gate == nil {
			gate = make(chan struct{})
		}
		readerGone := make(chan struct{})
		go func() { c.Read(make([]byte, 1)); close(readerGone) }()
		select {
		case <-gate:
		case <-readerGone:
		}
		return false
	case "/close":
		return false
	case "/closelater":
		write("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello")
		wait()
		return false
	case "/reset":
		reset()
		return false
	case "/garbage":
		write("BLAH\r\n\r\n")
		return false
	case "/parthead":
		write("HTTP/1.1 200 OK\r\nConte")
		return false
	case "/headcut":
		write("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n")
		pause()
		return false
	case "/cutchunk":
		write(chunkedHead + "5\r\nhello\r\n")
		pause()
		return false
	case "/cutlength":
		write("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhello")
		pause()
		return false
	case "/cutreset":
		write(chunkedHead + "5\r\nhello\r\n")
		pause()
		reset()
		return false
	default:
		write("HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n")
	}
	return true
}

// rawConn is a client that writes bytes as told.
type rawConn struct {
	net.Conn
	t        *testing.T
	r        *bufio.Reader
	received func() // is told of each piece of a body
}

func dial(t *testing.T, address string) *rawConn {
	t.Helper()
	c, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	c.SetDeadline(time.Now().Add(patience))
	return &rawConn{Conn: c, t: t, r: bufio.NewReader(c)}
}

func (c *rawConn) send(s string) {
	c.t.Helper()
	if _, err := io.WriteString(c, s); err != nil {
		c.t.Fatal(err)
	}
}

// answer reads one response, as far as it goes.
func (c *rawConn) answer(method string) answer {
	resp, err := http.ReadResponse(c.r, &http.Request{Method: method})
	if err != nil {
		return answer{err: err}
	}
	var b bytes.Buffer
	buf := make([]byte, 32<<10)
	for err == nil {
		var n int
		if n, err = resp.Body.Read(buf); n > 0 && c.received != nil {
			c.received()
		}
		b.Write(buf[:n])
	}
	if err == io.EOF {
		err = nil
	}
	return answer{resp.StatusCode, resp.Header, b.String(), err}
}

// pickByHeader lets a test choose the worker of each request.
func pickByHeader(r *http.Request) int {
	n := 0
	fmt.Sscan(r.Header.Get("x-worker"), &n)
	return n
}
