package docs_test

import (
	"go/parser"
	"go/token"
	"path"
	"strings"
	"testing"
)

// Every package says what it is for; one that others import, what it must not know as well.
func TestPackageDocs(t *testing.T) {
	comments, names := map[string]string{}, map[string]string{}
	each(t, ".go", func(file, source string) {
		folder := path.Dir(file)
		if strings.HasSuffix(file, "_test.go") || strings.Contains(folder, "testdata") {
			return
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), file, source, parser.ParseComments|parser.PackageClauseOnly)
		if err != nil {
			t.Fatal(err)
		}
		names[folder] = parsed.Name.Name
		comments[folder] += parsed.Doc.Text()
	})
	for folder, name := range names {
		switch doc := comments[folder]; {
		case name == "main":
			if !strings.HasPrefix(doc, "Command ") {
				t.Errorf("%s: want a comment that begins with Command, found %.40q", folder, doc)
			}
		case !strings.HasPrefix(doc, "Package "+name+" "):
			t.Errorf("%s: want a comment that begins with Package %s, found %.40q", folder, name, doc)
		case !strings.Contains(doc, "know") && !strings.Contains(doc, "decides nothing") && !strings.Contains(doc, "is pure"):
			t.Errorf("%s: want a word on what the package must not know", folder)
		}
	}
}
