package conformance

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var firstLine = regexp.MustCompile(`callonce (\S+)(?: \(([0-9a-f]{12}), [^)]+\))? go1\.\S+`)

// FirstLine holds the filter to the first line that it logs: which build it is, with the revision of the repository at root where the
// go command stamps that into what it builds there.
func FirstLine(t *testing.T, f Front, root string) {
	u := newUpstream(t, asJSON)
	p := f.Start(t, Setup{Config: `{"policies":{"p":{"server":"s","anonymous":true}},"default":"p"}`, Upstream: u.URL})
	logs := p.Logs()
	at := firstLine.FindStringSubmatchIndex(logs)
	if at == nil {
		t.Fatalf("no line says which build this is:\n%s", logs)
	}
	if later := strings.Index(logs, "the ledger holds"); later < at[0] {
		t.Errorf("that is not the first line:\n%s", logs)
	}
	line, revision := logs[at[0]:at[1]], ""
	if at[4] >= 0 {
		revision = logs[at[4]:at[5]]
	}
	if want := stamped(root); revision != want {
		t.Errorf("%q: revision %q, want %q", line, revision, want)
	}
}

// stamped is the revision that the go command stamps into what it builds in a folder, "" where it stamps none: in no repository, in a
// second working tree of one, or where its flags say so.
func stamped(root string) string {
	if dir, err := os.Stat(filepath.Join(root, ".git")); err != nil || !dir.IsDir() {
		return ""
	}
	if flags, err := exec.Command("go", "env", "GOFLAGS").Output(); err != nil || strings.Contains(string(flags), "-buildvcs=false") {
		return ""
	}
	head, err := exec.Command("git", "-C", root, "rev-parse", "--short=12", "HEAD").Output()
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(head))
}
