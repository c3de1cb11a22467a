package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/callonce/callonce/e2e/child"
	"github.com/callonce/callonce/e2e/envoytest"
	"github.com/callonce/callonce/e2e/tools"
)

// module is a compiled filter that is measured under a name.
type module struct{ name, file string }

// parts are what the waves run.
type parts struct {
	modules   []module // the filter first, then what it is compared with
	empty     string   // the file of the empty filter
	processor string   // the file of the external processor
	version   string   // of Envoy
	dir       string
}

func (p *parts) stop() { _ = os.RemoveAll(p.dir) } // a temporary folder: nothing depends on it

// prepare builds what the waves run beside the filter, and says what each module is.
func prepare(ctx context.Context, files files, stdout io.Writer) (p *parts, err error) {
	p = &parts{modules: append([]module{{"callonce", files.plugin}}, files.modules...)}
	if p.dir, err = os.MkdirTemp("", "callonce-bench-"); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			p.stop()
		}
	}()
	if files.against != "" {
		old := module{name: files.against, file: filepath.Join(p.dir, "against.wasm")}
		if old.name, err = buildCommit(ctx, files.root, files.against, old.file); err != nil {
			return nil, err
		}
		p.modules = append(p.modules, old)
	}
	p.empty, p.processor = filepath.Join(p.dir, "empty.wasm"), filepath.Join(p.dir, "processor")
	if err = buildModule(ctx, filepath.Join(files.root, "e2e"), p.empty, "./cmd/bench/testdata/empty"); err != nil {
		return nil, err
	}
	processor := exec.CommandContext(ctx, "go", "build", "-o", p.processor, "./cmd/bench/processor")
	processor.Dir = filepath.Join(files.root, "e2e")
	if err = quietly(processor); err != nil {
		return nil, err
	}
	binary, err := tools.Envoy()
	if err != nil {
		return nil, err
	}
	if p.version, err = versionOf(ctx, binary); err != nil {
		return nil, err
	}
	all := append([]module{{"empty", p.empty}}, p.modules...)
	if err = distinct(all); err != nil {
		return nil, err
	}
	for _, m := range all {
		info, statErr := os.Stat(m.file)
		if err = statErr; err != nil {
			return nil, err
		}
		fmt.Fprintf(stdout, "Module %s: %d bytes\n", m.name, info.Size())
	}
	return p, nil
}

// distinct says which name two builds have.
func distinct(modules []module) error {
	seen := map[string]bool{"none": true, "lua": true, "ext_proc": true}
	for _, m := range modules {
		if seen[m.name] {
			return fmt.Errorf("two builds are called %s", m.name)
		}
		seen[m.name] = true
	}
	return nil
}

// versionOf asks an Envoy that does not run.
func versionOf(ctx context.Context, binary string) (string, error) {
	text, err := exec.CommandContext(ctx, binary, "--version").Output()
	if err != nil {
		return "", fmt.Errorf("%s --version: %w", binary, err)
	}
	// "… version: hash/1.40.0/…"
	fields := strings.Split(string(text), "/")
	for i, f := range fields {
		if i > 0 && strings.Count(f, ".") == 2 && f[0] >= '0' && f[0] <= '9' {
			return f, nil
		}
	}
	return "", fmt.Errorf("%s --version: want hash/version/…, got %q", binary, text)
}

// buildModule compiles a package of the module at dir as make build does.
func buildModule(ctx context.Context, dir, out, pkg string, flags ...string) error {
	args := append([]string{"build"}, flags...)
	cmd := exec.CommandContext(ctx, "go", append(args, "-trimpath", "-buildmode=c-shared", "-ldflags=-s -w", "-o", out, pkg)...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GOOS=wasip1", "GOARCH=wasm")
	return quietly(cmd)
}

// buildCommit compiles the filter of a commit, and returns the commit's short name. The checkout stays as it is.
func buildCommit(ctx context.Context, root, commit, out string) (name string, err error) {
	git := func(args ...string) (string, error) {
		text, err := exec.CommandContext(ctx, "git", append([]string{"-C", root}, args...)...).Output()
		var failed *exec.ExitError
		if errors.As(err, &failed) {
			err = fmt.Errorf("git %s: %w: %s", strings.Join(args, " "), err, failed.Stderr)
		}
		return strings.TrimSpace(string(text)), err
	}
	if name, err = git("rev-parse", "--short", "--verify", commit+"^{commit}"); err != nil {
		return "", err
	}
	dir, err := os.MkdirTemp("", "callonce-bench-")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(dir)
	tree := filepath.Join(dir, "tree")
	if _, err := git("worktree", "add", "--detach", tree, name); err != nil {
		return "", err
	}
	defer func() {
		// Also when it was interrupted: a tree that git goes on to know is in the way of the next one.
		_ = exec.Command("git", "-C", root, "worktree", "remove", "--force", tree).Run()
	}()
	return name, buildModule(ctx, tree, out, "./plugin")
}

// quietly runs a command whose output only an error shows.
func quietly(cmd *exec.Cmd) error {
	if text, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%v: %w\n%s", cmd.Args, err, text)
	}
	return nil
}

// peers are what the filter is measured beside, with the same cases: none, the first one, stands for Envoy itself.
func (p *parts) peers(cases ...waveCase) []build {
	return []build{
		{name: "none", cases: cases},
		{name: "empty", options: envoytest.Options{Plugin: p.empty, Config: "{}"}, cases: cases},
		{name: "lua", options: envoytest.Options{Edit: luaFilter}, cases: cases},
		{name: "ext_proc", external: true, cases: cases},
	}
}

// luaFilter puts a filter into the chain that reads both bodies.
func luaFilter(t *envoytest.Tree) {
	const script = `function envoy_on_request(h) local b = h:body() if b then b:length() end end
function envoy_on_response(h) local b = h:body() if b then b:length() end end`
	t.Insert([]any{map[string]any{"name": "lua", "typed_config": map[string]any{
		"@type":               "type.googleapis.com/envoy.extensions.filters.http.lua.v3.Lua",
		"default_source_code": map[string]any{"inline_string": script},
	}}}, envoytest.Filters...)
}

// externalFilter puts a filter into the chain that shows an external processor headers and whole bodies, both ways.
func externalFilter(addr string) func(*envoytest.Tree) {
	return func(t *envoytest.Tree) {
		t.Insert([]any{map[string]any{"name": "processor", "typed_config": map[string]any{
			"@type":           "type.googleapis.com/envoy.extensions.filters.http.ext_proc.v3.ExternalProcessor",
			"grpc_service":    map[string]any{"envoy_grpc": map[string]any{"cluster_name": "processor"}, "timeout": "10s"},
			"message_timeout": "10s",
			"processing_mode": map[string]any{"request_header_mode": "SEND", "response_header_mode": "SEND",
				"request_body_mode": "BUFFERED", "response_body_mode": "BUFFERED"},
		}}}, envoytest.Filters...)
		t.Insert([]any{t.HTTP2("processor", "http://"+addr)}, envoytest.Clusters...)
	}
}

// startProcessor runs the external processor, and returns when it takes connections.
func startProcessor(binary string) (*child.Process, string, error) {
	addr, err := child.FreeAddr()
	if err != nil {
		return nil, "", err
	}
	p, err := child.Start("processor", exec.Command(binary, "-listen", addr), nil)
	if err != nil {
		return nil, "", err
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	if err := p.Await(ctx, child.Listening(addr)); err != nil {
		p.Stop()
		return nil, "", err
	}
	return p, addr, nil
}

// passPath has a route of its own, whose policy finds keys in headers only: a call without one passes unread.
const passPath = "/pass"

// passRoute adds that route, to every build, so that all find theirs among as many.
func passRoute(t *envoytest.Tree) {
	t.Insert([]any{map[string]any{"name": "pass", "match": map[string]any{"prefix": passPath},
		"route": map[string]any{"cluster": "mcp_server", "timeout": "60s"}}}, envoytest.Host.To("routes")...)
}
