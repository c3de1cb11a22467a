package e2e_test

import (
	"cmp"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/callonce/callonce/e2e/tools"
)

var rewrite = flag.Bool("rewrite", false, "write what was seen into docs/agents.md")

// checkDocument compares a part of docs/agents.md, which stands between two comments of
// its name, with what was seen.
func checkDocument(t *testing.T, part, want string) {
	t.Helper()
	root := must(t, tools.Root)
	file := filepath.Join(root, "docs", "agents.md")
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	begin, end := "<!-- "+part+" -->\n", "<!-- end of "+part+" -->\n"
	before, rest, found := strings.Cut(string(text), begin)
	got, after, ended := strings.Cut(rest, end)
	if !found || !ended {
		t.Fatalf("%s: want a part between %q and %q", file, begin, end)
	}
	if got == want {
		return
	}
	if !*rewrite {
		t.Errorf("%s, %s: want what was seen (go test -run %s -rewrite writes it):\n%s\nit has\n%s", file, part, t.Name(), want, got)
		return
	}
	if err := os.WriteFile(file, []byte(before+begin+want+end+after), 0o600); err != nil {
		t.Fatal(err)
	}
}

// table holds what was seen: shape, then client, then a case's name → words.
type table map[string]map[string]map[string]string

func (c refusalCase) name() string {
	name := "`" + c.refusal + "`"
	if c.why != "" {
		name += " (" + c.why + ")"
	}
	return name
}

func (seen table) note(shape, client string, c refusalCase, got answerSeen) {
	if seen[shape] == nil {
		seen[shape] = map[string]map[string]string{}
	}
	if seen[shape][client] == nil {
		seen[shape][client] = map[string]string{}
	}
	seen[shape][client][c.name()] = words(c, got)
}

// words says what a program gets at a client.
func words(c refusalCase, got answerSeen) string {
	switch {
	case got.Kind == "connection_lost":
		return "**the connection ends**"
	case got.Kind == "tool_error" && got.Data != nil:
		return "a result with `isError`, `data` in `_meta`"
	case got.Kind == "error" && got.Code == c.code && got.Data["type"] != nil:
		return "the error, with `code` and `data`"
	case strings.Contains(got.Text, c.refusal):
		return "an exception, the body in its text"
	}
	return "an exception without the refusal"
}

// text is a table of Markdown for each shape; refusals that look the same share a row.
func (seen table) text() string {
	var b strings.Builder
	for _, shape := range shapes {
		fmt.Fprintf(&b, "With `\"reply\": \"%s\"`:\n\n| refusal |", shape)
		for _, client := range officialClients {
			fmt.Fprintf(&b, " %s |", clientNames[client.name])
		}
		b.WriteString("\n|" + strings.Repeat(" --- |", len(officialClients)+1) + "\n")
		var rows []string
		names := map[string][]string{}
		for _, c := range refusalCases {
			var cells strings.Builder
			for _, client := range officialClients {
				fmt.Fprintf(&cells, " %s |", cmp.Or(seen[shape][client.name][c.name()], "?"))
			}
			row := cells.String()
			if names[row] == nil {
				rows = append(rows, row)
			}
			names[row] = append(names[row], c.name())
		}
		for _, row := range rows {
			fmt.Fprintf(&b, "| %s |%s\n", strings.Join(names[row], ", "), row)
		}
		b.WriteString("\n")
	}
	return b.String()
}

var clientNames = map[string]string{
	"go": "Go", "python 1.x": "Python 1.x", "python 2.x": "Python 2.x", "typescript 1.x": "TypeScript 1.x", "typescript 2.x": "TypeScript 2.x",
}

// whatToDo is a table of what each refusal says, as the clients above were seen to get it.
func whatToDo() string {
	var b strings.Builder
	b.WriteString("| `data.type` | status with `http` | code | `may_have_run` | `retry` |\n| --- | --- | --- | --- | --- |\n")
	for _, c := range refusalCases {
		fmt.Fprintf(&b, "| %s | %s | %d | `%s` | `%s` |\n", c.name(), c.status, c.code, c.mayHaveRun, c.retry)
	}
	return b.String()
}
