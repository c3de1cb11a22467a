package e2e_test

import (
	"context"
	"errors"
	"os/exec"
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
