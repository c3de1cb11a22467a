package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/callonce/callonce/e2e/tools"
)

// What a measurement printed takes the place of what stood there, and nothing else changes.
func TestKeep(t *testing.T) {
	const page = "# Page\n\n<!-- bench request -->\nold\n<!-- end -->\n\nBetween.\n\n<!-- bench ledger -->\n<!-- end -->\nEnd.\n"
	got, err := keep([]byte(page), "request", "new\n\n", "")
	want := strings.Replace(page, "old\n", "```text\nnew\n```\n", 1)
	if err != nil || string(got) != want {
		t.Errorf("got %q, %v, want %q", got, err, want)
	}
	if again, err := keep(got, "request", "new", ""); err != nil || string(again) != want {
		t.Errorf("again: got %q, %v, want %q", again, err, want)
	}
	drawn, err := keep(got, "request", "new", "plots/request.svg")
	if want := strings.Replace(page, "old\n", "![request](plots/request.svg)\n\n```text\nnew\n```\n", 1); err != nil || string(drawn) != want {
		t.Errorf("with a plot: got %q, %v, want %q", drawn, err, want)
	}
	for name, bad := range map[string]string{"no markers": "# Page\n", "no end": "<!-- bench request -->\n", "the next one's end": "<!-- bench request -->\n<!-- bench ledger -->\n<!-- end -->\n"} {
		if _, err := keep([]byte(bad), "request", "new", ""); err == nil {
			t.Errorf("%s: want an error", name)
		}
	}
}

// The page has a place for each measurement.
func TestMeasurementsPage(t *testing.T) {
	root, err := tools.Root()
	if err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile(filepath.Join(root, "docs", "measurements.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range measurements {
		if _, err := keep(page, m.name, "figures", ""); err != nil {
			t.Errorf("docs/measurements.md: %v", err)
		}
	}
}

func TestHeading(t *testing.T) {
	got := heading(t.Context(), t.TempDir(), []string{"-of", "ledger"}, time.Date(2026, 12, 1, 23, 0, 0, 0, time.UTC))
	for _, want := range []string{"Commit unknown, 2026-12-01, ", " CPUs", ": bench -of ledger"} {
		if !strings.Contains(got, want) {
			t.Errorf("want %q in %q", want, got)
		}
	}
}
