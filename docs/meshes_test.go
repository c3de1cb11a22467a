package docs_test

import (
	"regexp"
	"strings"
	"testing"
)

// Each way in which a mesh opens by mistake names the test that shows what callers get. (TestNamedTests finds the tests.)
func TestOpeningsAreShown(t *testing.T) {
	for page, least := range map[string]int{"docs/istio.md": 15, "docs/envoy-gateway.md": 11} {
		_, table, _ := strings.Cut(read(t, page), "## How it opens by mistake\n\n")
		table, _, _ = strings.Cut(table, "\n\n")
		rows := strings.Split(strings.TrimSpace(table), "\n")
		if len(rows) < least+2 {
			t.Errorf("%s: want at least %d rows, found %d", page, least, len(rows)-2)
		}
		for _, row := range rows[min(2, len(rows)):] {
			cells := strings.Split(strings.Trim(row, "| "), " | ")
			if len(cells) != 4 || !regexp.MustCompile("^`Test[A-Z]").MatchString(cells[3]) {
				t.Errorf("%s: want four cells, the last of them a test: %s", page, row)
			}
		}
	}
}
