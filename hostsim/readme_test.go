package hostsim

import (
	"os"
	"strings"
	"testing"
)

// longestExample is in lines. A test of one's own filter must look as short as it is.
const longestExample = 24

// The test that the README shows is the one that runs.
func TestReadmeShowsTheExample(t *testing.T) {
	readme, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	example, err := os.ReadFile("example_filter_test.go")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(readme), "```go\n"+string(example)+"```\n") {
		t.Error("README.md shows another text than example_filter_test.go has")
	}
	if n := strings.Count(string(example), "\n"); n > longestExample {
		t.Errorf("the example has %d lines: want at most %d", n, longestExample)
	}
}
