package e2e_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/callonce/callonce/e2e/envoytest"
	"github.com/callonce/callonce/e2e/hostsimcmd"
	"github.com/callonce/callonce/e2e/payments"
	"github.com/callonce/callonce/e2e/tools"
)

// document gives a document of the project.
func document(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(must(t, tools.Root), filepath.FromSlash(name)))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// block gives the block in a document, of a language, that begins so.
func block(t *testing.T, name, language, begins string) string {
	t.Helper()
	_, rest, found := strings.Cut(document(t, name), "```"+language+"\n"+begins)
	if !found {
		t.Fatalf("%s has no block of %s that begins with %q", name, language, begins)
	}
	text, _, _ := strings.Cut(rest, "```")
	return begins + text
}

// listOf reads a block of YAML that is a list of objects.
func listOf(t *testing.T, text string) (list []any) {
	t.Helper()
	if err := yaml.Unmarshal([]byte(text), &list); err != nil {
		t.Fatalf("%v in\n%s", err, text)
	}
	return list
}

// What the READMEs of the clients show runs as it stands, against the filter: the same intent again, from another process, gets the first
// answer.
func TestClientReadmes(t *testing.T) {
	server := startPayments(t, payments.Options{Stateless: true})
	h, err := hostsimcmd.Start(t.Context(), hostsimcmd.Options{Binary: must(t, buildCommand), Plugin: must(t, buildPlugin), Upstream: server.URL()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(h.Stop)
	url := h.URL() + "/mcp"
	for name, command := range map[string]func(t *testing.T, dir, url string) *exec.Cmd{"go": readmeGo, "python": readmePython, "typescript": readmeTypeScript} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir() // where keys.json comes to lie
			for i, want := range []string{"replayed false", "replayed true"} {
				cmd := command(t, dir, url)
				out, err := cmd.CombinedOutput()
				if err != nil || !strings.HasSuffix(strings.TrimSpace(string(out)), want) {
					t.Fatalf("run %d: want %q, got %v\n%s", i, want, err, out)
				}
			}
			if keys, err := os.ReadFile(filepath.Join(dir, "keys.json")); err != nil || !strings.Contains(string(keys), "order 17: charge") {
				t.Errorf("want the intent's key in keys.json, got %q, %v", keys, err)
			}
		})
	}
}

func written(t *testing.T, dir, name, text string) string {
	t.Helper()
	file := filepath.Join(dir, name)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

func readmeGo(t *testing.T, dir, url string) *exec.Cmd {
	file := written(t, dir, "main.go", `package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"

	callonce "github.com/callonce/callonce/clients/go"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

func main() {
	ctx, url, arguments := context.Background(), os.Args[1], map[string]any{"customer": "ada"}
	client := mcp.NewClient(&mcp.Implementation{Name: "readme", Version: "1.0.0"}, nil)
	if err := os.Chdir(os.Args[2]); err != nil {
		panic(err)
	}
`+block(t, "clients/go/README.md", "go", "caller :=")+`
	fmt.Println("replayed", outcome.Replayed, err)
	_ = result
}
`)
	// What it imports is found from a folder of this module.
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	source := strings.Replace(string(text), `outcome.Replayed, err)`, `outcome.Replayed)`, 1)
	source = strings.Replace(source, "// …", "if err != nil { panic(err) }", 1)
	file = written(t, dir, "main.go", source)
	return exec.CommandContext(t.Context(), "go", "run", file, url, dir)
}

func readmePython(t *testing.T, dir, url string) *exec.Cmd {
	snippet := "    " + strings.ReplaceAll(strings.TrimSpace(block(t, "clients/python/README.md", "python", "import callonce")), "\n", "\n    ")
	snippet = strings.ReplaceAll(snippet, "...  #", "raise  #")
	file := written(t, dir, "main.py", "import asyncio, sys\nurl = sys.argv[1]\n\nasync def main():\n"+snippet+"\n            print('replayed', str(callonce.replayed(result)).lower())\n\nasyncio.run(main())\n")
	cmd := exec.CommandContext(t.Context(), must(t, tools.Python), file, url)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), "PYTHONPATH="+filepath.Join(must(t, tools.Root), "clients", "python"))
	return cmd
}

func readmeTypeScript(t *testing.T, dir, url string) *exec.Cmd {
	node, err := tools.NodeTools()
	if err != nil {
		t.Fatal(err)
	}
	tsc, err := tools.TypeScript()
	if err != nil {
		t.Fatal(err)
	}
	modules := filepath.Join(dir, "node_modules")
	if err := os.MkdirAll(modules, 0o755); err != nil {
		t.Fatal(err)
	}
	there, err := os.ReadDir(node.Modules)
	if err != nil {
		t.Fatal(err)
	}
	links := map[string]string{"callonce": filepath.Dir(must(t, buildTypeScript))}
	for _, e := range there {
		links[e.Name()] = filepath.Join(node.Modules, e.Name())
	}
	for name, to := range links {
		if err := os.Symlink(to, filepath.Join(modules, name)); err != nil && !errors.Is(err, os.ErrExist) {
			t.Fatal(err)
		}
	}
	text := strings.Replace(block(t, "clients/typescript/README.md", "ts", "import {"), "\nawait client.connect", `
import { replayed } from "callonce";
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";
const url = process.argv[2]!;
const client = new Client({ name: "readme", version: "1.0.0" });
await client.connect`, 1)
	text = regexp.MustCompile(`(?m)^(  const result = .*;)$`).ReplaceAllString(text, "$1\n  console.log(`replayed ${replayed(result)}`);")
	text = strings.Replace(text, "} catch (fault) {", "} catch (fault) {\n  console.log(fault);", 1)
	file := written(t, dir, "main.mts", text+"process.exit(0);\n")
	compile := exec.CommandContext(t.Context(), tsc[0], append(tsc[1:], "--strict", "--skipLibCheck", "--module", "nodenext", "--target", "es2022", "--types", "node", file)...)
	compile.Dir = dir
	if out, err := compile.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s\n%s", err, out, text)
	}
	cmd := exec.CommandContext(t.Context(), node.Binary, filepath.Join(dir, "main.mjs"), url)
	cmd.Dir = dir
	return cmd
}

// The clusters that docs/etcd.md shows are taken by Envoy, alone and with what it adds for several members and for TLS; and so is the route of
// docs/configuration.md for what is no MCP.
func TestDocumentsYAML(t *testing.T) {
	p := newPKI(t)
	p.client("callonce")
	files := strings.NewReplacer("callonce.pem", p.file("callonce.pem"), "callonce.key", p.file("callonce.key"), "ca.pem", p.file("ca.pem"))
	var etcd struct{ Clusters []any }
	if err := yaml.Unmarshal([]byte(block(t, "docs/etcd.md", "yaml", "clusters:")), &etcd); err != nil || len(etcd.Clusters) != 1 {
		t.Fatalf("want one cluster, got %v, %v", etcd, err)
	}
	cluster, _ := etcd.Clusters[0].(map[string]any)
	for _, more := range []string{"", block(t, "docs/etcd.md", "yaml", "  health_checks:"), files.Replace(block(t, "docs/etcd.md", "yaml", "  transport_socket:"))} {
		var add map[string]any
		if err := yaml.Unmarshal([]byte(more), &add); err != nil {
			t.Fatal(err)
		}
		for name, v := range add {
			cluster[name] = v
		}
		validate(t, map[string]any{"static_resources": map[string]any{"clusters": []any{cluster}}})
	}

	// The rest of a path's requests pass, and are no calls.
	server := startRecorder(t)
	e := startEnvoy(t, envoytest.Options{Plugin: must(t, buildPlugin), Upstream: server.URL, Edit: func(e *envoytest.Tree) {
		routes := e.At(envoytest.Host.To("routes")...).([]any)
		e.Set(append(routes[:len(routes)-1:len(routes)-1], listOf(t, block(t, "docs/configuration.md", "yaml", "- name: other"))...), envoytest.Host.To("routes")...)
	}})
	if resp, _ := send(t, "POST", strings.TrimSuffix(e.URL(), "/mcp")+"/token", "grant_type=x", "Content-Type", "application/x-www-form-urlencoded"); resp.StatusCode == http.StatusBadRequest {
		t.Errorf("a form that is no call is refused: %s", resp.Status)
	}
}

// validate lets Envoy judge a configuration.
func validate(t *testing.T, config map[string]any) {
	t.Helper()
	text, err := json.Marshal(config)
	if err != nil {
		t.Fatal(err)
	}
	file := written(t, t.TempDir(), "envoy.json", string(text))
	out, err := exec.CommandContext(t.Context(), must(t, tools.Envoy), "--mode", "validate", "-c", file, "--use-dynamic-base-id").CombinedOutput()
	if err != nil {
		t.Errorf("%v: %s\n%s", err, out, text)
	}
}

// What docs/etcd.md tells operators to type is taken by etcdctl, and shows what it says.
func TestEtcdctl(t *testing.T) {
	etcdctl := must(t, tools.Etcdctl)
	server := startPayments(t, payments.Options{Stateless: true, JSON: true})
	member := startMember(t)
	envoy := replica(t, server, member.addr, etcdConfig("", ""))
	if got := pay(t, envoy, "k", 0); got != "first" {
		t.Fatalf("the call gets %s", got)
	}
	if got := payUntil(t, envoy, "k", 0, settled); got != "replay" {
		t.Fatalf("its repeat gets %s", got)
	}
	sh := func(text string) string {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), "sh", "-ec", text)
		cmd.Env = append(os.Environ(), "PATH="+filepath.Dir(etcdctl)+":"+os.Getenv("PATH"), "ETCDCTL_ENDPOINTS="+member.addr)
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Errorf("%s: %v\n%s", text, err, out)
		}
		return string(out)
	}
	keys := strings.Fields(sh("etcdctl get --prefix --keys-only /"))
	i := slices.IndexFunc(keys, func(k string) bool { return strings.Contains(k, "/k/") })
	if i < 0 {
		t.Fatalf("want a key's record, got %q", keys)
	}
	prefix, id, _ := strings.Cut(keys[i], "k/")
	lines := strings.Split(strings.TrimSpace(block(t, "docs/etcd.md", "sh", "etcdctl get --prefix --keys-only")), "\n")
	as := strings.NewReplacer("/callonce/k/5f2b9c0d1e3a4b67", prefix+"k/"+id[:16], "/callonce/h/", prefix+"h/", "KEY", keys[i])
	if got := strings.TrimSpace(sh(as.Replace(lines[0]))); got != keys[i] {
		t.Errorf("%s: want the whole key, got %q", lines[0], got)
	}
	if _, err := exec.LookPath("xxd"); err == nil {
		if got := sh(as.Replace(lines[1])); !strings.HasPrefix(got, "00000000: ") {
			t.Errorf("%s: want a record in hex, got %q", lines[1], got)
		}
	}
	if got := sh(as.Replace(lines[2])); !strings.Contains(got, "callonce ") {
		t.Errorf("%s: want a worker, got %q", lines[2], got)
	}
	var held struct{ Kvs []struct{ Lease int64 } }
	if err := json.Unmarshal([]byte(sh("etcdctl get -w json "+keys[i])), &held); err != nil || len(held.Kvs) != 1 {
		t.Fatalf("%v, %v", held, err)
	}
	if got := sh(strings.Replace(lines[3], "ID", fmt.Sprintf("%x", held.Kvs[0].Lease), 1)); !strings.Contains(got, "remaining(") || !strings.Contains(got, id) {
		t.Errorf("%s: want how long the key lasts, got %q", lines[3], got)
	}
	record := sh("etcdctl get --print-value-only " + keys[i] + " | tail -c +129")
	if !json.Valid([]byte(record)) {
		t.Errorf("want the answer from byte 128 on, got %q", record)
	}
	roles := block(t, "docs/etcd.md", "sh", "etcdctl role add")
	if got := sh(roles); !strings.Contains(got, "Authentication Enabled") {
		t.Errorf("want authentication enabled, got %q", got)
	}
}

// The digest that docs/operators.md computes is the one that the log has; that of its example is 16 hex digits.
func TestOperatorDigestLine(t *testing.T) {
	m := regexp.MustCompile(`(?m)^    (printf '\["metadata:.*)$`).FindStringSubmatch(document(t, "docs/operators.md"))
	if m == nil {
		t.Fatal("docs/operators.md has no line with printf")
	}
	out, err := exec.CommandContext(t.Context(), "sh", "-ec", m[1]).CombinedOutput()
	if err != nil || !regexp.MustCompile(`^[0-9a-f]{16}\n$`).Match(out) {
		t.Errorf("%v: %q", err, out)
	}
}

// The helpers are had from a checkout as their READMEs say.
func TestClientsInstall(t *testing.T) {
	clients := filepath.Join(must(t, tools.Root), "clients")
	python := filepath.Dir(must(t, tools.Python))
	for language, after := range map[string]string{
		"go":         "go build ./...",
		"python":     "PYTHONPATH=there python -c 'import callonce; callonce.Caller'",
		"typescript": "node -e 'import(\"callonce\").then(c => { new c.FileStore(\"keys.json\") })'",
	} {
		t.Run(language, func(t *testing.T) {
			dir := t.TempDir()
			if err := os.CopyFS(filepath.Join(dir, "callonce", "clients", language), os.DirFS(filepath.Join(clients, language))); err != nil {
				t.Fatal(err)
			}
			written(t, dir, "main.go", "package main\n\nimport _ \"github.com/callonce/callonce/clients/go\"\n\nfunc main() {}\n")
			written(t, dir, "go.mod", "module example\n\ngo 1.26.0\n")
			written(t, dir, "package.json", "{\"type\": \"module\"}")
			lines := regexp.MustCompile(`(?m)^    ((?:go|pip|npm) .*)$`).FindAllStringSubmatch(document(t, "clients/"+language+"/README.md"), -1)
			if len(lines) == 0 {
				t.Fatal("want lines that install")
			}
			for _, line := range append(lines, []string{"", after}) {
				// Into a folder of its own, lest the tools' Python keeps it.
				text := strings.NewReplacer("/path/to/callonce", filepath.Join(dir, "callonce"), "pip install", "python -m pip install --quiet --target there").Replace(line[1])
				cmd := exec.CommandContext(t.Context(), "sh", "-ec", text)
				cmd.Dir, cmd.Env = dir, append(os.Environ(), "PATH="+python+":"+os.Getenv("PATH"), "GOFLAGS=-mod=mod", "GOWORK=off")
				if out, err := cmd.CombinedOutput(); err != nil {
					t.Fatalf("%s: %v\n%s", text, err, out)
				}
			}
		})
	}
}
