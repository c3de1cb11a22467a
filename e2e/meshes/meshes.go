// Package meshes puts the listeners that control planes made of the manifests below
// envoy/, as make mesh recorded them, in the place of envoy.yaml's: for tests and
// measurements on an Envoy alone. It knows nothing of what the filter decides.
package meshes

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/callonce/callonce/e2e/envoytest"
	"github.com/callonce/callonce/e2e/tools"
)

// Put puts the recorded listener of that name (a file of e2e/testdata/meshes) into a
// configuration. Its own stay the server, the access log, and of the filter the module
// and the configuration. Where the configuration has no filter the listener gets none.
func Put(name string, e *envoytest.Tree) error {
	root, err := tools.Root()
	if err != nil {
		return err
	}
	text, err := os.ReadFile(filepath.Join(root, "e2e", "testdata", "meshes", name+".json"))
	if err != nil {
		return err
	}
	var r struct{ Listener, Manager map[string]any }
	if err := json.Unmarshal(text, &r); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	old, m := e.Object(envoytest.Manager...), r.Manager
	delete(m, "tracing")
	delete(m["route_config"].(map[string]any), "@type") // which it has where it came by itself
	for _, member := range []string{"access_log", "stat_prefix"} {
		m[member] = old[member]
	}
	filters := list(m, "http_filters")
	at := slices.IndexFunc(filters, isOurs)
	if at < 0 {
		return fmt.Errorf("%s: no filter in it", name)
	}
	recorded := filters[at].(map[string]any)
	recordedName := recorded["name"].(string)
	if own := list(old, "http_filters"); slices.ContainsFunc(own, isOurs) {
		recorded["name"] = "callonce"
		plugin := maps.Clone(e.Object(envoytest.Plugin...))
		c := in(recorded, "typed_config", "config").(map[string]any)
		c["configuration"] = plugin["configuration"]
		vm := c["vm_config"].(map[string]any)
		vm["code"] = in(plugin, "vm_config", "code")
		delete(vm, "environment_variables")
	} else {
		m["http_filters"] = slices.Delete(filters, at, at+1)
	}
	for _, host := range list(m, "route_config", "virtual_hosts") {
		for _, route := range list(host, "routes") {
			if action, _ := in(route, "route").(map[string]any); action != nil {
				action["cluster"] = "mcp_server"
			}
			each, _ := in(route, "typed_per_filter_config").(map[string]any)
			if one := each[recordedName]; one != nil {
				delete(each, recordedName)
				if recorded["name"] == "callonce" {
					each["callonce"] = one
				}
			}
		}
	}
	e.Set(m, envoytest.Manager...)
	e.Object("static_resources", "listeners", 0)["per_connection_buffer_limit_bytes"] = r.Listener["per_connection_buffer_limit_bytes"]
	return nil
}

func isOurs(filter any) bool {
	message, _ := in(filter, "typed_config", "@type").(string)
	return strings.HasSuffix(message, "http.wasm.v3.Wasm")
}

func in(node any, path ...string) any {
	for _, name := range path {
		m, _ := node.(map[string]any)
		node = m[name]
	}
	return node
}

func list(node any, path ...string) []any {
	l, _ := in(node, path...).([]any)
	return l
}
