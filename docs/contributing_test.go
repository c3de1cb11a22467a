package docs_test

import (
	"path"
	"regexp"
	"strings"
	"testing"
)

// Files of Go that CONTRIBUTING.md sends people to are there, and so are the names that it tells them to look for.
func TestWhereToAddWhat(t *testing.T) {
	_, table, ok := strings.Cut(read(t, "CONTRIBUTING.md"), "\n## Where to add what\n")
	if !ok {
		t.Fatal("CONTRIBUTING.md: no section Where to add what")
	}
	table, _, _ = strings.Cut(table, "\n## ")
	files, words := map[string]bool{}, map[string]bool{}
	word := regexp.MustCompile(`[A-Za-z]+`)
	each(t, ".go", func(file, source string) {
		files[path.Base(file)] = true
		files[file] = true
		files[strings.TrimPrefix(file, "plugin/internal/")] = true
		for _, w := range word.FindAllString(source, -1) {
			words[w] = true
		}
	})
	n := 0
	for _, name := range regexp.MustCompile(`[A-Za-z0-9_/]+\.go\b`).FindAllString(table, -1) {
		n++
		if !files[name] {
			t.Errorf("CONTRIBUTING.md sends to %s, which is not there", name)
		}
	}
	for _, m := range regexp.MustCompile("`([a-zA-Z]+(?:\\.[a-zA-Z]+)?)`").FindAllStringSubmatch(table, -1) {
		n++
		for _, w := range strings.Split(m[1], ".") {
			if !words[w] {
				t.Errorf("CONTRIBUTING.md tells of `%s`, which no Go file has", m[1])
			}
		}
	}
	if n < 30 {
		t.Errorf("%d names found: does the pattern still fit?", n)
	}
}
