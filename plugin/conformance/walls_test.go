package conformance

import (
	"go/parser"
	"go/token"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// The kit knows only HTTP: whoever has another host, or another filter that keeps the same promises, can take it as it is.
func TestKitKnowsOnlyHTTP(t *testing.T) {
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	looked := 0
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		looked++
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ImportsOnly)
		if err != nil {
			t.Fatal(err)
		}
		for _, i := range parsed.Imports {
			path, err := strconv.Unquote(i.Path.Value)
			if err != nil || strings.HasPrefix(path, "github.com/callonce/") {
				t.Errorf("%s imports %s: want nothing of this project", file, i.Path.Value)
			}
		}
	}
	if looked < 20 {
		t.Errorf("only %d files were looked at", looked)
	}
}
