package docs_test

import (
	"go/parser"
	"go/token"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// costly are packages that the module does not carry.
var costly = []string{"encoding/json", "fmt", "reflect"}

// Packages import of each other what the table in CONTRIBUTING.md allows, and what is compiled into the module nothing
// costly.
func TestImports(t *testing.T) {
	_, table, ok := strings.Cut(read(t, "CONTRIBUTING.md"), "| package | may import of ours |\n")
	if !ok {
		t.Fatal("CONTRIBUTING.md: no table of what packages may import")
	}
	table, _, _ = strings.Cut(table, "\n\n")
	allowed, name := map[string][]string{}, regexp.MustCompile("`([a-z]+)`")
	for _, row := range strings.Split(table, "\n") {
		cells := strings.Split(row, "|")
		if len(cells) != 4 {
			continue
		}
		may := []string{}
		for _, m := range name.FindAllStringSubmatch(cells[2], -1) {
			may = append(may, m[1])
		}
		for _, m := range name.FindAllStringSubmatch(cells[1], -1) {
			allowed[m[1]] = may
		}
	}
	// room gives the package of the table that a folder belongs to, "" for none.
	room := func(folder string) string {
		if rest, ok := strings.CutPrefix(folder, "plugin/internal/"); ok {
			folder, _, _ = strings.Cut(rest, "/")
			return folder
		}
		if strings.HasPrefix(folder, "plugin/sdk/") {
			return "sdk"
		}
		if folder, _, _ = strings.Cut(folder, "/"); folder == "canonical" {
			return folder
		}
		return ""
	}
	imports := 0
	each(t, ".go", func(file, source string) {
		of := room(file)
		if of == "" || strings.HasSuffix(file, "_test.go") || strings.Contains(file, "/testdata/") || strings.Contains(file, "/realtest/") {
			return
		}
		may, known := allowed[of]
		if !known {
			t.Errorf("%s: CONTRIBUTING.md does not say what %s may import", file, of)
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), file, source, parser.ImportsOnly)
		if err != nil {
			t.Fatal(err)
		}
		for _, i := range parsed.Imports {
			from, _ := strconv.Unquote(i.Path.Value)
			if slices.Contains(costly, from) {
				t.Errorf("%s imports %s, which the module would carry", file, from)
			}
			folder, ours := strings.CutPrefix(from, "github.com/callonce/callonce/")
			if !ours {
				continue
			}
			imports++
			if to := room(folder); to != of && !slices.Contains(may, to) {
				t.Errorf("%s imports %s: %s may import %v of ours", file, folder, of, may)
			}
		}
	})
	if imports < 20 {
		t.Errorf("%d imports found: does the pattern still fit?", imports)
	}
}
