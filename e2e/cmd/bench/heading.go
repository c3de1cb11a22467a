package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"
)

// heading is what figures mean nothing without: commit, day, machine and command.
func heading(ctx context.Context, root string, args []string, now time.Time) string {
	return fmt.Sprintf("Commit %s, %s, %d CPUs%s, %s/%s: bench %s", commit(ctx, root), now.UTC().Format(time.DateOnly),
		runtime.NumCPU(), model(), runtime.GOOS, runtime.GOARCH, strings.Join(args, " "))
}

// commit names what was measured, as far as git knows.
func commit(ctx context.Context, root string) string {
	git := func(args ...string) (string, bool) {
		out, err := exec.CommandContext(ctx, "git", append([]string{"-C", root}, args...)...).Output()
		return strings.TrimSpace(string(out)), err == nil
	}
	name, ok := git("rev-parse", "--short", "HEAD")
	if !ok {
		return "unknown"
	}
	if changes, ok := git("status", "--porcelain", "--untracked-files=no"); !ok || changes != "" {
		name += " with changes"
	}
	return name
}

// model is the processor's name, where the system tells it.
func model() string {
	text, err := os.ReadFile("/proc/cpuinfo")
	if err != nil {
		return ""
	}
	for line := range strings.Lines(string(text)) {
		if name, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(name) == "model name" {
			return " (" + strings.TrimSpace(value) + ")"
		}
	}
	return ""
}

// The lines in docs/measurements.md between which the latest output of a measurement stands.
func markers(name string) (begin, end string) {
	return "<!-- bench " + name + " -->\n", "<!-- end -->\n"
}

// keep puts the output of a measurement into the page, below the plot if it drew one, in place of what stands there between its markers.
func keep(page []byte, name, output, plot string) ([]byte, error) {
	begin, end := markers(name)
	before, rest, ok := bytes.Cut(page, []byte(begin))
	if !ok {
		return nil, fmt.Errorf("want a line %q in the page", strings.TrimSpace(begin))
	}
	old, after, ok := bytes.Cut(rest, []byte(end))
	if !ok || bytes.Contains(old, []byte("<!-- bench ")) {
		return nil, fmt.Errorf("want a line %q behind %q", strings.TrimSpace(end), strings.TrimSpace(begin))
	}
	if plot != "" {
		begin += "![" + strings.TrimSuffix(filepath.Base(plot), ".svg") + "](" + plot + ")\n\n"
	}
	text := begin + "```text\n" + strings.TrimRight(output, "\n") + "\n```\n" + end
	return slices.Concat(before, []byte(text), after), nil
}

// write is keep for docs/measurements.md.
func write(root, name, output, plot string) error {
	file := filepath.Join(root, "docs", "measurements.md")
	page, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	if page, err = keep(page, name, output, plot); err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	return os.WriteFile(file, page, 0o644)
}
