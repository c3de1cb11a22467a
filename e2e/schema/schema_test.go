package schema_test

import (
	"bytes"
	"encoding/json"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/callonce/callonce/plugin/config"
)

func compiled(t *testing.T) *jsonschema.Schema {
	t.Helper()
	text, err := os.ReadFile("../../envoy/configuration.schema.json")
	if err != nil {
		t.Fatal(err)
	}
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource("callonce.json", doc); err != nil {
		t.Fatal(err)
	}
	s, err := c.Compile("callonce.json") // against the meta-schema too
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// unsayable are the mistakes that no JSON Schema can tell: what hangs together of two places, the length of a duration, and
// what text is no strict JSON.
var unsayable = []*regexp.Regexp{
	regexp.MustCompile(`expected one JSON object$|expected each member once$`),
	regexp.MustCompile(`found ".*", expected "off" or the name of a policy$`),
	regexp.MustCompile(`found ".*", expected a duration from `),
	regexp.MustCompile(`expected at least lease `),
	regexp.MustCompile(`expected at most .*, as .* is$`),
	regexp.MustCompile(`expected "strip": true beside it`),
	regexp.MustCompile(`/released_statuses: found statuses, with detach_cluster`),
	regexp.MustCompile(`expected the name of a header that neither`),
	regexp.MustCompile(`found "[^"]*\\ud[89a-f]`), // half of a surrogate pair, which validators read as a replacement
	regexp.MustCompile(`/policies/[^/]+/principal: found an empty list`),
}

// compare judges a text both ways. Whatever the filter takes the schema takes; what the filter refuses the schema refuses
// too, but for the mistakes above.
func compare(t *testing.T, s *jsonschema.Schema, text string) (taken bool) {
	t.Helper()
	_, mistakes := config.Check([]byte(text))
	doc, err := jsonschema.UnmarshalJSON(strings.NewReader(text))
	if err != nil {
		if mistakes == nil {
			t.Errorf("%s: the filter takes what is no JSON: %v", text, err)
		}
		return false
	}
	refused := s.Validate(doc)
	switch {
	case mistakes == nil && refused != nil:
		t.Errorf("%s\nthe filter takes it, the schema does not: %v", text, refused)
	case mistakes != nil && refused == nil:
		for line := range strings.SplitSeq(mistakes.Error(), "\n") {
			sayable := true
			for _, u := range unsayable {
				sayable = sayable && !u.MatchString(line)
			}
			if sayable {
				t.Errorf("%s\nthe schema takes it, the filter says %s", text, line)
			}
		}
	}
	return mistakes == nil
}

// Every configuration, and every piece of one, that stands in the tests of the parser: right ones and mistakes.
func TestAsTheParser(t *testing.T) {
	s := compiled(t)
	files, err := filepath.Glob("../../plugin/internal/policy/*_test.go")
	if err != nil || len(files) == 0 {
		t.Fatalf("%v, %v", files, err)
	}
	taken, refused := 0, 0
	for _, file := range files {
		tree, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(tree, func(n ast.Node) bool {
			l, ok := n.(*ast.BasicLit)
			if !ok || l.Kind != token.STRING {
				return true
			}
			piece, err := strconv.Unquote(l.Value)
			if err != nil || !strings.Contains(piece, `":`) && !strings.HasPrefix(piece, "{") {
				return true
			}
			for _, text := range []string{
				piece,
				`{"policies":{"p":{"anonymous":true,` + piece + `}}}`,
				`{"policies":{"p":{"anonymous":true,"tools":[` + piece + `]}}}`,
			} {
				if compare(t, s, text) {
					taken++
				} else {
					refused++
				}
			}
			return true
		})
	}
	if taken < 50 || refused < 500 {
		t.Errorf("want many of both, got %d taken and %d refused", taken, refused)
	}
	t.Logf("%d taken, %d refused", taken, refused)
}

// Every configuration that users are shown.
func TestExamples(t *testing.T) {
	s := compiled(t)
	found := 0
	for _, pattern := range []string{"README.md", "docs/*.md", "envoy/*.md", "envoy/*.yaml", "envoy/*/*/*.yaml", "e2e/testdata/*.json", "clients/*/README.md"} {
		files, err := filepath.Glob(filepath.Join("../..", pattern))
		if err != nil || len(files) == 0 {
			t.Fatalf("%s: %v, %v", pattern, files, err)
		}
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			for _, at := range regexp.MustCompile(`(?m)^ *\{$`).FindAllIndex(text, -1) {
				var block json.RawMessage
				if json.NewDecoder(bytes.NewReader(text[at[0]:])).Decode(&block) != nil || !bytes.Contains(block, []byte(`"policies"`)) {
					continue
				}
				found++
				if !compare(t, s, string(block)) {
					t.Errorf("%s: the filter does not take\n%s", file, block)
				}
			}
		}
	}
	if found < 5 {
		t.Errorf("want several, found %d", found)
	}
	t.Logf("%d found", found)
}
