package guard

import (
	"os"
	"regexp"
	"slices"
	"testing"

	"github.com/callonce/callonce/plugin/internal/mcp"
)

// A new answer, or a new cause, without its row would take the meaning of the first: complete, and no cause.
func TestTablesAreFull(t *testing.T) {
	source, err := os.ReadFile("cause.go")
	if err != nil {
		t.Fatal(err)
	}
	words := regexp.MustCompile(`(?m)^\tby\w+ += "(\w+)"`).FindAllStringSubmatch(string(source), -1)
	if len(words) < 27 {
		t.Fatalf("%d causes found", len(words))
	}
	for _, w := range words {
		if !slices.Contains(storedCauses[:], w[1]) {
			t.Errorf("the cause %s has no number in storedCauses", w[1])
		}
	}
	for number, word := range storedCauses {
		if number > 0 && word == "" {
			t.Errorf("the number %d of storedCauses has no word", number)
		}
	}
	// Malformed is the last.
	for of, rows := range map[string]int{"rules": len(messageRules), "causes": len(answerCauses)} {
		if n := int(mcp.Malformed) + 1; rows != n {
			t.Errorf("%d answers, %d %s of them", n, rows, of)
		}
	}
	for a, cause := range answerCauses {
		if cause == "" {
			t.Errorf("the answer %d has no cause", a)
		}
	}
}
