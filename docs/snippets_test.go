package docs_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/callonce/callonce/plugin/config"
)

// JSON in documents is JSON, and a configuration among it has no mistake and no warning. What is YAML is read, and played,
// by the end-to-end tests.
func TestJSONBlocks(t *testing.T) {
	blocks, configurations := 0, 0
	for file, text := range documents(t) {
		for _, m := range regexp.MustCompile("(?ms)^```json\n(.*?)^```$").FindAllStringSubmatch(text, -1) {
			blocks++
			var v any
			if err := json.Unmarshal([]byte(m[1]), &v); err != nil {
				t.Errorf("%s: %v in\n%s", file, err, m[1])
				continue
			}
			if top, ok := v.(map[string]any); !ok || top["policies"] == nil {
				continue
			}
			configurations++
			if warnings, err := config.Check([]byte(m[1])); err != nil || len(warnings) > 0 {
				t.Errorf("%s: %v %q in\n%s", file, err, warnings, m[1])
			}
		}
	}
	if blocks < 2 || configurations < 1 {
		t.Errorf("%d blocks and %d configurations found: does the pattern still fit?", blocks, configurations)
	}
}

// What documents tell people to run is there: targets of make, and what they build in dist.
func TestCommands(t *testing.T) {
	makefile := read(t, "Makefile")
	target := func(name string) bool { return regexp.MustCompile(`(?m)^` + name + `:.*## `).MatchString(makefile) }
	found := 0
	for file, text := range documents(t) {
		if file == "CHANGELOG.md" {
			continue // it tells of the past too
		}
		for _, m := range regexp.MustCompile("(?m)(?:`|^    )(?:[A-Z]+=\\S+ )?(make ([a-z][a-z0-9-]*))").FindAllStringSubmatch(text, -1) {
			found++
			if !target(m[2]) {
				t.Errorf("%s: %s, but the Makefile has no such target", file, m[1])
			}
		}
		for _, name := range regexp.MustCompile(`\bdist/[a-z]+(?:\.wasm)?`).FindAllString(text, -1) {
			found++
			if built := "$(DIST)" + strings.TrimPrefix(name, "dist"); !strings.Contains(makefile, built) {
				t.Errorf("%s: %s, but the Makefile builds no such file", file, name)
			}
		}
	}
	for file, text := range documents(t) {
		for _, m := range regexp.MustCompile(`\bgo (?:test|run|build)(?: -\S+)*(?: -C (\S+))?(?: -\S+)* \./([a-z/]*[a-z])`).FindAllStringSubmatch(text, -1) {
			found++
			folder := path.Join(m[1], m[2])
			if files, err := filepath.Glob(filepath.Join(root, filepath.FromSlash(folder), "*.go")); err != nil || len(files) == 0 {
				t.Errorf("%s: %s, but %s is no package", file, m[0], folder)
			}
		}
	}
	if found < 20 {
		t.Errorf("%d commands found: do the patterns still fit?", found)
	}
}

// Whoever has no modules yet is told what is going on, before it is; everybody else is not.
func TestMakeTellsOfModules(t *testing.T) {
	for _, target := range []string{"fetched", "fetched-more"} {
		say := func(more ...string) string {
			// -o leaves the build out: what is asked here is what is said before it.
			cmd := exec.Command("make", "-s", "-o", "build", target)
			cmd.Dir, cmd.Env = root, append(os.Environ(), more...)
			out, err := cmd.CombinedOutput()
			if err != nil {
				t.Fatalf("make %s: %v\n%s", target, err, out)
			}
			return string(out)
		}
		if got := say("GOMODCACHE="+t.TempDir(), "GOTOOLCHAIN=local"); !strings.HasPrefix(got, "fetching ") || !strings.Contains(got, " MB") {
			t.Errorf("make %s without modules: want a word on what is fetched, got %q", target, got)
		}
		if got := say(); target == "fetched" && got != "" {
			t.Errorf("make %s with all modules: want silence, got %q", target, got)
		}
	}
}

// Every metric that the filter makes is in the contract and in the list for operators, and no other.
func TestEveryMetricIsListed(t *testing.T) {
	name := regexp.MustCompile(`\b(?:callonce_[a-z_]+(?:_total|_entries|_bytes|_seconds)|callonce_entries|callonce_waiting|callonce_detached|callonce_store_up|callonce_build_info|mcp_gateway_[a-z_]+_total)\b`)
	made := map[string]bool{}
	each(t, ".go", func(file, source string) {
		if strings.HasPrefix(file, "plugin/internal/guard/") && !strings.HasSuffix(file, "_test.go") {
			for _, m := range regexp.MustCompile(`metric\{"([a-z_]+)"`).FindAllStringSubmatch(source, -1) {
				made[m[1]] = true
			}
		}
	})
	if len(made) < 15 {
		t.Fatalf("%d metrics found in the guard: does the pattern still fit?", len(made))
	}
	for _, file := range []string{"docs/contract.md", "envoy/README.md"} {
		listed := map[string]bool{}
		for _, n := range name.FindAllString(read(t, file), -1) {
			listed[n] = true
			if !made[n] {
				t.Errorf("%s names the metric %s, which the filter does not make", file, n)
			}
		}
		for n := range made {
			if !listed[n] {
				t.Errorf("%s does not name the metric %s", file, n)
			}
		}
	}
}

// The words for why a call settled are listed where operators look them up, and in the contract.
func TestEveryCauseIsListed(t *testing.T) {
	words := regexp.MustCompile(`(?m)^\tby\w+ += "(\w+)"`).FindAllStringSubmatch(read(t, "plugin/internal/guard/cause.go"), -1)
	if len(words) < 25 {
		t.Fatalf("%d words found in the guard: does the pattern still fit?", len(words))
	}
	for _, file := range []string{"docs/contract.md", "envoy/README.md"} {
		text := read(t, file)
		_, text, _ = strings.Cut(text, "settled_by` ")
		for _, w := range words {
			if !strings.Contains(text, "`"+w[1]+"`") {
				t.Errorf("%s does not list the word %s", file, w[1])
			}
		}
	}
}

// The contract's table of refusals has those that the filter knows, with their numbers and words, and no other.
func TestRefusalsAreListed(t *testing.T) {
	refusal := regexp.MustCompile(`Type: "(\w+)", Status: (\d+), Code: (-\d+), MayHaveRun: "(\w+)", Retry: "(\w+)"`)
	var known [][]string
	each(t, ".go", func(file, source string) {
		if strings.HasPrefix(file, "plugin/internal/mcp/") && !strings.HasSuffix(file, "_test.go") {
			known = append(known, refusal.FindAllStringSubmatch(source, -1)...)
		}
	})
	if len(known) < 10 {
		t.Fatalf("%d refusals found in mcp: does the pattern still fit?", len(known))
	}
	contract := read(t, "docs/contract.md")
	rows := map[string][]string{}
	for _, row := range regexp.MustCompile("(?m)^\\| `(idempotency_\\w+)` \\| (\\d+).* \\| (-\\d+) \\| `(\\w+)` \\| (.*) \\|$").FindAllStringSubmatch(contract, -1) {
		rows[row[1]] = row[2:]
	}
	types := map[string]bool{}
	for _, k := range known {
		types[k[1]] = true
		row := rows[k[1]]
		if row == nil || row[0] != k[2] || row[1] != k[3] || row[2] != k[4] || !strings.Contains(row[3], "`"+k[5]+"`") {
			t.Errorf("docs/contract.md, section 4: %s is %q, the filter has %q", k[1], row, k[2:])
		}
	}
	for name := range rows {
		if !types[name] {
			t.Errorf("docs/contract.md, section 4, has %s, which the filter does not know", name)
		}
	}
}
