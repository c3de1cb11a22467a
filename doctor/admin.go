package doctor

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strings"

	"github.com/callonce/callonce/plugin/config"
)

// admin reads what Envoy has loaded, and what the filter counted.
func (d *doctor) admin(base string) error {
	base = strings.TrimSuffix(base, "/")
	dump, err := d.get(base + "/config_dump?include_eds=false")
	if err != nil {
		return fmt.Errorf("doctor: --admin: %w", err)
	}
	var tree any
	if err := json.Unmarshal(dump, &tree); err != nil {
		return fmt.Errorf("doctor: --admin: want Envoy's configuration: %w", err)
	}
	found := map[string]bool{}
	walk(tree, func(c map[string]any) { d.filter(c, found) })
	if len(found) == 0 {
		d.say(bad, "filter", "none in this Envoy's configuration")
	}
	stats, err := d.get(base + "/stats?filter=callonce_headers_not_held_total&usedonly")
	if err != nil {
		return fmt.Errorf("doctor: --admin: %w", err)
	}
	if strings.Contains(string(stats), "callonce_headers_not_held_total") {
		d.say(bad, "headers", "not buffered: servers see the headers of calls before these are judged (allow_on_headers_stop_iteration)")
	}
	stats, err = d.get(base + "/stats?filter=callonce_build_info&usedonly")
	if err != nil {
		return fmt.Errorf("doctor: --admin: %w", err)
	}
	for _, m := range built.FindAllStringSubmatch(string(stats), -1) {
		d.say(info, "version", "runs "+strings.TrimSpace(m[1]+" "+m[2]))
	}
	return nil
}

// built is the filter's gauge of the build that runs, whose labels stand in its name.
var built = regexp.MustCompile(`version=\.=(.*?);\.;[^\n]*?revision=\.=(.*?);\.;[^\n]*callonce_build_info: [1-9]`)

func (d *doctor) get(url string) ([]byte, error) {
	resp, err := d.client.Get(url)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s answered %s", url, resp.Status)
	}
	return io.ReadAll(resp.Body)
}

// walk finds every wasm filter whose configuration may be ours.
func walk(node any, found func(c map[string]any)) {
	switch n := node.(type) {
	case []any:
		for _, e := range n {
			walk(e, found)
		}
	case map[string]any:
		if c, ok := n["config"].(map[string]any); ok && strings.HasSuffix(text(n["@type"]), "extensions.filters.http.wasm.v3.Wasm") {
			found(c)
		}
		for _, e := range n {
			walk(e, found)
		}
	}
}

func text(v any) string {
	s, _ := v.(string)
	return s
}

// filter tells of one filter that is loaded.
func (d *doctor) filter(c map[string]any, seen map[string]bool) {
	own, _ := c["configuration"].(map[string]any)
	conf := text(own["value"])
	if v, ok := own["value"].(map[string]any); ok { // a Struct, as of a WasmPlugin
		b, _ := json.Marshal(v)
		conf = string(b)
	}
	if !strings.Contains(conf, `"policies"`) {
		return
	}
	all, _ := json.Marshal(c)
	if seen[string(all)] {
		return
	}
	seen[string(all)] = true
	vm, _ := c["vm_config"].(map[string]any)
	name := "filter " + text(c["name"])
	d.say(info, name, fmt.Sprintf("vm_id %q, module %s", text(vm["vm_id"]), module(vm["code"])))
	if c["allow_on_headers_stop_iteration"] == true {
		d.say(good, name, "headers are buffered")
	} else {
		d.say(info, name, "headers are not buffered: servers see those of a call before it is judged (allow_on_headers_stop_iteration)")
	}
	switch policy := text(c["failure_policy"]); {
	case policy == "FAIL_OPEN", c["fail_open"] == true:
		d.say(bad, name, "fails open: a call that meets a dead VM runs unguarded")
	case policy == "FAIL_RELOAD":
		d.say(good, name, "fails closed, and reloads")
	default:
		d.say(info, name, "fails closed, and stays so until its configuration changes (FAIL_RELOAD)")
	}
	warnings, err := config.Check([]byte(conf))
	if err != nil {
		d.say(bad, name, "its configuration is refused by this version: "+strings.ReplaceAll(err.Error(), "\n", "; "))
		return
	}
	for _, w := range warnings {
		d.say(info, name, "warning: "+w)
	}
	var c2 struct {
		Namespace, Default string
		Routes             map[string]string
		Policies           map[string]struct{ Mode string }
	}
	_ = json.Unmarshal([]byte(conf), &c2) // checked above
	for p, v := range c2.Policies {
		if v.Mode == "observe" {
			d.say(bad, name, "policy "+p+" only observes: it refuses and replays nothing")
		}
	}
	def := c2.Default
	if def == "" {
		def = "off"
	}
	d.say(info, name, fmt.Sprintf("namespace %q; policy of routes that nothing names: %s; by name: %v", c2.Namespace, def, c2.Routes))
}

// module says where the code came from.
func module(code any) string {
	c, _ := code.(map[string]any)
	if l, ok := c["local"].(map[string]any); ok {
		return text(l["filename"])
	}
	r, _ := c["remote"].(map[string]any)
	u, _ := r["http_uri"].(map[string]any)
	return strings.TrimSpace(text(u["uri"]) + " " + text(r["sha256"]))
}
