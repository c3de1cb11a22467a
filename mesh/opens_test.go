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
		{"no scheme", plugin(func(_, spec object) { spec["url"] = imageName }), "runs", "wasm"},
		{"a selector that fits nothing", plugin(func(_, spec object) {
			spec["selector"] = object{"matchLabels": object{"istio": "ingress-gateway"}}
		}), "runs", ""},
		{"another namespace", plugin(func(meta, _ object) { meta["namespace"] = "default" }), "runs", ""},
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
				got = r.String()
				if err != nil {
					got = err.Error()
				}
				switch {
				case c.want == "runs" && strings.Contains(got, "of unguarded-mistake"),
					strings.Contains(strings.ReplaceAll(got, "replayed=false ", ""), c.want):
					return nil
				}
				return errors.New(got)
			}
			eventually(t, c.want, is)
			time.Sleep(time.Second) // and it stays so
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
