package e2e_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/callonce/callonce/e2e/tools"
)

// What hostsim's scenarios record is what this Envoy does.
func TestHostsimDoesWhatEnvoyDoes(t *testing.T) {
	playScenarios(t, must(t, tools.Envoy))
}

// The same on the oldest Envoy that is supported. The differences that it may show stand in the scenarios, each with its reason.
func TestHostsimAndTheOldestEnvoy(t *testing.T) {
	playScenarios(t, must(t, tools.OldestEnvoy))
}

var played = regexp.MustCompile(`(?m)^    --- PASS: TestScenariosOnEnvoy/`)

// playScenarios runs hostsim's difference suite, which lives with hostsim and so in the module above. Every scenario must have been
// played: a suite that finds nothing to play passes too.
func playScenarios(t *testing.T, binary string) {
	root := must(t, tools.Root)
	files, err := filepath.Glob(filepath.Join(root, "hostsim/testdata/scenarios/*.txt"))
	if err != nil || len(files) == 0 {
		t.Fatalf("want scenarios in hostsim/testdata/scenarios, found none (%v)", err)
	}
	cmd := exec.CommandContext(t.Context(), "go", "test", "-count=1", "-v", "-timeout=20m", "-parallel=16", "-run=^TestScenariosOnEnvoy$", "./hostsim")
	cmd.Dir, cmd.Env = root, append(os.Environ(), "ENVOY="+binary)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %v\n%s", cmd.Args, err, out)
	}
	if n := len(played.FindAll(out, -1)); n != len(files) {
		t.Fatalf("want %d scenarios played, got %d:\n%s", len(files), n, out)
	}
	t.Logf("%s", summary.Find(out))
}

// summary is what the suite says of a version: how many scenarios are equal, and which differ as recorded.
var summary = regexp.MustCompile(`Envoy [0-9.]+: \d+ scenarios, .*`)
