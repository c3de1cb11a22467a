package docs_test

import (
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/callonce/callonce/plugin/conformance"
)

// cases.md says of each case where it runs, as the conformance kit has it.
func TestCasesPage(t *testing.T) {
	page := read(t, "docs/cases.md")
	_, table, ok := strings.Cut(page, "\n## Where they run\n")
	if !ok {
		t.Fatal("docs/cases.md: no section Where they run")
	}
	said := map[string]map[int]bool{}
	for _, row := range regexp.MustCompile(`(?m)^\| ([0-9, ]+) \| (.*) \|$`).FindAllStringSubmatch(table, -1) {
		where := "own"
		if strings.HasPrefix(row[2], "conformance kit, on hostsim") {
			where = "hostsim"
			if strings.Contains(row[2], "Envoy") {
				where = "both"
			}
		}
		said[where] = map[int]bool{}
		for _, n := range strings.Split(row[1], ", ") {
			number, _ := strconv.Atoi(n)
			said[where][number] = true
		}
	}
	all, envoy := map[int]bool{}, map[int]bool{}
	for _, c := range conformance.All {
		all[c.Number] = true
		envoy[c.Number] = envoy[c.Number] || c.Envoy
	}
	cases := readLaw(t).cases
	for n := range all {
		if !cases[n] {
			t.Errorf("case %d of the kit is not in docs/cases.md", n)
		}
	}
	found := map[string]bool{} // numbers that some test of its own begins with
	each(t, "_test.go", func(_, source string) {
		for _, m := range regexp.MustCompile(`(?m)^// Case (\d+)`).FindAllStringSubmatch(source, -1) {
			found[m[1]] = true
		}
	})
	for _, n := range slices.Sorted(maps.Keys(cases)) {
		where := "own"
		switch {
		case envoy[n]:
			where = "both"
		case all[n]:
			where = "hostsim"
		case !found[strconv.Itoa(n)]:
			t.Errorf("case %d runs nowhere", n)
		}
		for row, has := range said {
			if has[n] != (row == where) {
				t.Errorf("case %d: docs/cases.md has it in the row %q: %v; it runs in %q", n, row, has[n], where)
			}
		}
	}
}
