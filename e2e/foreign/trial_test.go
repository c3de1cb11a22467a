package foreign

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/callonce/callonce/hostsim"
	"github.com/callonce/callonce/hostsim/hosttest"
)

// patience bounds every wait. It is long because the machine may be busy; nothing waits for it to pass.
const patience = 20 * time.Second

// trial is a module at work: what it logged, and what reached the server behind it.
type trial struct {
	*hosttest.Front
	t testing.TB

	mu       sync.Mutex
	lines    []string
	received []request
}

// request is what reached the server.
type request struct {
	path   string
	header http.Header
	body   string
}

// try starts a module. The server behind it answers "hello", and /secret with "a secret".
func try(t *testing.T, code []byte, change func(*hostsim.Config)) *trial {
	t.Helper()
	tr := &trial{t: t}
	c := hostsim.Config{Wasm: code, HoldHeaders: true, Log: func(worker int, level hostsim.LogLevel, msg string) {
		tr.mu.Lock()
		tr.lines = append(tr.lines, fmt.Sprintf("worker=%d %s: %s", worker, level, msg))
		tr.mu.Unlock()
	}}
	if change != nil {
		change(&c)
	}
	tr.Front = hosttest.Start(t, c, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b, err := io.ReadAll(r.Body)
		if err != nil {
			t.Errorf("the server: %v", err)
		}
		tr.mu.Lock()
		tr.received = append(tr.received, request{r.URL.Path, r.Header, string(b)})
		tr.mu.Unlock()
		if r.URL.Path == "/secret" {
			io.WriteString(w, "a secret")
			return
		}
		io.WriteString(w, "hello")
	}))
	return tr
}

// logged are the lines so far.
func (tr *trial) logged() []string {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	return slices.Clone(tr.lines)
}

// says waits for the module to log a text, and ticks meanwhile.
func (tr *trial) says(text string) {
	tr.t.Helper()
	for deadline := time.Now().Add(patience); ; time.Sleep(10 * time.Millisecond) {
		tr.Host.Tick()
		lines := tr.logged()
		if slices.ContainsFunc(lines, func(l string) bool { return strings.Contains(l, text) }) {
			return
		}
		if time.Now().After(deadline) {
			tr.t.Fatalf("want %q logged, got\n%s", text, strings.Join(lines, "\n"))
		}
	}
}

// reached are the requests that came to the server for a path.
func (tr *trial) reached(path string) (found []request) {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	for _, r := range tr.received {
		if r.path == path {
			found = append(found, r)
		}
	}
	return found
}

// expect sends a request and compares the answer; header is the response's, name, value, ….
func (tr *trial) expect(method, path, body string, sent []string, status int, answer string, header ...string) {
	tr.t.Helper()
	resp, got := tr.Send(method, path, body, sent...)
	if resp.StatusCode != status || got != answer {
		tr.t.Errorf("%s %s: want %d %q, got %d %q", method, path, status, answer, resp.StatusCode, got)
	}
	for i := 0; i+1 < len(header); i += 2 {
		if h := resp.Header.Get(header[i]); h != header[i+1] {
			tr.t.Errorf("%s %s: want the header %s: %q, got %q", method, path, header[i], header[i+1], h)
		}
	}
}

// refusesByItself asks for what the filters written here answer in the server's place.
func (tr *trial) refusesByItself(body, by string) {
	tr.t.Helper()
	tr.expect("GET", "/denied", "", nil, 403, body, "x-by", by)
	if n := len(tr.reached("/denied")); n != 0 {
		tr.t.Errorf("what the module answered reached the server %d times", n)
	}
}

// cluster is a server for a module's own calls, all of which it answers with body.
func cluster(t *testing.T, body string) (url string) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, body) }))
	t.Cleanup(server.Close)
	return server.URL
}

// compile runs a compiler in a folder and ends the test, with what it printed, where that fails.
func compile(t *testing.T, dir string, env []string, command ...string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), command[0], command[1:]...)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), env...)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %v\n%s", cmd.Args, err, out)
	}
}

func read(t *testing.T, file string) []byte {
	t.Helper()
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return b
}
