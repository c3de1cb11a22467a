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
	"syscall"
	"testing"
	"time"

	"github.com/callonce/callonce/hostsim/internal/upstream"
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

// buildWasm compiles the filter in a folder, which may be a module of its own.
func buildWasm(folder, out string, more ...string) error {
	cmd := exec.Command("go", append(append([]string{"build", "-ldflags=-s -w", "-o", out}, more...), ".")...)
	cmd.Dir, cmd.Env = folder, append(os.Environ(), "GOOS=wasip1", "GOARCH=wasm", "CGO_ENABLED=0")
	if b, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("build %s: %v\n%s", folder, err, b)
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
	up      *testServer
	served  chan error
}

func newRig(t *testing.T, change func(*Config, *ProxyOptions)) *rig {
	t.Helper()
	r := &rig{t: t, book: newBook(), records: make(chan Record, 10000), up: newUpstream(t), served: make(chan error, 1)}
	c := Config{Wasm: probeWasm, CacheDir: cacheDir, HoldHeaders: true, VMID: "vmid", PluginName: "probe", RootID: "rootid",
		PluginConfig: []byte("start register probe\n"),
		Clusters: map[string]string{"up": "http://" + r.up.address, "dead": "http://" + deadAddress(t),
			"grpc": "h2c://" + newGrpcUpstream(t), "deadgrpc": "h2c://" + deadAddress(t)},
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

func listen(t testing.TB) net.Listener {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// freeAddress is one where nobody listens yet.
func freeAddress(t *testing.T) string {
	l := listen(t)
	defer l.Close()
	return l.Addr().String()
}

// deadAddress is one where nobody listens, and nobody comes to for as long as the test runs: its port is taken.
func deadAddress(t *testing.T) string {
	t.Helper()
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM, 0)
	if err != nil {
		t.Fatal(err)
	}
	syscall.CloseOnExec(fd)
	t.Cleanup(func() { syscall.Close(fd) })
	if err := syscall.Bind(fd, &syscall.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		t.Fatal(err)
	}
	at, err := syscall.Getsockname(fd)
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprint("127.0.0.1:", at.(*syscall.SockaddrInet4).Port)
}

// answer is what a client got: a status, headers and a body, perhaps cut short.
type answer struct {
	status int
	header http.Header
	body   string
	err    error
	closes bool // the response says so
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
	return answer{resp.StatusCode, resp.Header, string(b), err, resp.Close}
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
	return answer{resp.StatusCode, resp.Header, b.String(), err, resp.Close}
}

// pickByHeader lets a test choose the worker of each request.
func pickByHeader(r *http.Request) int {
	n := 0
	fmt.Sscan(r.Header.Get("x-worker"), &n)
	return n
}

// sendTo puts another server behind the proxy.
func (r *rig) sendTo(address string) {
	r.proxy.pool.Close()
	r.proxy.pool = upstream.NewPool(&url.URL{Scheme: "http", Host: address}, r.proxy.opts.ConnectTimeout, r.host.config.BufferLimit, r.proxy.opts.Trailers)
}
