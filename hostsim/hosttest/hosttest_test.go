package hosttest

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/callonce/callonce/hostsim"
)

// ended is a test of a test: what it would have ended with.
type ended struct {
	testing.TB
	with string
}

// logged is a test whose log is looked at.
type logged struct {
	testing.TB
	mu     sync.Mutex
	lines  []string
	errors []string
}

func (l *logged) Errorf(format string, args ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.errors = append(l.errors, fmt.Sprintf(format, args...))
}

func (e *ended) Fatal(args ...any) { e.end(fmt.Sprint(args...)) }

func (e *ended) Fatalf(format string, args ...any) { e.end(fmt.Sprintf(format, args...)) }

func (e *ended) end(with string) {
	e.with = with
	runtime.Goexit()
}

// endOf runs what ought to end a test, and returns what it says then.
func endOf(t *testing.T, run func(testing.TB)) string {
	e := &ended{TB: t}
	done := make(chan struct{})
	go func() {
		defer close(done)
		run(e)
	}()
	<-done
	return e.with
}

func TestWhatEndsATest(t *testing.T) {
	broken := t.TempDir()
	for name, text := range map[string]string{"go.mod": "module broken\n", "main.go": "package main\n\nfunc main() { undeclared() }\n"} {
		if err := os.WriteFile(filepath.Join(broken, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	probe := Build(t, "../testdata/probe")
	for name, c := range map[string]struct {
		run  func(testing.TB)
		want []string
	}{
		"a filter that does not compile": {
			func(t testing.TB) { Build(t, broken) },
			[]string{broken, "main.go:3", "undeclared"},
		},
		"no module": {
			func(t testing.TB) { Start(t, hostsim.Config{}, http.NotFoundHandler()) },
			[]string{"Config.Wasm is empty"},
		},
		"a configuration that the filter refuses": {
			func(t testing.TB) {
				Start(t, hostsim.Config{Wasm: probe, PluginConfig: []byte("start refuse it\n")}, http.NotFoundHandler())
			},
			[]string{"plugin start refused by the module", "probe: start"},
		},
		"options twice": {
			func(t testing.TB) {
				Start(t, hostsim.Config{Wasm: probe}, http.NotFoundHandler(), hostsim.ProxyOptions{}, hostsim.ProxyOptions{})
			},
			[]string{"want the proxy's options once"},
		},
		"half an answer": {
			func(t testing.TB) {
				Start(t, hostsim.Config{Wasm: probe}, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
					w.Header().Set("content-length", "5")
					io.WriteString(w, "ha")
					http.NewResponseController(w).Flush()
					panic(http.ErrAbortHandler)
				})).Send("GET", "/half", "")
			},
			[]string{"GET /half: unexpected EOF"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			got := endOf(t, c.run)
			for _, want := range c.want {
				if !strings.Contains(got, want) {
					t.Errorf("want %q in %q", want, got)
				}
			}
		})
	}
}

// What a client sends reaches the server, and what that answers the client, each request by another worker.
func TestSendAndTurns(t *testing.T) {
	server := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		w.Header().Set("location", "/elsewhere")
		w.WriteHeader(302)
		fmt.Fprintf(w, "%s %s %v %s", r.Method, r.URL, r.Header["X-Two"], b)
	})
	var workers []int
	config := hostsim.Config{Wasm: Build(t, "../testdata/probe"), Workers: 3, Log: func(worker int, _ hostsim.LogLevel, msg string) {
		if strings.Contains(msg, "rh end=") {
			workers = append(workers, worker)
		}
	}}
	front := Start(t, config, server)
	for range 4 {
		resp, body := front.Send("PUT", "/a?b", "text", "x-two", "1", "x-two", "2", "x-name", "n")
		if want := "PUT /a?b [1 2] text"; resp.StatusCode != 302 || body != want {
			t.Errorf("want 302 %q, got %d %q", want, resp.StatusCode, body)
		}
	}
	front.Host.Wait()
	if want := "[0 1 2 0]"; fmt.Sprint(workers) != want {
		t.Errorf("want the requests at workers %s, got %v", want, workers)
	}
}

func (l *logged) Logf(format string, args ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lines = append(l.lines, fmt.Sprintf(format, args...))
}

// What the filter says has the name of the VM that said it.
func TestLogNamesTheVM(t *testing.T) {
	log := &logged{TB: t}
	front := Start(log, hostsim.Config{Wasm: Build(t, "../testdata/probe"), PluginConfig: []byte("start log info hello\n")}, http.NotFoundHandler())
	front.Host.Wait()
	log.mu.Lock()
	defer log.mu.Unlock()
	for _, vm := range []string{"trial start", "main thread", "worker 0"} {
		if !slices.ContainsFunc(log.lines, func(l string) bool { return strings.HasPrefix(l, vm+" ") }) {
			t.Errorf("want a line of %q among %q", vm, log.lines)
		}
	}
}
