package mesh_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"
)

// killed is what callers get while VMs die: of each worker, since every call comes on a connection of its own.
type killed struct {
	unavailable int // 503, or the connection ended
	ran         int // of calls that nobody guarded
}

// kill has the VMs of all workers die of calls that order it, again and again for some seconds, and asks meanwhile for a required tool
// without a key.
func (m *mesh) kill(t *testing.T, name string) (k killed) {
	t.Helper()
	for n, end := 0, time.Now().Add(4*time.Second); time.Now().Before(end); n++ {
		order := fmt.Sprintf("killed-%s-%d", name, n)
		_, _ = m.try("POST", "/mcp", toolCall("charge", order), "Idempotency-Key", order, "X-Callonce-Fault", "overflow RequestBody") // any answer will do
		if m.server.ran(order) > 0 && !strings.HasPrefix(name, "open") {
			t.Errorf("%s: the call that killed a VM ran", order)
		}
		r, err := m.try("POST", "/mcp", toolCall("refund", "unguarded-killed"))
		switch {
		case err != nil || r.status == 503:
			k.unavailable++
		case strings.Contains(r.body, "of unguarded-killed"):
			k.ran++
		}
	}
	t.Logf("%s: %+v", name, k)
	return k
}

// back says whether a guard stands at each of many connections.
func (m *mesh) back() error {
	for range 16 {
		if err := m.guarding(); err != nil {
			return err
		}
	}
	return nil
}

// What callers get while a VM is dead, as docs/istio.md says.
func TestIstioVMDies(t *testing.T) {
	i := startIstio(t, meshConfig(t), without(manifests(t, "istio/wasmplugin"), "WasmPlugin")...)
	plugin := func(strategy string) object {
		p := find(t, manifests(t, "istio/wasmplugin"), "WasmPlugin")
		spec := p["spec"].(object)
		spec["url"], spec["failStrategy"] = faultyURL, strategy
		return p
	}
	filter := find(t, manifests(t, "istio/gateway"), "EnvoyFilter")
	in(patchValue(t, filter, "EXTENSION_CONFIG"), "typed_config", "config", "vm_config", "code", "remote", "http_uri").(object)["uri"] = faultyURL
	for _, c := range []struct {
		name    string
		objects object
		runs    bool // unguarded calls run
		comes   bool // the guard comes back by itself
	}{
		{"reload", filter, false, true},
		{"plugin", plugin("FAIL_RELOAD"), false, true},
		{"close", plugin("FAIL_CLOSE"), false, false},
		{"open", plugin("FAIL_OPEN"), true, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			i.change(t, c.objects)
			t.Cleanup(func() { i.api.Delete(c.objects) })
			eventually(t, "a guard", i.back)
			k := i.kill(t, c.name)
			if k.ran > 0 != c.runs || !c.runs && k.unavailable == 0 {
				t.Errorf("want calls to run: %v, got %+v", c.runs, k)
			}
			if c.comes {
				eventually(t, "a guard again", i.back)
			} else if err := i.back(); err == nil {
				t.Error("want no guard, it came back")
			}
			i.api.Delete(c.objects)
			eventually(t, "no guard", i.unguarded)
		})
	}
}

// What callers get while a VM is dead, as docs/envoy-gateway.md says.
func TestGatewayVMDies(t *testing.T) {
	made := func(patch, open bool) []object {
		all := manifests(t, "gateway/base")
		wasm := in(find(t, all, "EnvoyExtensionPolicy"), "spec", "wasm", 0).(object)
		wasm["code"] = object{"type": "HTTP", "http": object{"url": faultyURL}}
		wasm["failOpen"] = open
		if !patch {
			all = without(all, "EnvoyPatchPolicy")
		}
		return all
	}
	g := startGateway(t, made(true, false))
	for _, c := range []struct {
		name        string
		patch, open bool
		runs, comes bool
	}{
		{"reload", true, false, false, true},
		{"close", false, false, false, false},
		{"open", false, true, true, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			g.apply(t, made(c.patch, c.open))
			eventually(t, "the change", func() error {
				p := g.plugin(t)
				if got := fmt.Sprint(in(p, "failure_policy"), in(p, "fail_open")); (in(p, "failure_policy") == "FAIL_RELOAD") != c.patch || strings.Contains(got, "true") != c.open && strings.Contains(got, "FAIL_OPEN") != c.open {
					return errors.New(got)
				}
				return nil
			})
			eventually(t, "a guard", g.back)
			k := g.kill(t, c.name)
			if k.ran > 0 != c.runs || !c.runs && k.unavailable == 0 {
				t.Errorf("want calls to run: %v, got %+v", c.runs, k)
			}
			if c.comes {
				eventually(t, "a guard again", g.back)
			} else if err := g.back(); err == nil {
				t.Error("want no guard, it came back")
			}
		})
	}
}
