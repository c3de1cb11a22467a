package policy_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/callonce/callonce/plugin/internal/policy"
)

func document(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", "..", file))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// The policy that the README shows is one that people can begin with: no mistake, no warning.
func TestReadmePolicy(t *testing.T) {
	blocks := regexp.MustCompile("(?s)```json\n(.*?)```").FindAllStringSubmatch(document(t, "README.md"), -1)
	if len(blocks) != 1 {
		t.Fatalf("want one block of JSON in README.md, got %d", len(blocks))
	}
	c, mistakes := policy.Parse([]byte(blocks[0][1]))
	if len(mistakes) > 0 {
		t.Fatal(mistakes)
	}
	if w := c.Warnings(); len(w) > 0 {
		t.Errorf("want no warnings, got %q", w)
	}
}

// configuration.md has a row for each member that the reader knows.
func TestEveryMemberHasARow(t *testing.T) {
	text := document(t, "docs/configuration.md")
	_, mistakes := policy.Parse([]byte(`{"?":1,"policies":{"p":{"anonymous":true,"?":1,"tools":[{"match":"a","?":1}],"limits":{"?":1}}}}`))
	if len(mistakes) != 4 {
		t.Fatalf("want the members of four objects, got %v", mistakes)
	}
	for _, m := range mistakes {
		for _, name := range strings.Split(strings.TrimPrefix(m.Expected, "one of "), ", ") {
			if !regexp.MustCompile("(?m)^\\| [^|]*`" + name + "`").MatchString(text) {
				t.Errorf("%s: want a row for %s", m.Pointer, name)
			}
		}
	}
}
