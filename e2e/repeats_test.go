package e2e_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/callonce/callonce/e2e/tools"
)

// repeated is a group that the recipe finds.
type repeated struct {
	Tool, First, Last string
	ArgumentsHash     string   `json:"arguments_hash"`
	ResultIDs         []string `json:"result_ids"`
	Calls, Ran        int
	Keys, Sessions    int
	Outcomes, Sources map[string]int
}

// repeatsIn runs the recipe on an access log, as envoy/README.md tells.
func repeatsIn(t *testing.T, log string) (groups []repeated) {
	t.Helper()
	const line = "    jq -n -f envoy/observability/repeats.jq access.log\n"
	if !strings.Contains(envoyFile(t, "README.md"), line) {
		t.Fatalf("envoy/README.md does not have the line %q", line)
	}
	cmd := exec.CommandContext(t.Context(), must(t, tools.Jq), "-n", "-f", "envoy/observability/repeats.jq", log)
	cmd.Dir = must(t, tools.Root)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	for d := json.NewDecoder(strings.NewReader(string(out))); d.More(); {
		var g repeated
		if err := d.Decode(&g); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		groups = append(groups, g)
	}
	return groups
}

// The recipe groups calls by their arguments within ten minutes of the first, what ran twice
// before all else.
func TestRepeatsRecipe(t *testing.T) {
	log := filepath.Join(t.TempDir(), "access.log")
	const lines = `
{"time":"2026-11-29T20:00:00.100Z","tool":"charge","arguments_hash":"aa","outcome":"first","key_hash":"k1","session_hash":"s1","result_id":"ch_1"}
{"time":"2026-11-29T20:00:00.900Z","tool":"charge","arguments_hash":"aa","outcome":"replay","key_hash":"k1","session_hash":"s1","duplicate_source":"harness"}
{"time":"2026-11-29T20:09:59.000Z","tool":"charge","arguments_hash":"aa","outcome":"replay","key_hash":"k1","session_hash":"s2","duplicate_source":"reconnect"}
{"time":"2026-11-29T20:10:01.000Z","tool":"charge","arguments_hash":"aa","outcome":"first","key_hash":"k2","session_hash":"s1","result_id":"ch_2"}
{"time":"2026-11-29T20:01:00.000Z","tool":"send","arguments_hash":"bb","outcome":"first","key_hash":"k3","result_id":"m_1"}
{"time":"2026-11-29T20:03:00.000Z","tool":"send","arguments_hash":"bb","outcome":"first","key_hash":"k4","result_id":"m_2"}
{"time":"2026-11-29T20:03:00.000Z","tool":"refund","arguments_hash":"bb","outcome":"first","key_hash":"k5"}
{"time":"2026-11-29T20:04:00.000Z","tool":"list","arguments_hash":"cc","outcome":null,"key_hash":null}
{"time":"2026-11-29T20:04:01.000Z","tool":"list","arguments_hash":"cc","outcome":"-","key_hash":"-"}
{"time":"2026-11-29T20:04:01.000Z","tool":"-","arguments_hash":"-","outcome":"-"}
{"time":"2026-11-29T20:04:01.000Z","tool":null,"arguments_hash":null}
`
	if err := os.WriteFile(log, []byte(lines), 0o600); err != nil {
		t.Fatal(err)
	}
	groups := repeatsIn(t, log)
	if len(groups) != 3 {
		t.Fatalf("want three groups, got %+v", groups)
	}
	by := map[string]repeated{}
	for _, g := range groups {
		by[g.Tool] = g
	}
	if g := by["charge"]; g.Calls != 3 || g.Ran != 1 || g.Keys != 1 || g.Sessions != 2 || g.Sources["harness"] != 1 || g.Sources["reconnect"] != 1 || g.Outcomes["replay"] != 2 ||
		len(g.ResultIDs) != 1 || groups[2].Tool != "charge" {
		t.Errorf("what ran once and was repeated twice within ten minutes: %+v", groups)
	}
	if g := by["send"]; g.Calls != 2 || g.Ran != 2 || g.Keys != 2 || strings.Join(g.ResultIDs, ",") != "m_1,m_2" {
		t.Errorf("what ran twice: %+v", g)
	}
	if g := by["list"]; g.Calls != 2 || g.Ran != 2 || g.Keys != 0 {
		t.Errorf("what nothing guards: %+v", g)
	}
}

// repeats shows that the recipe reads what Envoy logs.
func (o operator) repeats() {
	o.t.Helper()
	records, err := o.envoy.AccessLog()
	if err != nil {
		o.t.Fatal(err)
	}
	log := filepath.Join(o.t.TempDir(), "access.log")
	var lines strings.Builder
	for _, r := range records {
		line, err := json.Marshal(r)
		if err != nil {
			o.t.Fatal(err)
		}
		lines.Write(append(line, '\n'))
	}
	if err := os.WriteFile(log, []byte(lines.String()), 0o600); err != nil {
		o.t.Fatal(err)
	}
	sources := map[string]bool{}
	for _, g := range repeatsIn(o.t, log) {
		if g.Tool == "" || g.Calls < 2 || g.First > g.Last || g.ArgumentsHash == "" {
			o.t.Errorf("a group that is none: %+v", g)
		}
		for s := range g.Sources {
			sources[s] = true
		}
	}
	for _, s := range []string{"transport", "model", "reconnect", "harness"} {
		if !sources[s] {
			o.t.Errorf("no group with a repeat by %s: %v", s, sources)
		}
	}
}
