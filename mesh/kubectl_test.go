package mesh_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// kubectlAt is where a test takes what the pages tell kubectl.
const kubectlAt = "127.0.0.1:6444"

// kubectl is this program under another name: as much of kubectl as the pages use. It does nothing itself, but tells the test.
func kubectl(args []string) int {
	var objects []object
	var err error
	switch line := strings.Join(args, " "); {
	case strings.HasPrefix(line, "create namespace "):
		objects = []object{{"apiVersion": "v1", "kind": "Namespace", "metadata": object{"name": args[2]}}}
	case strings.HasPrefix(line, "apply -k "):
		objects, err = kustomized(args[2])
	case strings.Contains(line, " get deployment -o name -l "): // Envoy Gateway's names end in a hash
		fmt.Println("deployment.apps/envoy-mcp-mcp-f4ce7a1b")
		return 0
	case strings.Contains(line, " port-forward "): // the port is there
		return 0
	default:
		err = errors.New("kubectl: the tests' own does not know: " + line)
	}
	var text []byte
	if err == nil {
		text, err = json.Marshal(objects)
	}
	if err == nil {
		var resp *http.Response
		if resp, err = http.Post("http://"+kubectlAt, "application/json", bytes.NewReader(text)); err == nil {
			resp.Body.Close()
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// page runs the lines of a page's block of commands, in the project's folder, and gives what they printed. What they apply, apply gets.
// What calls the mesh may fail until what was applied has arrived.
func page(t *testing.T, file string, apply func([]object)) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "docs", file))
	if err != nil {
		t.Fatal(err)
	}
	_, block, _ := strings.Cut(string(text), "```sh\n")
	block, _, ok := strings.Cut(block, "```")
	if !ok {
		t.Fatalf("%s: no block of commands", file)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	bin := t.TempDir()
	if err := os.Symlink(self, filepath.Join(bin, "kubectl")); err != nil {
		t.Fatal(err)
	}
	listen(t, kubectlAt, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var objects []object
		text, err := io.ReadAll(r.Body)
		if err == nil {
			err = json.Unmarshal(text, &objects)
		}
		if err != nil {
			t.Error(err)
		}
		apply(objects)
	}))
	var environment []string
	for _, v := range os.Environ() {
		if !strings.Contains(v, "SSL_CERT_FILE=") && !strings.HasPrefix(v, "PATH=") && !strings.HasPrefix(v, varInside) {
			environment = append(environment, v)
		}
	}
	environment = append(environment, "PATH="+bin+":"+os.Getenv("PATH"))
	var printed strings.Builder
	commands := strings.Split(strings.ReplaceAll(strings.TrimSpace(block), "\\\n", ""), "\n")
	for _, line := range commands {
		do := func() error {
			cmd := exec.Command("sh", "-c", line)
			cmd.Dir, cmd.Env = "..", environment
			out, err := cmd.CombinedOutput()
			if err != nil {
				return fmt.Errorf("%s: %s: %w\n%s", file, line, err, out)
			}
			printed.Write(out)
			return nil
		}
		if strings.HasPrefix(line, "make ") || strings.HasPrefix(line, "kubectl ") {
			if err := do(); err != nil {
				t.Fatal(err)
			}
			continue
		}
		eventually(t, line, do)
	}
	return printed.String()
}

// replayed demands that what a page printed ends with a run and its replay, and a doctor that finds nothing.
func replayed(t *testing.T, printed string, runs int) {
	t.Helper()
	t.Logf("printed:\n%s", printed)
	if !strings.Contains(strings.ToLower(printed), "idempotency-replayed: true") || !strings.Contains(printed, "guard: stands here") || !strings.Contains(printed, "headers are buffered") || strings.Contains(printed, "BAD") || runs != 1 {
		t.Errorf("%d runs, or not what the page says", runs)
	}
}

// docs/istio.md, as somebody new follows it.
func TestIstioPage(t *testing.T) {
	i := startIstio(t, meshConfig(t))
	replayed(t, page(t, "istio.md", func(objects []object) { i.change(t, objects...) }), i.server.ran("17"))
}

// docs/envoy-gateway.md, as somebody new follows it.
func TestGatewayPage(t *testing.T) {
	g := startGateway(t, nil)
	replayed(t, page(t, "envoy-gateway.md", func(objects []object) {
		if len(objects) > 1 { // what is created before is there
			g.apply(t, objects)
		}
	}), g.server.ran("17"))
}
