package docs_test

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// rows are how many rows each design has.
var rows = map[string]int{"G": 16, "S": 8, "D": 13, "F": 5, "R": 5}

// Every row of designs.md is there, and names tests and cases that exist where it says.
func TestDesigns(t *testing.T) {
	text, err := os.ReadFile("designs.md")
	if err != nil {
		t.Fatal(err)
	}
	cell := regexp.MustCompile(`(?m)^\| ([GSDFR])(\d+) \|.*\| (.*) \|$`)
	named := regexp.MustCompile(`(?:([a-z0-9/]+): )?(Test[A-Za-z0-9]+)|case-(\d\d)`)
	seen := map[string]bool{}
	for _, row := range cell.FindAllStringSubmatch(string(text), -1) {
		name, folder, shown := row[1]+row[2], "", 0
		seen[name] = true
		for _, m := range named.FindAllStringSubmatch(row[3], -1) {
			shown++
			if m[3] != "" {
				if !caseExists(t, m[3]) {
					t.Errorf("%s: no case %s", name, m[3])
				}
				continue
			}
			if m[1] != "" {
				folder = m[1]
			}
			if !testExists(t, folder, m[2]) {
				t.Errorf("%s: no %s in %s", name, m[2], folder)
			}
		}
		if shown == 0 {
			t.Errorf("%s names no test", name)
		}
	}
	for design, n := range rows {
		for i := range n {
			if name := fmt.Sprint(design, i+1); !seen[name] {
				t.Errorf("no row %s", name)
			}
		}
	}
}

func testExists(t *testing.T, folder, name string) bool {
	at := filepath.Join("..", "plugin", "internal", folder)
	switch folder {
	case "e2e":
		at = filepath.Join("..", "e2e")
	case "conformance":
		at = filepath.Join("..", "plugin", "conformance")
	}
	return contains(t, filepath.Join(at, "*_test.go"), "\nfunc "+name+"(") ||
		contains(t, filepath.Join(at, "*", "*_test.go"), "\nfunc "+name+"(")
}

func caseExists(t *testing.T, number string) bool {
	return contains(t, filepath.Join("..", "plugin", "conformance", "*.go"), "\n\t{"+strings.TrimPrefix(number, "0")+", \"")
}

func contains(t *testing.T, pattern, text string) bool {
	t.Helper()
	files, err := filepath.Glob(pattern)
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		source, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(source), text) {
			return true
		}
	}
	return false
}

// lines are how many lines of each text the audit has.
var lines = []int{14, 46, 21, 14, 51}

// The audit has every line of the designs' texts. What works is shown by tests that exist, what
// is otherwise has a reason.
func TestAudit(t *testing.T) {
	text, err := os.ReadFile("audit.md")
	if err != nil {
		t.Fatal(err)
	}
	row := regexp.MustCompile(`(?m)^\| (\d+\.\d+) \| ([^|]+) \| ([^|]+) \| ([^|]*) ?\|$`)
	named := regexp.MustCompile("(?:`([a-z0-9/]+): |`)(Test[A-Za-z0-9]+)`|`case-(\\d\\d)`")
	seen := map[string]bool{}
	for _, m := range row.FindAllStringSubmatch(string(text), -1) {
		line, here, folder, shown := m[1], m[3], "", 0
		if seen[line] {
			t.Errorf("%s is there twice", line)
		}
		seen[line] = true
		for _, by := range named.FindAllStringSubmatch(m[4], -1) {
			shown++
			if by[3] != "" {
				if !caseExists(t, by[3]) {
					t.Errorf("%s: no case %s", line, by[3])
				}
				continue
			}
			if by[1] != "" {
				folder = by[1]
			}
			if !testExists(t, folder, by[2]) {
				t.Errorf("%s: no %s in %s", line, by[2], folder)
			}
		}
		reason := strings.TrimPrefix(strings.TrimPrefix(here, "otherwise: "), "not for a proxy: ")
		switch works := strings.HasPrefix(here, "works"); {
		case works && shown == 0:
			t.Errorf("%s works, and no test shows it", line)
		case !works && (reason == here || len(reason) < 12):
			t.Errorf("%s neither works nor has a reason: %s", line, here)
		}
	}
	for design, n := range lines {
		for i := range n {
			if line := fmt.Sprintf("%d.%d", design, i+1); !seen[line] {
				t.Errorf("no line %s", line)
			}
		}
	}
}
