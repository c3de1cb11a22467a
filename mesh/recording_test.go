package mesh_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// dump is what Envoy has loaded.
func (m *mesh) dump(t *testing.T) object {
	t.Helper()
	var o object
	get(t, m.admin+"/config_dump", &o)
	return o
}

// walk visits all objects below a node.
func walk(node any, visit func(object)) {
	switch n := node.(type) {
	case []any:
		for _, e := range n {
			walk(e, visit)
		}
	case map[string]any:
		visit(n)
		for _, e := range n {
			walk(e, visit)
		}
	}
}

func typed(o object, message string) bool {
	name, _ := o["@type"].(string)
	return strings.HasSuffix(name, message)
}

// plugin is the filter as Envoy has it, nil where it has none.
func (m *mesh) plugin(t *testing.T) (found object) {
	t.Helper()
	walk(m.dump(t), func(o object) {
		if c, ok := o["config"].(object); ok && typed(o, "filters.http.wasm.v3.Wasm") && in(c, "configuration") != nil {
			found = c
		}
	})
	return found
}

// recording is what a control plane sent of the one listener that serves: its connection manager with all that it gets by other
// requests laid into it, and the cluster of the server. What hangs on the machine or the moment is left out.
func (m *mesh) recording(t *testing.T, port int, cluster string) object {
	t.Helper()
	dump := m.dump(t)
	var manager, clusterFound object
	routes, extensions := map[string]any{}, map[string]any{}
	walk(dump, func(o object) {
		switch {
		case typed(o, "config.listener.v3.Listener") && in(o, "address", "socket_address", "port_value") == float64(port):
			walk(o, func(o object) {
				if typed(o, "http_connection_manager.v3.HttpConnectionManager") {
					manager = o
				}
			})
		case typed(o, "config.route.v3.RouteConfiguration"):
			routes[fmt.Sprint(o["name"])] = o
		case typed(o, "core.v3.TypedExtensionConfig"):
			extensions[fmt.Sprint(o["name"])] = o["typed_config"]
		case typed(o, "config.cluster.v3.Cluster") && strings.Contains(fmt.Sprint(o["name"]), cluster):
			clusterFound = o
		}
	})
	if manager == nil || clusterFound == nil {
		t.Fatalf("no connection manager at port %d (%v), or no cluster %s (%v)", port, manager != nil, cluster, clusterFound != nil)
	}
	if name := in(manager, "rds", "route_config_name"); name != nil {
		delete(manager, "rds")
		manager["route_config"] = routes[fmt.Sprint(name)]
	}
	for _, f := range manager["http_filters"].([]any) {
		f := f.(object)
		if f["config_discovery"] != nil {
			delete(f, "config_discovery")
			f["typed_config"] = extensions[fmt.Sprint(f["name"])]
		}
	}
	limit := map[string]any{}
	walk(dump, func(o object) {
		if typed(o, "config.listener.v3.Listener") && in(o, "address", "socket_address", "port_value") == float64(port) {
			limit["per_connection_buffer_limit_bytes"] = o["per_connection_buffer_limit_bytes"]
		}
	})
	return object{"listener": limit, "manager": manager, "cluster": clusterFound}
}

func (i *istio) recording(t *testing.T) object {
	t.Helper()
	return i.mesh.recording(t, 80, "outbound|8080||payments.")
}

var (
	modulePath  = regexp.MustCompile(`"filename": "[^"]*\.wasm"`)
	moduleSum   = regexp.MustCompile(`"sha256": "[0-9a-f]{64}"`)
	moduleQuery = regexp.MustCompile(`"uri": "https?://[^"]*\.wasm[^"]*"`)
	jwks        = regexp.MustCompile(`"inline_string": "\{\\"keys\\".*"`)
	stamps      = regexp.MustCompile(`(?m)^\s*"(last_updated|version_info)": "[^"]*",?\n`)
)

// compare holds a recording to the one below e2e/testdata/meshes, whose listeners the cases run on.
func compare(t *testing.T, name string, got object) {
	t.Helper()
	text, err := json.MarshalIndent(got, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	text = modulePath.ReplaceAll(text, []byte(`"filename": "callonce.wasm"`))
	text = moduleSum.ReplaceAll(text, []byte(`"sha256": ""`))
	text = moduleQuery.ReplaceAll(text, []byte(`"uri": "https://module/callonce.wasm"`))
	text = jwks.ReplaceAll(text, []byte(`"inline_string": ""`))
	text = append(stamps.ReplaceAll(text, nil), '\n')
	file := filepath.Join("..", "e2e", "testdata", "meshes", name+".json")
	old, err := os.ReadFile(file)
	switch {
	case *record:
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, text, 0o644); err != nil {
			t.Fatal(err)
		}
	case errors.Is(err, fs.ErrNotExist):
		t.Errorf("%s: not recorded yet: make mesh RECORD=1", file)
	case err != nil:
		t.Fatal(err)
	case !bytes.Equal(old, text):
		t.Errorf("%s: the control plane sends something else now (make mesh RECORD=1 writes it):\n%s", file, firstDifference(string(old), string(text)))
	}
}

func firstDifference(old, now string) string {
	a, b := strings.Split(old, "\n"), strings.Split(now, "\n")
	for i := range min(len(a), len(b)) {
		if a[i] != b[i] {
			return fmt.Sprintf("line %d: recorded %s\nnow %s", i+1, strings.Join(a[max(0, i-3):min(len(a), i+4)], "\n"), strings.Join(b[max(0, i-3):min(len(b), i+4)], "\n"))
		}
	}
	return fmt.Sprintf("%d lines recorded, %d now", len(a), len(b))
}

// wasmFile is a file with the module.
func wasmFile(t *testing.T) string {
	t.Helper()
	b, err := bundle()
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "callonce.wasm")
	if err := os.WriteFile(file, b.wasm, 0o644); err != nil {
		t.Fatal(err)
	}
	return file
}

// byDigest is the image's name as `make image` prints it.
func byDigest(t *testing.T) string {
	t.Helper()
	b, err := bundle()
	if err != nil {
		t.Fatal(err)
	}
	digest, err := b.Digest()
	if err != nil {
		t.Fatal(err)
	}
	return "registry.example.com/callonce@" + digest.String()
}
