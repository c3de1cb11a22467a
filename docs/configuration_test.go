package docs_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/callonce/callonce/plugin/policy"
)

func read(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", file))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// The policy that the README shows is one that people can begin with: no mistake, no warning.
func TestReadmePolicy(t *testing.T) {
	blocks := regexp.MustCompile("(?s)```json\n(.*?)```").FindAllStringSubmatch(read(t, "README.md"), -1)
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
func TestEveryMember(t *testing.T) {
	text := read(t, "docs/configuration.md")
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

// What is said in several places is the same in all of them.
func TestSaidAlike(t *testing.T) {
	for line, files := range map[string][]string{
		`metadata: {filter_metadata: {callonce: {policy: "off"}}}`:                          {"README.md", "docs/configuration.md", "envoy/envoy.yaml", "envoy/mtls-jwt.yaml"},
		"envoy -c envoy/envoy.yaml --use-dynamic-base-id --file-flush-interval-msec 1000\n": {"README.md", "envoy/README.md", "envoy/envoy.yaml"},
	} {
		for _, file := range files {
			if !strings.Contains(read(t, file), line) {
				t.Errorf("%s: want %s", file, line)
			}
		}
	}
}
