package docs_test

import (
	"io/fs"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// root is the project's folder.
const root = ".."

// notOurs are folders that hold what was built or installed.
var notOurs = []string{".git", "dist", "node_modules", ".tools", ".toolchains"}

// each calls f for every file of the project whose name ends so, with its slash-separated path below the project's folder.
func each(t *testing.T, suffix string, f func(file, text string)) {
	t.Helper()
	n := 0
	err := filepath.WalkDir(root, func(at string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && slices.Contains(notOurs, d.Name()) {
			return fs.SkipDir
		}
		if d.Type().IsRegular() && strings.HasSuffix(d.Name(), suffix) {
			file, err := filepath.Rel(root, at)
			if err != nil {
				return err
			}
			n++
			f(filepath.ToSlash(file), read(t, file))
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if n == 0 {
		t.Fatalf("no file *%s: this test looks in the wrong place", suffix)
	}
}

// documents are the Markdown files, by their path.
func documents(t *testing.T) map[string]string {
	t.Helper()
	all := map[string]string{}
	each(t, ".md", func(file, text string) {
		if !strings.Contains(path.Dir(file), "testdata") {
			all[file] = text
		}
	})
	return all
}
