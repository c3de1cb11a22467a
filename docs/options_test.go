package docs_test

import (
	"regexp"
	"strings"
	"testing"
)

var (
	testFlag    = regexp.MustCompile(`flag\.(?:Bool|Int|Uint64|String|Duration)\("([a-z0-9-]+)"`)
	environment = regexp.MustCompile(`\bCALLONCE_[A-Z_]+\b`)
	listed      = regexp.MustCompile("`(-[a-z][a-z-]*|CALLONCE_[A-Z_]+)[ =`]")
)

// Every option of the tests is in the list that CONTRIBUTING.md has of them, and nothing is that the tests do not have.
func TestOptions(t *testing.T) {
	_, list, ok := strings.Cut(read(t, "CONTRIBUTING.md"), "| option | of which tests | what it does |\n")
	if !ok {
		t.Fatal("CONTRIBUTING.md: no list of options")
	}
	list, _, _ = strings.Cut(list, "\n\n")
	told, there := map[string]bool{}, map[string]bool{}
	for _, m := range listed.FindAllStringSubmatch(list, -1) {
		told[m[1]] = true
	}
	each(t, ".go", func(file, source string) {
		if strings.HasPrefix(file, "docs/") {
			return
		}
		for _, name := range environment.FindAllString(source, -1) {
			there[name] = true
		}
		if strings.HasSuffix(file, "_test.go") {
			for _, m := range testFlag.FindAllStringSubmatch(source, -1) {
				there["-"+m[1]] = true
			}
		}
	})
	for name := range there {
		if !told[name] {
			t.Errorf("CONTRIBUTING.md does not list %s", name)
		}
	}
	for name := range told {
		if !there[name] {
			t.Errorf("CONTRIBUTING.md lists %s, which no test has", name)
		}
	}
}
