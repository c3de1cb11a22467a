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
	if n < 25 {
		t.Errorf("%d names found: does the pattern still fit?", n)
	}
}

// The picture of the house shows folders that are there, and every package that is compiled into the filter.
func TestTheHouse(t *testing.T) {
	page := read(t, "CONTRIBUTING.md")
	_, picture, _ := strings.Cut(page, "\n```\ncanonical/")
	picture, _, ok := strings.Cut("canonical/"+picture, "\n```\n")
	if !ok {
		t.Fatal("CONTRIBUTING.md: no picture of the house that begins with canonical/")
	}
	there := map[string]bool{}
	each(t, ".go", func(file, _ string) {
		for at := path.Dir(file); at != "."; at = path.Dir(at) {
			there[at] = true
		}
	})
	there["envoy"] = true
	shown, top := map[string]bool{}, ""
	for _, m := range regexp.MustCompile(`(?m)^( *)([a-z0-9/]+)/ {2,}`).FindAllStringSubmatch(picture, -1) {
		folder := m[2]
		if m[1] == "" {
			top = folder
		} else {
			folder = path.Join(top, folder)
		}
		shown[folder] = true
		if !there[folder] {
			t.Errorf("CONTRIBUTING.md shows %s, which is not there", folder)
		}
	}
	for folder := range there {
		if path.Dir(folder) == "plugin/internal" && !shown[folder] {
			t.Errorf("CONTRIBUTING.md does not show %s", folder)
		}
	}
}
