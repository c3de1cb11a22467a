package e2e_test

import (
	"crypto/tls"
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/callonce/callonce/e2e/callers"
	"github.com/callonce/callonce/e2e/envoytest"
)

const keysConfig = `{"namespace":"e2e","policies":{"payments":{"server":"s","strip":true,"tools":[{"match":"charge","guard":"required"}],
	"principal":["metadata:envoy.filters.http.jwt_authn/payload/sub"],
	"operators":{"path":"/callonce/keys","principal":["metadata:envoy.filters.http.jwt_authn/payload/roles=payments-ops"]}}},"default":"payments"}`

// The route that docs/operators.md gives the interface, and the command that it shows: what nobody knows is listed and released, and its
// repeat runs. Nothing of the interface's ever reaches the server.
func TestKeysCommand(t *testing.T) {
	var paths []string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		paths = append(paths, r.URL.Path)
		w.WriteHeader(502)
	}))
	defer server.Close()
	v := startVerifier(t, envoytest.Options{Plugin: must(t, buildPlugin), Config: keysConfig, Upstream: server.URL}, everybodyPasses, func(e *envoytest.Tree) {
		e.Insert(listOf(t, block(t, "docs/operators.md", "yaml", "- name: callonce-keys")), envoytest.Host.To("routes")...)
	})
	ada := callers.Client{Token: v.realm.Token(callers.First, "ada", nil)}
	charge := func() int {
		resp, _ := sendBy(t, v.transport(t, ada), "POST", v.URL(), chargeBody, "Idempotency-Key", "secret")
		return resp.StatusCode
	}
	if got := charge(); got != 502 {
		t.Fatalf("the first call gets %d", got)
	}
	dir := t.TempDir()
	file := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	c, err := tls.Dial("tcp", strings.TrimPrefix(v.URL(), "https://"), &tls.Config{InsecureSkipVerify: true})
	if err != nil {
		t.Fatal(err)
	}
	ca := file("ca.pem", string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: c.ConnectionState().PeerCertificates[0].Raw})))
	c.Close()
	token := file("token", v.realm.Token(callers.First, "olga", map[string]any{"roles": []string{"payments-ops"}}))
	// The command lines of docs/operators.md are among those that run here, with this proxy's address and authority.
	shown := strings.NewReplacer("dist/callonce keys ", "", "https://proxy.example", v.URL())
	lines := regexp.MustCompile(`(?m)^    (dist/callonce keys .*)$`).FindAllStringSubmatch(document(t, "docs/operators.md"), -1)
	if len(lines) != 3 {
		t.Fatalf("want three command lines in docs/operators.md, got %q", lines)
	}
	run := func(tokenFile string, args ...string) (string, error) {
		args = append(append([]string{"keys"}, args...), "--url", v.URL()+"/callonce/keys", "--ca", ca, "--token-file", tokenFile)
		out, err := exec.CommandContext(t.Context(), must(t, buildCommand), args...).CombinedOutput()
		return string(out), err
	}
	if out, err := run(file("ada", ada.Token), "list"); err == nil || !strings.Contains(out, "403 Forbidden: no identity that was verified fits") {
		t.Errorf("a caller lists keys: %s", out)
	}
	out, err := run(token, "list", "--state", "outcome_unknown", "--tool", "charge")
	row := regexp.MustCompile(`(?m)^([0-9a-f]{16}) +outcome_unknown +charge .* status_5xx 502 `).FindStringSubmatch(out)
	if err != nil || row == nil || !strings.HasSuffix(out, "\n1 key\n") {
		t.Fatalf("%v: %s", err, out)
	}
	for _, act := range []string{"refused", "released"} {
		if got := charge(); got != 200 { // a refusal
			t.Errorf("before it is %s a repeat gets %d", act, got)
		}
		if out, err := run(token, "resolve", row[1], "--to", act, "--reason", "looked into the books", "--yes"); err != nil {
			t.Fatalf("%s: %v: %s", act, err, out)
		}
	}
	if got := charge(); got != 502 || len(paths) != 2 {
		t.Errorf("released, a repeat gets %d, and the server saw %q", got, paths)
	}
	for i, want := range []string{"0 keys", row[1], "released"} {
		line := strings.Replace(shown.Replace(lines[i][1]), "5f2b9c0d1e3a4b67", row[1], 1) + " --ca " + ca
		if strings.Contains(line, "resolve") {
			line += " --yes"
		}
		cmd := exec.CommandContext(t.Context(), "sh", "-c", must(t, buildCommand)+" keys "+line)
		cmd.Dir = dir // where token lies
		if out, err := cmd.CombinedOutput(); err != nil || !strings.Contains(string(out), want) {
			t.Errorf("%s: want %q, got %v: %s", line, want, err, out)
		}
	}
	if got := charge(); got != 502 {
		t.Errorf("released by the line of the document, a repeat gets %d", got)
	}
	if out, err := run(token, "show", row[1]); err != nil || !strings.Contains(out, "outcome_unknown") {
		t.Errorf("%v: %s", err, out)
	}
	if strings.Contains(strings.Join(paths, " "), "callonce") {
		t.Errorf("the server saw %q", paths)
	}
}
