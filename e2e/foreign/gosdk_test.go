package foreign

import (
	"bytes"
	"encoding/json"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/callonce/callonce/hostsim"
)

// goExample is one of the Go SDK's examples: how it is configured, and what of its description must be seen.
type goExample struct {
	folder, config string
	answer         string // to its own calls
	shows          func(*trial)
}

var goExamples = []goExample{
	{"helloworld", "", "", func(tr *trial) { tr.says("OnTick called") }},
	{"http_headers", `{"header":"x-wasm-header","value":"demo-wasm"}`, "", func(tr *trial) {
		tr.expect("GET", "/", "", []string{"test", "worst", "x-of-mine", "seen"}, 200, "hello")
		if got := tr.reached("/"); len(got) != 1 || got[0].header.Get("test") != "best" {
			tr.t.Errorf("want one request with the header test: best at the server, got %v", got)
		}
		tr.says("request header --> x-of-mine: seen")
		tr.says("response header <-- :status: 200")
		tr.says("finished")
	}},
	{"http_body", "", "", func(tr *trial) {
		for operation, want := range map[string]string{
			"append": "pattern[this is appended body]", "prepend": "[this is prepended body]pattern", "replace": "[this is replaced body]",
		} {
			tr.expect("POST", "/"+operation, "pattern", []string{"buffer-operation", operation}, 200, "hello")
			if got := tr.reached("/" + operation); len(got) != 1 || got[0].body != want {
				tr.t.Errorf("%s: want the body %q at the server, got %v", operation, want, got)
			}
		}
		tr.expect("GET", "/", "", nil, 400, "content must be provided")
	}},
	{"http_body", "echo", "", func(tr *trial) { tr.expect("POST", "/", "pattern", nil, 200, "pattern") }},
	{"http_auth_random", "", "a", func(tr *trial) {
		tr.expect("GET", "/", "", nil, 200, "hello")
		tr.says("access granted")
	}},
	{"http_auth_random", "", "b", func(tr *trial) {
		tr.expect("GET", "/", "", nil, 403, "access forbidden", "powered-by", "proxy-wasm-go-sdk!!")
	}},
	{"http_routing", "secondary", "", func(tr *trial) {
		tr.expect("GET", "/", "", nil, 200, "hello")
		tr.says("value: ")
	}},
	{"metrics", "", "", func(tr *trial) {
		for range 3 {
			tr.expect("GET", "/", "", []string{"my-custom-header", "foo"}, 200, "hello")
		}
		m := tr.Host.Metrics()
		if m["proxy_wasm_go.request_counter"] != 3 && m["custom_header_value_counts_value=foo_reporter=wasmgosdk"] != 3 {
			tr.t.Errorf("want three requests counted, got %v", m)
		}
	}},
	{"dispatch_call_on_tick", "", "x", func(tr *trial) { tr.says("called 3 for contextID=") }},
	{"foreign_call_on_tick", "", "", func(tr *trial) { tr.says("foreign function (compress)") }},
	{"postpone_requests", "", "", func(tr *trial) {
		tr.expect("GET", "/", "", nil, 200, "hello")
		tr.says("resume request with contextID=")
	}},
	{"shared_data", "", "", func(tr *trial) {
		tr.expect("GET", "/", "", nil, 200, "hello")
		tr.says("shared value: ")
	}},
	{"shared_queue/sender", "http", "", func(tr *trial) { // it has no receiver
		tr.expect("GET", "/", "", nil, 200, "hello")
		tr.says("error resolving queue id: ")
	}},
	{"vm_plugin_configuration", "plug", "", func(tr *trial) {
		tr.says("vm config: vm")
		tr.says("plugin config: plug")
	}},
	{"network", "", "", func(tr *trial) { // a filter of connections: what the SDK says of a request
		tr.Send("GET", "/", "")
		tr.says("invalid context on proxy_on_request_headers")
	}},
}

// newerGoExamples are those that only a checkout of the SDK has.
var newerGoExamples = []goExample{
	{"http_body_chunk", "", "", func(tr *trial) { tr.expect("POST", "/", "pattern", nil, 403, "pattern found in chunk: 1") }},
	{"json_validation", `{"requiredKeys":["id"]}`, "", func(tr *trial) {
		tr.expect("POST", "/", "pattern", nil, 403, "content-type must be provided")
	}},
	{"multiple_dispatches", "", "x", func(tr *trial) { tr.expect("GET", "/", "", nil, 200, "hello", "total-dispatched", "10") }},
	{"properties", "", "", func(tr *trial) {
		tr.expect("GET", "/", "", nil, 200, "hello")
		tr.says("no auth header for route")
	}},
}

// The examples of the Go SDK: those of its last release that has them in its own module, or, where GO_SDK names a checkout of the
// SDK that plain Go compiles, that one's.
func TestGoSDKExamples(t *testing.T) {
	examples, root := goExamples, os.Getenv("GO_SDK")
	if root == "" {
		root = goSDK(t)
	} else {
		root, examples = filepath.Join(root, "examples"), append(examples, newerGoExamples...)
	}
	for _, e := range examples {
		t.Run(strings.ReplaceAll(e.folder, "/", "-"), func(t *testing.T) {
			e.shows(tryGoExample(t, root, e, func(c *hostsim.Config) {
				if e.folder == "network" { // a filter of connections, which a request ends
					c.Hooks.Failed = func(int, error, string) {}
				}
			}))
		})
	}
	t.Run("shared_queue", func(t *testing.T) { queues(t, root) })
}

func tryGoExample(t *testing.T, root string, e goExample, change func(*hostsim.Config)) *trial {
	t.Helper()
	wasm := filepath.Join(t.TempDir(), "example.wasm")
	env := []string{"GOOS=wasip1", "GOARCH=wasm", "CGO_ENABLED=0", "GOWORK=off"}
	compile(t, filepath.Join(root, e.folder), env, "go", "build", "-buildmode=c-shared", "-ldflags=-s -w", "-o", wasm, ".")
	return try(t, read(t, wasm), func(c *hostsim.Config) {
		c.PluginConfig, c.VMConfig = []byte(e.config), []byte("vm")
		c.HoldHeaders = false // as in the configurations that come with the examples
		called := cluster(t, e.answer)
		c.Clusters = map[string]string{"httpbin": called, "web_service": called}
		if change != nil {
			change(c)
		}
	})
}

// queues lets the two halves of an example meet: two plugins, with VMs of their own, in one process.
func queues(t *testing.T, root string) {
	store := hostsim.NewStore()
	in := func(vm string) func(*hostsim.Config) {
		return func(c *hostsim.Config) { c.Store, c.VMID = store, vm }
	}
	receiver := tryGoExample(t, root, goExample{folder: "shared_queue/receiver", config: "http_request_headers"}, in("receiver"))
	responses := tryGoExample(t, root, goExample{folder: "shared_queue/receiver", config: "http_response_headers"}, in("receiver"))
	sender := tryGoExample(t, root, goExample{folder: "shared_queue/sender", config: "http"}, in("sender"))
	sender.expect("GET", "/", "", []string{"x-of-mine", "seen"}, 200, "hello")
	receiver.says("x-of-mine")
	responses.says("content-length")
}

var goMain = regexp.MustCompile(`(?m)^func main\(\) \{$`)

// goSDK makes a copy of the examples, which the go command fetches and checks, and returns its folder. They are moved to the SDK's
// successor as that asks for: its import path, and contexts that are set in init, since main never runs.
func goSDK(t *testing.T) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", "mod", "download", "-json", "github.com/tetratelabs/proxy-wasm-go-sdk")
	cmd.Dir, cmd.Env, cmd.Stderr = "testdata/go-sdk", append(os.Environ(), "GOWORK=off"), os.Stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v: %v\n%s", cmd.Args, err, out)
	}
	var module struct{ Dir string }
	if err := json.Unmarshal(out, &module); err != nil {
		t.Fatal(err)
	}
	root := t.TempDir()
	if err := os.CopyFS(root, os.DirFS("testdata/go-sdk")); err != nil {
		t.Fatal(err)
	}
	moved := 0
	examples := os.DirFS(filepath.Join(module.Dir, "examples"))
	err = fs.WalkDir(examples, ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.Name() != "main.go" {
			return err
		}
		text, err := fs.ReadFile(examples, path)
		if err != nil {
			return err
		}
		text = bytes.ReplaceAll(text, []byte(`"github.com/tetratelabs/`), []byte(`"github.com/proxy-wasm/`))
		text = goMain.ReplaceAll(text, []byte("func main() {}\n\nfunc init() {"))
		moved++
		file := filepath.Join(root, path)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			return err
		}
		return os.WriteFile(file, text, 0o600)
	})
	if err != nil || moved < 14 {
		t.Fatalf("want at least 14 examples in %s, found %d (%v)", module.Dir, moved, err)
	}
	return root
}
