package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// An edit changes a piece of a file of the tree, which must stand in it exactly once.
type edit struct{ file, old, new string }

// Variants of the filter that only the benchmark wants.
var (
	// withoutTheLedger lets every call be the first, and every settlement succeed, without
	// a look at shared data. All else is done as ever: key, identity, fingerprint, edits,
	// the answer read along, counters, what is published.
	withoutTheLedger = []edit{
		{"plugin/internal/ledger/shared/ask.go",
			"func (s *Shared) Ask(t ledger.Token, c ledger.Claim) (ledger.Answer, bool) {\n",
			"func (s *Shared) Ask(t ledger.Token, c ledger.Claim) (ledger.Answer, bool) {\n\treturn ledger.Answer{Verdict: ledger.First, Lease: ledger.Lease{ID: c.ID, Fence: 1, Attempt: 1, Policy: c.Policy}}, true\n"},
		{"plugin/internal/ledger/shared/settle.go",
			"func (s *Shared) Settle(h ledger.Lease, o ledger.Outcome) ledger.Settled {\n",
			"func (s *Shared) Settle(h ledger.Lease, o ledger.Outcome) ledger.Settled {\n\treturn ledger.Applied\n"},
	}
	// countingMisses counts the swaps of shared data that another worker was ahead of.
	countingMisses = []edit{
		{"plugin/internal/abi/shared_wasip1.go",
			"\tcase statusCASMismatch:\n\t\treturn false, nil\n",
			"\tcase statusCASMismatch:\n\t\tmetrics{}.Counter(\"" + missesMetric + "\").Add(1)\n\t\treturn false, nil\n"},
	}
)

// missesMetric counts in a filter built with countingMisses.
const missesMetric = "callonce_bench_lost_swaps_total"

// patched returns the files that edits change, by their names below root.
func patched(root string, edits []edit) (map[string][]byte, error) {
	files := map[string][]byte{}
	for _, e := range edits {
		text, ok := files[e.file]
		if !ok {
			var err error
			if text, err = os.ReadFile(filepath.Join(root, e.file)); err != nil {
				return nil, err
			}
		}
		if n := bytes.Count(text, []byte(e.old)); n != 1 {
			return nil, fmt.Errorf("%s: want %q exactly once, found it %d times", e.file, e.old, n)
		}
		files[e.file] = bytes.Replace(text, []byte(e.old), []byte(e.new), 1)
	}
	return files, nil
}

// buildVariant compiles the tree below root as "make build" does, with edits, into the
// file out. The tree stays as it is.
func buildVariant(ctx context.Context, root, out string, edits []edit) error {
	files, err := patched(root, edits)
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "callonce-bench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	replace := map[string]string{}
	for name, text := range files {
		file := filepath.Join(dir, filepath.Base(name))
		if err := os.WriteFile(file, text, 0o600); err != nil {
			return err
		}
		replace[filepath.Join(root, name)] = file
	}
	list, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return err
	}
	overlay := filepath.Join(dir, "overlay.json")
	if err := os.WriteFile(overlay, list, 0o600); err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, "go", "build", "-overlay", overlay, "-trimpath", "-buildmode=c-shared", "-ldflags=-s -w", "-o", out, "./plugin")
	cmd.Dir = root
	cmd.Env = append(os.Environ(), "GOOS=wasip1", "GOARCH=wasm")
	if text, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%v: %w\n%s", cmd.Args, err, text)
	}
	return nil
}
