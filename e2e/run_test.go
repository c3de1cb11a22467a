package e2e_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/callonce/callonce/e2e/child"
)

// The lines that "make run" prints work as they are printed, and Ctrl-C ends it well.
func TestRunPrintsWhatWorks(t *testing.T) {
	run := startRun(t, nil)
	lines := commands(run.Output())
	if len(lines) != 5 {
		t.Fatalf("want 5 commands to paste, got %d:\n%s", len(lines), run.Output())
	}
	for _, step := range []struct {
		line int
		want []string
	}{
		{0, []string{"HTTP/1.1 200 OK", `"charge_id":"ch_1"`}},
		{0, []string{"HTTP/1.1 200 OK", `"charge_id":"ch_1"`, "Idempotency-Replayed: true"}},
		{1, []string{"HTTP/1.1 200 OK", `"type":"idempotency_key_conflict"`}},
		{2, []string{"HTTP/1.1 200 OK", `"charge_id":"ch_2"`}},
		{2, []string{"HTTP/1.1 200 OK", `"charge_id":"ch_3"`}},
		{4, []string{`"count":3,`}},
		{3, nil}, // gives up
		{3, []string{"HTTP/1.1 200 OK", `"type":"idempotency_outcome_unknown"`, `"retry":"reconcile_first"`}},
	} {
		out, err := exec.CommandContext(t.Context(), "sh", "-c", lines[step.line]).CombinedOutput()
		if ended, ok := errors.AsType[*exec.ExitError](err); ok && step.want == nil && ended.ExitCode() == 28 {
			continue // curl's word for a time that is over
		}
		if err != nil || step.want == nil {
			t.Fatalf("%s: %v: %s", lines[step.line], err, out)
		}
		for _, want := range step.want {
			// Header names are the same in any case.
			if !strings.Contains(strings.ToLower(string(out)), strings.ToLower(want)) {
				t.Errorf("%s: want %q in\n%s", lines[step.line], want, out)
			}
		}
	}
	if err := syscall.Kill(run.PID(), syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	if err := run.Wait(); err != nil {
		t.Errorf("after Ctrl-C: want status 0, got %v:\n%s", err, run.Output())
	}
}

// startRun runs it with an environment of its own, and returns when it has printed what to try.
func startRun(t *testing.T, env []string, flags ...string) *child.Process {
	t.Helper()
	cmd := exec.Command(must(t, buildRun), append([]string{"-callonce", must(t, buildCommand), "-plugin", must(t, buildPlugin)}, flags...)...)
	cmd.Env = append(os.Environ(), env...)
	run, err := child.Start("run", cmd, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(run.Stop)
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	if err := run.Await(ctx, func() error {
		if !strings.Contains(run.Output(), "Ctrl-C stops everything") {
			return errors.New("nothing to try printed yet")
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	return run
}

// A configuration that knows callers by headers gets them in the lines that are printed.
func TestRunPrintsTheCallersHeaders(t *testing.T) {
	config := filepath.Join(t.TempDir(), "config.json")
	text := `{"policies":{"p":{"server":"s","principal":["peer:subject",["header:x-user","header:x-team"]]}},"default":"p"}`
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	run := startRun(t, []string{"LISTEN=127.0.0.1:0"}, "-config", config)
	for i, line := range commands(run.Output())[:3] {
		if !strings.Contains(line, " -H 'x-user: me' -H 'x-team: me' ") {
			t.Errorf("line %d: want both headers, got %s", i+1, line)
		}
	}
	out, err := exec.CommandContext(t.Context(), "sh", "-c", commands(run.Output())[0]).CombinedOutput()
	if err != nil || !strings.Contains(string(out), `"charge_id":"ch_1"`) {
		t.Errorf("want a charge, got %v: %s", err, out)
	}
}

// Where the usual port is taken, one line says so. Whoever has it does not matter.
func TestRunWithoutItsPort(t *testing.T) {
	if taken, err := net.Listen("tcp", "127.0.0.1:10000"); err == nil {
		defer taken.Close()
	}
	run := startRun(t, []string{"LISTEN="})
	if !strings.Contains(run.Output(), "127.0.0.1:10000 is taken, so a free port serves; LISTEN=HOST:PORT names another\n") {
		t.Errorf("want a line that says so, got:\n%s", run.Output())
	}
	if strings.Contains(run.Output(), "callonce serves http://127.0.0.1:10000") {
		t.Errorf("want another port, got:\n%s", run.Output())
	}
}

// A mistake in the environment is told by the variable's name, with what to type.
func TestRunNamesTheVariable(t *testing.T) {
	for upstream, want := range map[string]string{
		"http://127.0.0.1:8080/mcp": `UPSTREAM: want http://127.0.0.1:8080, without the path`,
		"127.0.0.1:8080":            `UPSTREAM: want http://HOST:PORT or https://HOST, such as http://127.0.0.1:8080`,
		"localhost:8080":            `UPSTREAM: want http://HOST:PORT or https://HOST`,
	} {
		cmd := exec.CommandContext(t.Context(), must(t, buildRun), "-callonce", must(t, buildCommand), "-plugin", must(t, buildPlugin))
		cmd.Env = append(os.Environ(), "UPSTREAM="+upstream)
		out, err := cmd.CombinedOutput()
		if err == nil || cmd.ProcessState.ExitCode() != 1 || !strings.Contains(string(out), want) {
			t.Errorf("%s: want status 1 and %q, got %v:\n%s", upstream, want, err, out)
		}
	}
}

// What is wrong with a configuration is told once, by whoever of make, run, callonce serve and its VMs says it.
func TestRunTellsAMistakeOnce(t *testing.T) {
	config := filepath.Join(t.TempDir(), "config.json")
	if err := os.WriteFile(config, []byte(`{"policies":{"p":{"anonymous":"yes"}}}`), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), must(t, buildRun), "-callonce", must(t, buildCommand), "-plugin", must(t, buildPlugin), "-config", config)
	out, err := cmd.CombinedOutput()
	if err == nil || cmd.ProcessState.ExitCode() != 1 {
		t.Errorf("want status 1, got %v", err)
	}
	if n := strings.Count(string(out), "configuration: /policies/p/anonymous: found"); n != 1 {
		t.Errorf("want the mistake told once, got it %d times:\n%s", n, out)
	}
}

// A stop waits for open streams, a second one for nothing: with run, and with callonce serve itself.
func TestASecondStopEndsAtOnce(t *testing.T) {
	for name, command := range map[string]func(upstream string) *exec.Cmd{
		"run": func(upstream string) *exec.Cmd {
			cmd := exec.Command(must(t, buildRun), "-callonce", must(t, buildCommand), "-plugin", must(t, buildPlugin), "-listen", "127.0.0.1:0")
			cmd.Env = append(os.Environ(), "UPSTREAM="+upstream)
			return cmd
		},
		"callonce": func(upstream string) *exec.Cmd {
			return exec.Command(must(t, buildCommand), "serve", "--plugin", must(t, buildPlugin), "--upstream", upstream)
		},
	} {
		t.Run(name, func(t *testing.T) {
			arrived := make(chan struct{})
			gone := make(chan struct{})
			server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
				close(arrived)
				<-r.Context().Done()
				close(gone)
			}))
			t.Cleanup(server.Close)
			p, err := child.Start(name, command(server.URL), nil)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(p.Stop)
			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
			defer cancel()
			prints := func(pattern string) []string {
				t.Helper()
				var found []string
				if err := p.Await(ctx, func() error {
					if found = regexp.MustCompile(pattern).FindStringSubmatch(p.Output()); found == nil {
						return fmt.Errorf("%s is not printed yet", pattern)
					}
					return nil
				}); err != nil {
					t.Fatal(err)
				}
				return found
			}
			url := prints(`listening on (http://[^ ,]+),`)[1]
			go func() {
				if resp, err := http.Get(url); err == nil {
					resp.Body.Close()
				}
			}()
			<-arrived
			interrupt := func() {
				t.Helper()
				if err := syscall.Kill(p.PID(), syscall.SIGINT); err != nil {
					t.Fatal(err)
				}
			}
			interrupt()
			prints("stopping: open streams have 5s to end; a second signal ends at once")
			select {
			case <-gone:
				t.Error("the first signal cut the open stream")
			default:
			}
			interrupt()
			<-p.Done()
			// By a signal: whoever waits for the streams ends with a status of its own.
			if err := p.Wait(); err == nil || !strings.Contains(err.Error(), "signal: interrupt") {
				t.Errorf("want an end by the second signal, got %v:\n%s", err, p.Output())
			}
			<-gone
		})
	}
}

// commands returns the indented commands of what was printed, those that go on over
// several lines in one piece.
func commands(printed string) []string {
	var found []string
	inside := false
	for line := range strings.Lines(printed) {
		switch {
		case inside:
			found[len(found)-1] += line
		case strings.HasPrefix(line, "  curl "), strings.HasPrefix(line, "  kill "):
			found = append(found, line)
		default:
			continue
		}
		inside = strings.HasSuffix(line, "\\\n")
	}
	return found
}

// "make run STORE=etcd": what it prints works as printed, also over a restart of everything.
func TestRunEtcd(t *testing.T) {
	run := startRun(t, nil, "-etcd", must(t, buildEtcd))
	lines := commands(run.Output())
	if len(lines) != 5 {
		t.Fatalf("want 5 commands to paste, got %d:\n%s", len(lines), run.Output())
	}
	for i, want := range []string{"", "idempotency-replayed: true", "", "idempotency-replayed: true", `"count":1,`} {
		var text string
		for deadline := time.Now().Add(time.Minute); ; time.Sleep(50 * time.Millisecond) {
			out, err := exec.CommandContext(t.Context(), "sh", "-c", lines[i]).CombinedOutput()
			if text = strings.ToLower(string(out)); err != nil {
				t.Fatalf("%s: %v: %s", lines[i], err, out)
			}
			// Just started, a proxy has no leases yet; just answered, a settlement is on its way.
			if !strings.Contains(text, "idempotency_unavailable") && !strings.Contains(text, "idempotency_in_flight") || time.Now().After(deadline) {
				break
			}
		}
		if !strings.Contains(text, want) || i != 2 && i != 4 && !strings.Contains(text, `"charge_id":"ch_1"`) {
			t.Errorf("%s: want %q in\n%s", lines[i], want, text)
		}
		for deadline := time.Now().Add(3 * time.Minute); i == 2 && !strings.Contains(run.Output(), "\nrestarted"); time.Sleep(50 * time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatalf("it does not restart:\n%s", run.Output())
			}
		}
	}
}
