package hostsim_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const module = "github.com/callonce/callonce/"

// hostsim is for anybody's filters: nothing of it knows the one that lives beside it, its protocol or its headers.
func TestKnowsNoFilter(t *testing.T) {
	files := 0
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		files++
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		for _, word := range words(string(text)) {
			t.Errorf("%s: %q", path, word)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if files < 60 {
		t.Errorf("only %d files were looked at", files)
	}
}

// The explorer explores whatever has steps: it knows no host.
func TestExplorerKnowsNoHost(t *testing.T) {
	files, err := filepath.Glob("explore/*.go")
	if err != nil || len(files) == 0 {
		t.Fatalf("no files: %v", err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(text), `"`+module) {
			t.Errorf("%s imports something of this project", file)
		}
	}
}

// The ABI and the VMs are rooms of their own: neither knows what a stream or a connection is.
func TestRoomsOfTheVM(t *testing.T) {
	for room, may := range map[string]string{"abi": "header", "wasm": "abi"} {
		files, err := filepath.Glob("internal/" + room + "/*.go")
		if err != nil || len(files) == 0 {
			t.Fatalf("%s: no files: %v", room, err)
		}
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			for _, line := range strings.Split(string(text), "\n") {
				if from, ours := strings.CutPrefix(strings.TrimSpace(line), `"`+module); ours && from != `hostsim/internal/`+may+`"` {
					t.Errorf("%s imports %s: want %s alone of ours", file, from, may)
				}
			}
		}
	}
}

// words are those of a source that hostsim must not know.
func words(text string) (found []string) {
	text = strings.ReplaceAll(strings.ToLower(text), strings.ToLower(module)+"hostsim", "")
	for _, word := range []string{"callonce", "mcp", "idempotency"} {
		if strings.Contains(text, word) {
			found = append(found, word)
		}
	}
	return found
}

func TestWords(t *testing.T) {
	for text, want := range map[string]string{
		"import \"" + module + "hostsim/serve\"":              "",
		"import \"" + module + "plugin/config\"":              "callonce",
		"import \"" + module + "canonical\"":                  "callonce",
		"state[\"callonce.outcome\"]":                         "callonce",
		"POST /mcp":                                           "mcp",
		"an Idempotency-Key, in MCP":                          "mcp idempotency",
		"// Import \"" + module + "hostsim\", not CallOnce's": "callonce",
	} {
		if got := strings.Join(words(text), " "); got != want {
			t.Errorf("%s: got %q, want %q", text, got, want)
		}
	}
}
