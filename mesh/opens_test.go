package mesh_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"
)

// What callers get by each mistake, as docs/istio.md says: whether an unkeyed call of a required tool runs, or how it is refused.
func TestIstioMistakes(t *testing.T) {
	routes := without(manifests(t, "istio/wasmplugin"), "WasmPlugin")
	i := startIstio(t, meshConfig(t), routes...)
	eventually(t, "the way to the server", i.unguarded)
	plugin := func(change func(meta, spec object)) []object {
		p := find(t, manifests(t, "istio/wasmplugin"), "WasmPlugin")
		change(p["metadata"].(object), p["spec"].(object))
		return []object{p}
	}
	filter := func(folder string, change func(o object)) []object {
		f := find(t, manifests(t, folder), "EnvoyFilter")
		change(f)
		return []object{f}
	}
	for _, c := range []struct {
		name    string
		objects []object
		want    string // of an answer; "runs" for a call that nobody guards
		log     string // of istiod
	}{
		{"no scheme, and an address with a port", plugin(func(_, spec object) { spec["url"] = registryIP + ":443/callonce:0.1.0" }), "runs", "discarded due to failure to parse"},
		{"no scheme, and a name with a port", plugin(func(_, spec object) { spec["url"] = "registry.example.com:443/callonce:0.1.0" }), "403 RBAC: access denied", ""},
		{"no scheme", plugin(func(_, spec object) { spec["url"] = imageName }), `"idempotency_key_required"`, ""}, // Istio takes it for oci://
		{"a selector that fits nothing", plugin(func(_, spec object) {
			spec["selector"] = object{"matchLabels": object{"istio": "ingress-gateway"}}
		}), "runs", ""},
		{"another namespace", plugin(func(meta, _ object) { meta["namespace"] = "default" }), "runs", ""},
		{"workloadSelector that fits nothing", filter("istio/gateway", func(o object) {
			o["spec"].(object)["workloadSelector"] = object{"labels": object{"istio": "ingress-gateway"}}
		}), "runs", ""},
		{"an EnvoyFilter in another namespace", filter("istio/gateway", func(o object) { o["metadata"].(object)["namespace"] = "default" }), "runs", ""},
		{"the wrong context", filter("istio/sidecar", func(o object) {
			o["metadata"].(object)["namespace"] = "istio-ingress"
			o["spec"].(object)["workloadSelector"] = object{"labels": ingress.app}
		}), "runs", ""},
		{"a route of another name, and off by default", plugin(func(_, spec object) {
			c := spec["pluginConfig"].(object)
			c["routes"], c["default"] = object{"mpc": "payments"}, "off"
		}), "runs", ""},
		{"off without quotes", plugin(func(_, spec object) {
			spec["pluginConfig"].(object)["routes"] = object{"other": false}
		}), "runs", ""},
		{"a bad configuration at the first load", plugin(func(_, spec object) {
			spec["pluginConfig"] = object{"policies": object{"payments": 1}, "default": "payments"}
		}), "runs", ""},
		{"an image that is not there", plugin(func(_, spec object) { spec["url"] = "oci://registry.example.com/callonce:gone" }), "403 RBAC: access denied", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			from := len(i.istiod.Output())
			i.change(t, c.objects...)
			t.Cleanup(func() { i.api.Delete(c.objects...) })
			// What is pushed has arrived when a marker that is pushed with it has.
			i.marker(t, c.name)
			var got string
			is := func() error {
				r, err := i.try("POST", "/mcp", toolCall("refund", "unguarded-mistake"))
				got = fmt.Sprint(r.status, " ", r.body)
				if err != nil {
					got = err.Error()
				}
				switch {
				case c.want == "runs" && strings.Contains(got, "of unguarded-mistake"),
					strings.Contains(got, c.want):
					return nil
				}
				return errors.New(got)
			}
			eventually(t, c.want, is)
			time.Sleep(4 * time.Second) // and it stays so, also when an image would be here, and compiled
			if err := is(); err != nil {
				t.Error(err)
			}
			t.Logf("callers get: %s", got)
			if c.log != "" {
				logged(t, i.istiod, from, c.log)
			}
			i.api.Delete(c.objects...)
			eventually(t, "no guard", i.unguarded)
		})
	}
}

// unguarded waits until nothing guards.
func (m *mesh) unguarded() error {
	r, err := m.try("POST", "/mcp", toolCall("refund", "unguarded-probe"))
	if err == nil && !strings.Contains(r.body, "of unguarded-probe") {
		err = errors.New(r.String())
	}
	return err
}

// marker waits until the gateway has a change that was made after all others.
func (i *istio) marker(t *testing.T, name string) {
	t.Helper()
	name = strings.ReplaceAll(strings.ReplaceAll(name, " ", "-"), ",", "")
	i.change(t, object{"apiVersion": "networking.istio.io/v1", "kind": "VirtualService", "metadata": object{"name": "marker", "namespace": "istio-ingress"}, "spec": object{
		"hosts": []any{"marker.example.com"}, "gateways": []any{"mcp"},
		"http": []any{object{"name": name, "directResponse": object{"status": 418}}},
	}})
	eventually(t, "the change", func() error {
		if !strings.Contains(fmt.Sprint(i.dump(t)), "name:"+name) {
			return errors.New("not there")
		}
		return nil
	})
}

// Where the mesh and the routes are as Istio's own, other spellings of the path lead around a WasmPlugin that guards a route.
func TestIstioSpellingsUnclosed(t *testing.T) {
	config := meshConfig(t)
	delete(config, "pathNormalization")
	all := manifests(t, "istio/wasmplugin")
	service := find(t, all, "VirtualService")["spec"].(object)
	var routes []any
	for _, r := range service["http"].([]any) {
		if in(r, "name") == "mcp-odd" {
			continue
		}
		if match, ok := in(r, "match", 0).(object); ok {
			delete(match, "ignoreUriCase")
		}
		routes = append(routes, r)
	}
	service["http"] = routes
	i := startIstio(t, config, all...)
	eventually(t, "a guard", i.guarding)
	for n, path := range []string{"//mcp", "/MCP", "/%2fmcp", "/x%2f..%2fmcp", "/;/mcp"} {
		order := fmt.Sprintf("unguarded-open-%d", n)
		if r := i.send(t, "POST", path, toolCall("refund", order)); i.server.ran(order) != 1 {
			t.Errorf("%s: want it to run, as the page says, got %v", path, r)
		}
	}
}

// Where a filter that buffers headers stands ahead of what looks whether a caller may, who may no longer still gets replays. A WasmPlugin
// does not buffer them: authorization answers first, in whichever phase the plugin is. The shipped places are asked for beside it.
func TestIstioPhase(t *testing.T) {
	token := startIssuer(t)
	ada := []string{"Authorization", "Bearer " + token("ada")}
	var all []object
	for _, o := range append(manifests(t, "istio/wasmplugin"), manifests(t, "istio/jwt")...) {
		if o["kind"] != "EnvoyFilter" {
			all = append(all, o)
		}
	}
	i := startIstio(t, meshConfig(t), all...)
	eventually(t, "the gateway", i.answers("/mcp", 403)) // a request without a token
	revoked := object{"apiVersion": "security.istio.io/v1", "kind": "AuthorizationPolicy", "metadata": object{"name": "revoked", "namespace": "istio-ingress"}, "spec": object{
		"selector": object{"matchLabels": ingress.app}, "action": "DENY",
		"rules": []any{object{"when": []any{object{"key": "request.auth.claims[sub]", "values": []any{"ada"}}}}},
	}}
	phase := func(phase string) object {
		p := find(t, manifests(t, "istio/wasmplugin"), "WasmPlugin")
		p["spec"].(object)["phase"] = phase
		p["spec"].(object)["pluginConfig"].(object)["namespace"] = phase
		return p
	}
	place := func(name string, change func(patch object)) object {
		f := find(t, manifests(t, "istio/gateway"), "EnvoyFilter")
		reconfigure(t, []object{f}, func(c string) string { return strings.Replace(c, `"demo"`, `"`+name+`"`, 1) })
		for _, p := range f["spec"].(object)["configPatches"].([]any) {
			if in(p, "applyTo") == "HTTP_FILTER" {
				change(p.(object))
			}
		}
		return f
	}
	for _, c := range []struct {
		phase  string
		object object
		want   string
	}{
		{"STATS", phase("STATS"), "403 "},
		{"AUTHN", phase("AUTHN"), "403 "},
		{"LAST", place("LAST", func(object) {}), "403 "},
		{"FIRST", place("FIRST", func(p object) {
			p["patch"].(object)["operation"] = "INSERT_FIRST"
			delete(in(p, "match", "listener", "filterChain", "filter").(object), "subFilter")
		}), "200 replayed=true"},
	} {
		t.Run(c.phase, func(t *testing.T) {
			i.change(t, c.object)
			eventually(t, "a guard", func() error {
				if text := fmt.Sprint(in(i.plugin(t), "configuration")); !strings.Contains(text, c.phase) {
					return errors.New(text)
				}
				r, err := i.try("POST", "/mcp", toolCall("refund", "unguarded-probe"), ada...)
				if err == nil && !strings.Contains(r.body, `"idempotency_key_required"`) {
					err = errors.New(r.String())
				}
				return err
			})
			i.guards(t, "phase-"+c.phase, ada...)
			i.change(t, revoked)
			eventually(t, "revoked", func() error {
				r, err := i.try("POST", "/mcp", toolCall("charge", "unguarded-revoked"), append([]string{"Idempotency-Key", "x-" + fmt.Sprint(time.Now().UnixNano())}, ada...)...)
				if err == nil && r.status != 403 {
					err = errors.New(r.String())
				}
				return err
			})
			if r := i.charge(t, "phase-"+c.phase, ada...); !strings.HasPrefix(r.String(), c.want) {
				t.Errorf("want %s, got %v", c.want, r)
			}
			i.api.Delete(revoked, c.object)
			eventually(t, "no guard", func() error {
				r, err := i.try("POST", "/mcp", toolCall("refund", "unguarded-probe"), ada...)
				if err == nil && !strings.Contains(r.body, "of unguarded-probe") {
					err = errors.New(r.String())
				}
				return err
			})
		})
	}
}

// A filter that another EnvoyFilter puts behind ours changes calls that were compared without it.
func TestIstioFilterBehind(t *testing.T) {
	all := manifests(t, "istio/gateway")
	i := startIstio(t, meshConfig(t), all...)
	eventually(t, "a guard", i.guarding)
	i.change(t, object{"apiVersion": "networking.istio.io/v1alpha3", "kind": "EnvoyFilter", "metadata": object{"name": "z-behind", "namespace": "istio-ingress"}, "spec": object{
		"workloadSelector": object{"labels": ingress.app},
		"configPatches": []any{object{"applyTo": "HTTP_FILTER",
			"match": object{"context": "GATEWAY", "listener": object{"filterChain": object{"filter": object{"name": "envoy.filters.network.http_connection_manager", "subFilter": object{"name": "envoy.filters.http.router"}}}}},
			"patch": object{"operation": "INSERT_BEFORE", "value": object{"name": "behind", "typed_config": object{
				"@type":     "type.googleapis.com/envoy.extensions.filters.http.header_mutation.v3.HeaderMutation",
				"mutations": object{"request_mutations": []any{object{"append": object{"header": object{"key": "x-behind", "value": "1"}}}}},
			}}}}},
	}})
	eventually(t, "the filter behind", func() error {
		order := fmt.Sprint("behind-", time.Now().UnixNano())
		if r, err := i.try("POST", "/mcp", toolCall("charge", order), "Idempotency-Key", order); err != nil || r.status != 200 {
			return fmt.Errorf("%v: %w", r, err)
		}
		for _, a := range i.server.take() {
			if a.header.Get("X-Behind") != "" {
				return nil
			}
		}
		return errors.New("the server saw nothing of it")
	})
	names := ""
	walk(i.dump(t), func(o object) {
		if filters, ok := o["http_filters"].([]any); ok && strings.Contains(fmt.Sprint(filters), "name:callonce") {
			names = ""
			for _, f := range filters {
				names += fmt.Sprint(in(f, "name"), " ")
			}
		}
	})
	if !strings.Contains(names, "callonce behind envoy.filters.http.router") {
		t.Errorf("want it behind ours, got %s", names)
	}
}
