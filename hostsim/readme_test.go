package hostsim

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// longestExample is in lines. A test of one's own filter must look as short as it is.
const longestExample = 21

// The test that the README shows is the one that runs.
func TestReadmeShowsTheExample(t *testing.T) {
	readme, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	example, err := os.ReadFile("example_filter_test.go")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(readme), "```go\n"+string(example)+"```\n") {
		t.Error("README.md shows another text than example_filter_test.go has")
	}
	if n := strings.Count(string(example), "\n"); n > longestExample {
		t.Errorf("the example has %d lines: want at most %d", n, longestExample)
	}
}

// What the README says of the scenarios is what is recorded: how many there are, which differ on an older Envoy, and that each known
// difference of hostsim has a scenario that shows it, or a test.
func TestReadmeListsWhatIsRecorded(t *testing.T) {
	b, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	readme := strings.Join(strings.Fields(string(b)), " ")
	files, err := filepath.Glob("testdata/scenarios/*.txt")
	if err != nil {
		t.Fatal(err)
	}
	var older, ours []string
	bytes := 0
	for _, f := range files {
		s := readScenario(t, f)
		if strings.HasPrefix(s.name, "raw-") || strings.HasPrefix(s.name, "answer-") {
			bytes++
		}
		for _, o := range s.older {
			if o.version == "hostsim" {
				ours = append(ours, s.name)
			} else {
				older = append(older, s.name)
			}
		}
	}
	equal := len(files) - len(ours)
	if equal < 120 {
		t.Errorf("%d scenarios are equal: want at least 120", equal)
	}
	for _, want := range []string{
		fmt.Sprintf("%d scenarios in [testdata/scenarios]", len(files)),
		fmt.Sprintf("%d of them are about single bytes", bytes),
		fmt.Sprintf("%d are equal on Envoy 1.40.0; the other %d show the differences below", equal, len(ours)),
	} {
		if !strings.Contains(readme, want) {
			t.Errorf("README.md does not say %q", want)
		}
	}
	_, named, _ := strings.Cut(readme, "tells its cause (")
	named, _, _ = strings.Cut(named, ")")
	if got := quoted.FindAllString(named, -1); !same(got, older) {
		t.Errorf("README.md names %q as differing on older versions, recorded are %q", got, older)
	}
	_, table, _ := strings.Cut(string(b), "| hostsim | Envoy | why | shown by |\n")
	table, _, _ = strings.Cut(table, "\n\n")
	var shown []string
	tests := testNames(t)
	for _, row := range strings.Split(table, "\n")[1:] {
		cells := strings.Split(strings.Trim(row, "|"), "|")
		for _, name := range quoted.FindAllString(cells[len(cells)-1], -1) {
			if name = strings.Trim(name, "`"); !strings.HasPrefix(name, "Test") {
				shown = append(shown, "`"+name+"`")
			} else if !tests[name] {
				t.Errorf("README.md: no test %s", name)
			}
		}
	}
	if !same(shown, ours) {
		t.Errorf("README.md lists the differences %q, recorded are %q", shown, ours)
	}
}

var quoted = regexp.MustCompile("`[^`]+`")

// same says whether names in backquotes are those without, in any order.
func same(got, want []string) bool {
	got = slices.Sorted(slices.Values(got))
	for i := range got {
		got[i] = strings.Trim(got[i], "`")
	}
	return slices.Equal(got, slices.Sorted(slices.Values(want)))
}

// testNames are those of the tests of hostsim and of the packages below it.
func testNames(t *testing.T) map[string]bool {
	t.Helper()
	all := map[string]bool{}
	for _, pattern := range []string{"*_test.go", "*/*_test.go", "internal/*/*_test.go"} {
		files, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range files {
			text, err := os.ReadFile(f)
			if err != nil {
				t.Fatal(err)
			}
			for _, m := range regexp.MustCompile(`(?m)^func (Test\w+)\(`).FindAllStringSubmatch(string(text), -1) {
				all[m[1]] = true
			}
		}
	}
	return all
}

// The example runs in a module of one's own, made by the lines that the README shows.
func TestOwnModule(t *testing.T) {
	readme, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	example, err := os.ReadFile("example_filter_test.go")
	if err != nil {
		t.Fatal(err)
	}
	root, err := filepath.Abs("..")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := os.CopyFS(filepath.Join(dir, "seen"), os.DirFS("testdata/seen")); err != nil {
		t.Fatal(err)
	}
	// The filter is part of that module: a Go filter needs no module of its own.
	for _, name := range []string{"go.mod", "go.sum"} {
		if err := os.Remove(filepath.Join(dir, "seen", name)); err != nil {
			t.Fatal(err)
		}
	}
	test := strings.NewReplacer("./testdata/seen", "./seen").Replace(string(example))
	for name, text := range map[string]string{"seen_test.go": test, "go.mod": "module example\n\ngo 1.26.0\n"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	lines := regexp.MustCompile(`(?m)^    (go mod .*)$`).FindAllStringSubmatch(string(readme), -1)
	if len(lines) != 3 {
		t.Fatalf("want three lines of go mod in README.md, got %q", lines)
	}
	for _, line := range append(lines, []string{"", "go test ./..."}) {
		cmd := exec.CommandContext(t.Context(), "sh", "-ec", strings.ReplaceAll(line[1], "/path/to/this/project", root))
		cmd.Dir = dir
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", line[1], err, out)
		}
	}
}
