package e2e_test

import (
	"context"
	"errors"
	"fmt"
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
	cmd := exec.Command(must(t, buildRun), "-hostsim", must(t, buildHostsim), "-plugin", must(t, buildPlugin))
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
	lines := commands(run.Output())
	if len(lines) != 4 {
		t.Fatalf("want 4 commands to paste, got %d:\n%s", len(lines), run.Output())
	}
	for _, step := range []struct {
		line int
		want []string
	}{
		{0, []string{"HTTP/1.1 200 OK", `"charge_id":"ch_1"`}},
		{0, []string{"HTTP/1.1 200 OK", `"charge_id":"ch_1"`, "Idempotency-Replayed: true"}},
		{1, []string{"HTTP/1.1 409 Conflict", `"type":"idempotency_key_conflict"`}},
		{2, []string{"HTTP/1.1 200 OK", `"charge_id":"ch_2"`}},
		{2, []string{"HTTP/1.1 200 OK", `"charge_id":"ch_3"`}},
		{3, []string{`"count":3,`}},
	} {
		out, err := exec.CommandContext(t.Context(), "sh", "-c", lines[step.line]).CombinedOutput()
		if err != nil {
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

// What is wrong with a configuration is told once, by whoever of make, run, hostsim and its VMs says it.
func TestRunTellsAMistakeOnce(t *testing.T) {
	config := filepath.Join(t.TempDir(), "config.json")
	if err := os.WriteFile(config, []byte(`{"policies":{"p":{"anonymous":"yes"}}}`), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), must(t, buildRun), "-hostsim", must(t, buildHostsim), "-plugin", must(t, buildPlugin), "-config", config)
	out, err := cmd.CombinedOutput()
	if err == nil || cmd.ProcessState.ExitCode() != 1 {
		t.Errorf("want status 1, got %v", err)
	}
	if n := strings.Count(string(out), "configuration: /policies/p/anonymous: found"); n != 1 {
		t.Errorf("want the mistake told once, got it %d times:\n%s", n, out)
	}
}

// A stop waits for open streams, a second one for nothing: with run, and with hostsim itself.
func TestASecondStopEndsAtOnce(t *testing.T) {
	for name, command := range map[string]func(upstream string) *exec.Cmd{
		"run": func(upstream string) *exec.Cmd {
			cmd := exec.Command(must(t, buildRun), "-hostsim", must(t, buildHostsim), "-plugin", must(t, buildPlugin), "-listen", "127.0.0.1:0")
			cmd.Env = append(os.Environ(), "UPSTREAM="+upstream)
			return cmd
		},
		"hostsim": func(upstream string) *exec.Cmd {
			return exec.Command(must(t, buildHostsim), "serve", "--plugin", must(t, buildPlugin), "--upstream", upstream)
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
		case strings.HasPrefix(line, "  curl "):
			found = append(found, line)
		default:
			continue
		}
		inside = strings.HasSuffix(line, "\\\n")
	}
	return found
}
