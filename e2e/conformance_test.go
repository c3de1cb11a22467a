package e2e_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/callonce/callonce/e2e/child"
	"github.com/callonce/callonce/e2e/envoytest"
	"github.com/callonce/callonce/e2e/tools"
)

// conformanceChecks is how many checks the active server suite of
// @modelcontextprotocol/conformance 0.1.16 makes.
const conformanceChecks = 40

// What the official suite finds at the official server it must also find through a
// proxy, with the filter or without.
func TestConformance(t *testing.T) {
	upstream := startEverything(t)
	t.Run("direct", func(t *testing.T) { runConformance(t, upstream) })
	t.Run("envoy without filter", func(t *testing.T) {
		runConformance(t, startEnvoy(t, envoytest.Options{Upstream: upstream, Workers: 2}).URL())
	})
	for _, proxy := range proxies {
		t.Run(proxy.name, func(t *testing.T) { runConformance(t, proxy.start(t, upstream)) })
	}
}

func startEverything(t *testing.T) (url string) {
	t.Helper()
	addr, err := child.FreeAddr()
	if err != nil {
		t.Fatal(err)
	}
	server, err := child.Start("everything-server", exec.Command(must(t, buildEverything), "-http", addr, "-stateless=false"), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Stop)
	if err := server.Await(t.Context(), child.Listening(addr)); err != nil {
		t.Fatal(err)
	}
	return "http://" + addr
}

func runConformance(t *testing.T, url string) {
	t.Helper()
	node, err := tools.NodeTools()
	if err != nil {
		t.Fatal(err)
	}
	results := t.TempDir()
	suite := filepath.Join(node.Modules, "@modelcontextprotocol", "conformance", "dist", "index.js")
	// Its exit status is not needed: the results are read one by one, and a run that
	// broke off has too few of them.
	text, _ := exec.CommandContext(t.Context(), node.Binary, suite, "server", "--url", url+"/mcp", "-o", results).CombinedOutput()

	files, err := filepath.Glob(filepath.Join(results, "*", "checks.json"))
	if err != nil {
		t.Fatal(err)
	}
	passed := 0
	for _, file := range files {
		raw, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var checks []struct{ ID, Status, ErrorMessage string }
		if err := json.Unmarshal(raw, &checks); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		for _, c := range checks {
			if c.Status == "SUCCESS" {
				passed++
			} else {
				t.Errorf("%s: want SUCCESS, got %s: %s", c.ID, c.Status, c.ErrorMessage)
			}
		}
	}
	if passed != conformanceChecks {
		t.Errorf("want %d checks passed, got %d; the suite printed:\n%s", conformanceChecks, passed, text)
		return
	}
	t.Logf("%d of %d checks passed", passed, conformanceChecks)
}
