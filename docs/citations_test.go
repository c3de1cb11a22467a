package docs_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// section finds where a text cites a section of the contract, rule where it cites a rule of the contract's order of
// decisions, numbered where it cites a case from the field, and document where it names a document.
var (
	section = []*regexp.Regexp{
		regexp.MustCompile(`[Cc]ontract\b[^.;:]{0,48}?\bsection (\d+)`),
		regexp.MustCompile(`\bsection (\d+) of the contract`),
	}
	rule     = regexp.MustCompile(`\b[Rr]ules? (\d+)(?: to (\d+))? of the contract`)
	numbered = regexp.MustCompile(`\b[Cc]ases? (\d+(?:(?:,| and| to) \d+)*)`)
	number   = regexp.MustCompile(`\d+`)
	document = regexp.MustCompile(`[A-Za-z0-9_./-]*[A-Za-z0-9_-]\.md\b`)
)

// law is what can be cited.
type law struct {
	sections, rules, cases map[int]bool
}

func readLaw(t *testing.T) law {
	t.Helper()
	contract := read(t, "docs/contract.md")
	begin, end := strings.Index(contract, "\n## 1. "), strings.Index(contract, "\n### Where a key may stand")
	if begin < 0 || end < begin {
		t.Fatal("docs/contract.md: no section 1 with the order of decisions")
	}
	return law{
		sections: numbers(contract, `(?m)^## (\d+)\. `),
		rules:    numbers(contract[begin:end], `(?m)^(\d+)\. `),
		cases:    numbers(read(t, "docs/cases.md"), `(?m)^(\d+)\. `),
	}
}

func numbers(text, pattern string) map[int]bool {
	all := map[int]bool{}
	for _, m := range regexp.MustCompile(pattern).FindAllStringSubmatch(text, -1) {
		n, _ := strconv.Atoi(m[1])
		all[n] = true
	}
	return all
}

// Every section and rule of the contract, every case from the field and every document that a comment cites is there, and
// so in texts of tests that name a case. A fact is cited by the document that has it.
func TestCitations(t *testing.T) {
	law := readLaw(t)
	cited := map[string]int{}
	want := func(kind string, there map[int]bool, where, digits string) {
		n, _ := strconv.Atoi(digits)
		cited[kind]++
		if !there[n] {
			t.Errorf("%s cites %s %d, which is not there", where, kind, n)
		}
	}
	comment := func(file, where, text string) {
		text = strings.Join(strings.Fields(text), " ")
		for _, s := range section {
			for _, m := range s.FindAllStringSubmatch(text, -1) {
				if !strings.Contains(m[0], "RFC") {
					want("section", law.sections, where, m[1])
				}
			}
		}
		for _, m := range rule.FindAllStringSubmatch(text, -1) {
			want("rule", law.rules, where, m[1])
			if m[2] != "" {
				want("rule", law.rules, where, m[2])
			}
		}
		for _, m := range numbered.FindAllStringSubmatch(text, -1) {
			for _, n := range number.FindAllString(m[1], -1) {
				want("case", law.cases, where, n)
			}
		}
		for _, name := range document.FindAllString(text, -1) {
			cited["document"]++
			if !exists(file, name) {
				t.Errorf("%s names %s, which is not there", where, name)
			}
		}
		if strings.Contains(text, "facts measured") || strings.Contains(text, "measured facts") {
			t.Errorf("%s cites measured facts without their document, docs/facts.md", where)
		}
	}
	each(t, ".go", func(file, source string) {
		files := token.NewFileSet()
		parsed, err := parser.ParseFile(files, file, source, parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		for _, group := range parsed.Comments {
			comment(file, files.Position(group.Pos()).String(), group.Text())
		}
		ast.Inspect(parsed, func(n ast.Node) bool {
			lit, ok := n.(*ast.BasicLit)
			if !ok || lit.Kind != token.STRING || !strings.HasSuffix(file, "_test.go") {
				return true
			}
			for _, m := range regexp.MustCompile(`\(cases? (\d+)`).FindAllStringSubmatch(lit.Value, -1) {
				want("case", law.cases, files.Position(lit.Pos()).String(), m[1])
			}
			return true
		})
	})
	for _, page := range []string{"docs/ledger.md", "docs/facts.md", "docs/configuration.md", "RATIONALE.md", "README.md", "CONTRIBUTING.md"} {
		comment(page, page, read(t, page))
	}
	// A pattern that finds nothing any more shows nothing.
	for kind, least := range map[string]int{"section": 5, "rule": 2, "case": 30, "document": 10} {
		if cited[kind] < least {
			t.Errorf("%d citations of a %s found, expected at least %d: does the pattern still fit?", cited[kind], kind, least)
		}
	}
}

// exists reports whether a document is there: below the project's folder, beside the file that names it, or in docs.
func exists(file, name string) bool {
	for _, folder := range []string{".", path.Dir(file), "docs"} {
		if _, err := os.Stat(filepath.Join(root, folder, filepath.FromSlash(name))); err == nil {
			return true
		}
	}
	return false
}

// Tests that the documents name are there.
func TestNamedTests(t *testing.T) {
	there := map[string]bool{}
	each(t, "_test.go", func(_, source string) {
		for _, m := range regexp.MustCompile(`(?m)^func (Test\w+|Example\w*)\(`).FindAllStringSubmatch(source, -1) {
			there[m[1]] = true
		}
	})
	for file, text := range documents(t) {
		for _, name := range regexp.MustCompile(`\bTest[A-Z]\w+`).FindAllString(text, -1) {
			if !there[name] {
				t.Errorf("%s names %s, which is not there", file, name)
			}
		}
	}
}
