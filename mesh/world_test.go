package mesh_test

import (
	"bufio"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/registry"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
	"sigs.k8s.io/yaml"

	"github.com/callonce/callonce/e2e/child"
	"github.com/callonce/callonce/image"
)

// Where everything is, in the network of the tests.
const (
	gatewayIP  = "127.0.0.2"
	serverIP   = "127.0.0.3"
	registryIP = "127.0.0.4"
	issuerIP   = "127.0.0.5"
	modulesIP  = "127.0.0.6"
	serverAt   = serverIP + ":8080"
	apiAt      = "127.0.0.1:6443"
	imageName  = "registry.example.com/callonce:0.1.0" // as in the manifests
	moduleURL  = "http://modules.example.com:8000/callonce.wasm"
	faultyURL  = "http://modules.example.com:8000/faulty.wasm"
)

const patience = 2 * time.Minute

type object = map[string]any

// in is what stands at a path of names and indices, nil where nothing does.
func in(node any, path ...any) any {
	for _, step := range path {
		switch step := step.(type) {
		case string:
			m, _ := node.(map[string]any)
			node = m[step]
		case int:
			l, _ := node.([]any)
			if step >= len(l) {
				return nil
			}
			node = l[step]
		}
	}
	return node
}

func eventually(t *testing.T, what string, is func() error) {
	t.Helper()
	var err error
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		if err = is(); err == nil {
			return
		}
	}
	t.Fatalf("%s: not after %v: %v", what, patience, err)
}

// arrival is a request as the server saw it.
type arrival struct {
	method, path string
	header       http.Header
	whole        bool // its body came to its end
	order        string
}

// server stands for an MCP server: each tools/call that arrives whole is a run of its argument `order`.
type server struct {
	mu       sync.Mutex
	arrivals []*arrival
	runs     map[string]int
}

func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	a := &arrival{method: r.Method, path: r.URL.EscapedPath(), header: r.Header.Clone()}
	s.mu.Lock()
	s.arrivals = append(s.arrivals, a)
	s.mu.Unlock()
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	var m struct {
		ID     json.RawMessage
		Method string
		Params struct {
			Name      string
			Arguments struct{ Order string }
		}
	}
	s.mu.Lock()
	a.whole = true
	if json.Unmarshal(body, &m) == nil && m.Method == "tools/call" {
		a.order = m.Params.Arguments.Order
		s.runs[a.order]++
	}
	n := s.runs[a.order]
	s.mu.Unlock()
	if m.Method == "" {
		io.WriteString(w, "no call\n")
		return
	}
	w.Header().Set("Content-Type", "application/json")
	if m.Params.Name == "callonce_doctor_probe" {
		fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"error":{"code":-32602,"message":"unknown tool"}}`, m.ID)
		return
	}
	fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":{"content":[{"type":"text","text":"run %d of %s"}]}}`, m.ID, n, a.order)
}

// take gives what has arrived since it was last asked.
func (s *server) take() []*arrival {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := s.arrivals
	s.arrivals = nil
	return all
}

func (s *server) ran(order string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.runs[order]
}

// listen serves at an address, and over TLS where a name is given for the certificate.
func listen(t *testing.T, at string, h http.Handler, names ...string) {
	t.Helper()
	l, err := net.Listen("tcp", at)
	if err != nil {
		t.Fatal(err)
	}
	if len(names) > 0 {
		l = tls.NewListener(l, &tls.Config{Certificates: []tls.Certificate{authority.issue(t, names...)}})
	}
	s := &http.Server{Handler: h, ErrorLog: log.New(io.Discard, "", 0)}
	done := make(chan struct{})
	go func() { defer close(done); _ = s.Serve(l) }() // ends with http.ErrServerClosed
	t.Cleanup(func() { s.Close(); <-done })
}

// startServer starts the MCP server. At the end of the test no order of it may have run twice.
func startServer(t *testing.T) *server {
	t.Helper()
	s := &server{runs: map[string]int{}}
	listen(t, serverAt, s)
	t.Cleanup(func() {
		for order, n := range s.runs {
			if n > 1 && order != "" && !strings.HasPrefix(order, "unguarded") && !strings.HasPrefix(order, "forgotten") {
				t.Errorf("order %s ran %d times", order, n)
			}
		}
	})
	return s
}

// bundle is the image, made once of the project as it is.
var bundle = sync.OnceValues(func() (made struct {
	wasm []byte
	*image.Bundle
}, err error) {
	var goVersion string
	if made.wasm, goVersion, err = image.Build(".."); err != nil {
		return made, err
	}
	made.Bundle, err = image.Pack(made.wasm, image.Release{Version: "0.1.0", Go: goVersion})
	return made, err
})

// startRegistry starts a registry with the image, and beside it a server of the module itself.
func startRegistry(t *testing.T) {
	t.Helper()
	b, err := bundle()
	if err != nil {
		t.Fatal(err)
	}
	listen(t, registryIP+":443", registry.New(registry.Logger(log.New(io.Discard, "", 0)), registry.WithReferrersSupport(true)), "registry.example.com")
	if err := b.Push(imageName); err != nil {
		t.Fatal(err)
	}
	listen(t, modulesIP+":8000", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/callonce.wasm" {
			w.Write(b.wasm)
			return
		}
		module, err := faulty()
		if err != nil {
			t.Error(err)
		}
		w.Write(module)
	}))
}

// faulty is the module with faults that callers order (plugin/internal/abi/faults_wasip1.go).
var faulty = sync.OnceValues(func() ([]byte, error) {
	dir, err := os.MkdirTemp("", "callonce-faulty-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	file := filepath.Join(dir, "faulty.wasm")
	cmd := exec.Command("go", "build", "-tags=faults", "-trimpath", "-buildmode=c-shared", "-ldflags=-s -w", "-o", file, "./plugin")
	cmd.Dir, cmd.Env = "..", append(os.Environ(), "GOOS=wasip1", "GOARCH=wasm")
	if text, err := cmd.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("%v: %w\n%s", cmd.Args, err, text)
	}
	return os.ReadFile(file)
})

// manifests are the objects of a folder below envoy/, built as kubectl builds them, and otherwise as they are.
func manifests(t *testing.T, folder string) []object {
	t.Helper()
	all, err := kustomized(filepath.Join("..", "envoy", folder))
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func kustomized(folder string) ([]object, error) {
	built, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(filesys.MakeFsOnDisk(), folder)
	if err != nil {
		return nil, err
	}
	var all []object
	for _, r := range built.Resources() {
		text, err := r.AsYAML()
		if err != nil {
			return nil, err
		}
		var o object
		if err := yaml.Unmarshal(text, &o); err != nil {
			return nil, err
		}
		all = append(all, o)
	}
	return all, nil
}

// find is the object of a kind.
func find(t *testing.T, all []object, kind string) object {
	t.Helper()
	for _, o := range all {
		if o["kind"] == kind {
			return o
		}
	}
	t.Fatalf("no %s in it", kind)
	return nil
}

// run starts a program in a folder, with an environment of its own.
func run(t *testing.T, name, dir string, environment []string, program string, args ...string) *child.Process {
	t.Helper()
	cmd := exec.Command(program, args...)
	cmd.Dir = dir
	cmd.Env = append([]string{"PATH=" + os.Getenv("PATH"), "HOME=" + cmd.Dir, "TMPDIR=" + os.TempDir()}, environment...)
	p, err := child.Start(name, cmd, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		p.Stop()
		if t.Failed() {
			if os.Getenv("CALLONCE_MESH_QUIET") != "" {
				return
			}
			var printed strings.Builder
			for line := range strings.Lines(p.Output()) {
				if !strings.HasPrefix(line, "{") { // the access log
					printed.WriteString(line)
				}
			}
			text := printed.String()
			t.Logf("%s printed:\n%s", name, text[max(0, len(text)-8000):])
		}
	})
	return p
}

func await(t *testing.T, p *child.Process, ready func() error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	if err := p.Await(ctx, ready); err != nil {
		t.Fatal(err)
	}
}

func ok(url string) func() error {
	return func() error {
		resp, err := http.Get(url)
		if err != nil {
			return err
		}
		resp.Body.Close()
		if resp.StatusCode != 200 {
			return errors.New(url + ": " + resp.Status)
		}
		return nil
	}
}

// get is what an URL answers, decoded where into is not nil.
func get(t *testing.T, url string, into any) string {
	t.Helper()
	text, err := fetch(url)
	if err == nil && into != nil {
		err = json.Unmarshal([]byte(text), into)
	}
	if err != nil {
		t.Fatalf("%s: %v", url, err)
	}
	return text
}

func fetch(url string) (string, error) {
	resp, err := http.Get(url)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode != 200 {
		err = errors.New(resp.Status)
	}
	return string(text), err
}

// reply is what a caller got.
type reply struct {
	status   int
	header   http.Header
	body     string
	replayed bool
}

func (r reply) String() string {
	return fmt.Sprintf("%d replayed=%v %.300s", r.status, r.replayed, r.body)
}

// mesh is a way to the server through a mesh, as a caller sees it.
type mesh struct {
	dial   func() (net.Conn, error)
	server *server
	admin  string // URL of Envoy's admin interface
}

func plain(address string) func() (net.Conn, error) {
	return func() (net.Conn, error) { return net.DialTimeout("tcp", address, 5*time.Second) }
}

func (m *mesh) send(t *testing.T, method, path, body string, header ...string) reply {
	t.Helper()
	r, err := m.try(method, path, body, header...)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// try writes a request with its path as it is spelled: http.Client would tidy it up, and repeat what carries a key.
func (m *mesh) try(method, path, body string, header ...string) (reply, error) {
	conn, err := m.dial()
	if err != nil {
		return reply{}, err
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(patience)); err != nil {
		return reply{}, err
	}
	h := http.Header{"Host": {"mcp.example.com"}, "Content-Type": {"application/json"}, "Accept": {"application/json, text/event-stream"}, "Content-Length": {fmt.Sprint(len(body))}}
	for i := 0; i < len(header); i += 2 {
		h.Set(header[i], header[i+1])
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s HTTP/1.1\r\n", method, path)
	_ = h.Write(&b) // to memory
	b.WriteString("\r\n" + body)
	// A refusal may come, and the connection end, before all is written.
	_, sent := io.WriteString(conn, b.String())
	resp, err := http.ReadResponse(bufio.NewReader(conn), &http.Request{Method: method})
	if err != nil {
		return reply{}, errors.Join(err, sent)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	return reply{resp.StatusCode, resp.Header, string(text), resp.Header.Get("Idempotency-Replayed") == "true"}, err
}

func toolCall(tool, order string) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":%q,"arguments":{"order":%q,"amount_cents":1200}}}`, tool, order)
}

// charge calls the tool once, under a key that is the order's name.
func (m *mesh) charge(t *testing.T, order string, header ...string) reply {
	t.Helper()
	return m.send(t, "POST", "/mcp", toolCall("charge", order), append([]string{"Idempotency-Key", order}, header...)...)
}

// guards sends an order twice, and demands one run and its replay.
func (m *mesh) guards(t *testing.T, order string, header ...string) {
	t.Helper()
	first := m.charge(t, order, header...)
	again := m.charge(t, order, header...)
	if first.status != 200 || first.replayed || again.status != 200 || !again.replayed || first.body != again.body || m.server.ran(order) != 1 {
		t.Errorf("order %s: want one run and its replay, got %d runs: %v, then %v", order, m.server.ran(order), first, again)
	}
}

// guarding waits until a guard stands: a required tool without a key is refused by it.
func (m *mesh) guarding() error {
	r, err := m.try("POST", "/mcp", toolCall("refund", "unguarded-probe"))
	if err != nil {
		return err
	}
	if !strings.Contains(r.body, `"idempotency_key_required"`) {
		return errors.New(r.String())
	}
	return nil
}
