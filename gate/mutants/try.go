package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"
)

// verdict is what became of a fault.
type verdict string

const (
	killed  verdict = "found"
	lived   verdict = "NOT FOUND"
	broken  verdict = "DOES NOT BUILD"
	untried verdict = "NOT TRIED"
)

var (
	failedTest = regexp.MustCompile(`(?m)^\s*--- FAIL: (\S+)`)
	noTests    = []byte("[no tests to run]")
)

// try plants one fault and runs its tests. Beside the verdict it gives which tests found it, or the end of what was printed.
func (m *mutant) try(timeout time.Duration) (verdict, string) {
	text, err := m.text()
	if err != nil {
		return untried, err.Error()
	}
	dir, err := os.MkdirTemp("", "mutant")
	if err != nil {
		return untried, err.Error()
	}
	defer os.RemoveAll(dir)
	here, err := filepath.Abs(m.file)
	if err != nil {
		return untried, err.Error()
	}
	planted, overlay := filepath.Join(dir, filepath.Base(m.file)), filepath.Join(dir, "overlay.json")
	list, err := json.Marshal(map[string]any{"Replace": map[string]string{here: planted}})
	if err != nil {
		return untried, err.Error()
	}
	if err := errors.Join(os.WriteFile(planted, []byte(text), 0o600), os.WriteFile(overlay, list, 0o600)); err != nil {
		return untried, err.Error()
	}
	// By GOFLAGS, so that a module which the tests compile has the fault too.
	env := append(os.Environ(), "GOFLAGS="+strings.TrimSpace(os.Getenv("GOFLAGS")+" -overlay="+overlay))

	// What only the filter has is not compiled by its own package's tests.
	if strings.HasSuffix(m.file, "_wasip1.go") {
		build := exec.Command("go", "build", "-o", filepath.Join(dir, "out"), ".")
		build.Dir, build.Env = filepath.Dir(m.file), append(slices.Clone(env), "GOOS=wasip1", "GOARCH=wasm", "CGO_ENABLED=0")
		if out, err := build.CombinedOutput(); err != nil {
			return broken, tail(out)
		}
	}
	build := exec.Command("go", "test", "-c", "-o", filepath.Join(dir, "tests"), ".")
	build.Dir, build.Env = m.in, env
	if out, err := build.CombinedOutput(); err != nil {
		return broken, tail(out)
	}

	ctx, cancel := context.WithTimeout(context.Background(), timeout+time.Minute)
	defer cancel()
	tests := exec.CommandContext(ctx, filepath.Join(dir, "tests"), append(m.rapid(), "-test.failfast", "-test.timeout", timeout.String(), "-test.run", m.run())...)
	tests.Dir, tests.Env, tests.WaitDelay = m.in, env, 10*time.Second
	out, err := tests.CombinedOutput()
	found := failedTest.FindAllSubmatch(out, -1)
	switch {
	case err == nil && bytes.Contains(out, noTests):
		return untried, "no test is named like " + m.test.String()
	case err == nil:
		return lived, ""
	case len(found) > 0:
		return killed, "by " + string(found[0][1])
	case bytes.Contains(out, []byte("panic: ")) || bytes.Contains(out, []byte("fatal error: ")) || ctx.Err() != nil:
		return killed, "by the end of the tests: " + firstLine(out)
	}
	return untried, tail(out)
}

// run is the expression for the tests. Alternatives must not fall apart.
func (m *mutant) run() string {
	top, sub, has := strings.Cut(m.test.String(), "/")
	run := "^(?:" + top + ")$"
	if has {
		run += "/" + sub
	}
	return run
}

// rapid are the flags that keep pgregory.net/rapid from shrinking what it found, where the tests use it.
func (m *mutant) rapid() []string {
	files, _ := filepath.Glob(filepath.Join(m.in, "*_test.go"))
	for _, file := range files {
		if b, err := os.ReadFile(file); err == nil && bytes.Contains(b, []byte(`"pgregory.net/rapid"`)) {
			return []string{"-rapid.shrinktime=0s", "-rapid.nofailfile"}
		}
	}
	return nil
}

func firstLine(out []byte) string {
	for line := range strings.Lines(string(out)) {
		if strings.HasPrefix(line, "panic: ") || strings.HasPrefix(line, "fatal error: ") {
			return strings.TrimSpace(line)
		}
	}
	return "too late"
}

func tail(out []byte) string {
	s := strings.TrimSpace(string(out))
	return s[max(0, len(s)-1500):]
}
