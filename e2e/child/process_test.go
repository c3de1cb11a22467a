package child_test

import (
	"context"
	"errors"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/callonce/callonce/e2e/child"
)

func start(t *testing.T, script string) *child.Process {
	t.Helper()
	p, err := child.Start("script", exec.Command("sh", "-c", script), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Stop)
	return p
}

func TestAwaitReady(t *testing.T) {
	p := start(t, "echo up; exec sleep 60")
	if err := p.Await(t.Context(), func() error {
		if !strings.Contains(p.Output(), "up") {
			return errors.New("not up")
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	p.Stop()
	p.Stop()
	if err := p.Wait(); err == nil {
		t.Error("a stopped program: want how it ended, got nil")
	}
}

func TestAwaitTellsAnEarlyEnd(t *testing.T) {
	p := start(t, "echo no such file >&2; exit 3")
	err := p.Await(t.Context(), func() error { return errors.New("closed") })
	if err == nil || !strings.Contains(err.Error(), "exit status 3") || !strings.Contains(err.Error(), "no such file") {
		t.Errorf("want the status and the output, got %v", err)
	}
}

func TestAwaitDoesNotRepeatWhatWasEchoed(t *testing.T) {
	var echo strings.Builder
	p, err := child.Start("script", exec.Command("sh", "-c", "echo no such file >&2; exit 3"), &echo)
	if err != nil {
		t.Fatal(err)
	}
	err = p.Await(t.Context(), func() error { return errors.New("closed") })
	if err == nil || !strings.Contains(err.Error(), "exit status 3") || strings.Contains(err.Error(), "no such file") || echo.String() != "no such file\n" {
		t.Errorf("want the output in the echo only (%q), got %v", echo.String(), err)
	}
}

func TestAwaitTellsATimeout(t *testing.T) {
	p := start(t, "exec sleep 60")
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	err := p.Await(ctx, func() error { return errors.New("closed") })
	if !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "closed") {
		t.Errorf("want the deadline and the last cause, got %v", err)
	}
}

func TestOutputKeepsTheEnd(t *testing.T) {
	p := start(t, "head -c 9000000 /dev/zero | tr '\\0' x; echo; echo last")
	if err := p.Wait(); err != nil {
		t.Fatal(err)
	}
	if out := p.Output(); len(out) > 4<<20 || !strings.HasSuffix(out, "x\nlast\n") {
		t.Errorf("want at most 4 MiB that end in the last line, got %d bytes", len(out))
	}
}

func TestStartTellsAMissingProgram(t *testing.T) {
	if _, err := child.Start("proxy", exec.Command("./no-such-program"), nil); err == nil || !strings.Contains(err.Error(), "start proxy") {
		t.Errorf("want an error that names the program, got %v", err)
	}
}
