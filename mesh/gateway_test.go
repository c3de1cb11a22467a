package mesh_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"
)

// The filter on the route of calls: envoy/gateway/base as it is.
func TestGateway(t *testing.T) {
	all := manifests(t, "gateway/base")
	g := startGateway(t, all)
	eventually(t, "a guard", g.guarding)
	eventually(t, "the admin interface", ok(g.admin+"/ready"))
	eventually(t, "buffered headers", func() error {
		if c := g.plugin(t); in(c, "allow_on_headers_stop_iteration") != true {
			return fmt.Errorf("got %v", c)
		}
		return nil
	})
	t.Run("calls", func(t *testing.T) { g.behaves(t, true) })
	t.Run("spellings", func(t *testing.T) { g.closed(t, true) })
	t.Run("CORS", g.shares)
	t.Run("flags", func(t *testing.T) {
		c := g.plugin(t)
		if in(c, "failure_policy") != "FAIL_RELOAD" || !strings.Contains(fmt.Sprint(in(c, "vm_config", "vm_id")), "callonce") {
			t.Errorf("got %v", c)
		}
	})
	t.Run("route names and access log", func(t *testing.T) {
		logged(t, g.process, 0, `"route":"httproute/mcp/mcp/rule/0/match/0/*"`)
		logged(t, g.process, 0, `"outcome":"replay`)
		logged(t, g.process, 0, "Programmed")
	})
	t.Run("metrics", func(t *testing.T) {
		if text := get(t, g.admin+"/stats/prometheus", nil); !labelled.MatchString(text) {
			t.Errorf("no labels in\n%s", lines(text, "idempotency_total"))
		}
	})
	t.Run("recorded", func(t *testing.T) { compare(t, "envoy-gateway", g.recording(t)) })
	set := func(change func(policy object)) {
		t.Helper()
		changed := manifests(t, "gateway/base")
		change(in(find(t, changed, "EnvoyExtensionPolicy"), "spec", "wasm", 0).(object))
		g.apply(t, changed)
	}
	t.Run("configuration changed", func(t *testing.T) {
		g.guards(t, "kept")
		set(func(w object) { in(w, "config", "policies", "payments", "tools", 0).(object)["match"] = "char*" })
		eventually(t, "the change", func() error {
			if !strings.Contains(fmt.Sprint(in(g.plugin(t), "configuration")), "char*") {
				return errors.New("not there")
			}
			return nil
		})
		if r := g.charge(t, "kept"); !r.replayed {
			t.Errorf("a key from before: %v", r)
		}
		g.guards(t, "after-the-change")
	})
	t.Run("configuration broken", func(t *testing.T) {
		from := len(g.process.Output())
		set(func(w object) { in(w, "config", "policies", "payments", "tools", 0).(object)["guard"] = "perhaps" })
		logged(t, g.process, from, "Unable to create Wasm plugin")
		g.guards(t, "while-broken")
		g.apply(t, all)
	})
	t.Run("image gone", func(t *testing.T) {
		set(func(w object) { in(w, "code", "image").(object)["url"] = "registry.example.com/callonce:gone" })
		eventually(t, "500", g.answers("/mcp", 500))
		if r := g.charge(t, "while-gone"); r.status != 500 || g.server.ran("while-gone") != 0 {
			t.Errorf("got %v", r)
		}
		g.apply(t, all)
		eventually(t, "a guard again", g.guarding)
		g.guards(t, "after-the-image-came-back")
	})
	t.Run("http", func(t *testing.T) {
		set(func(w object) {
			w["code"] = object{"type": "HTTP", "http": object{"url": moduleURL}}
			w["config"].(object)["namespace"] = "http"
		})
		eventually(t, "the change", func() error {
			if !strings.Contains(fmt.Sprint(in(g.plugin(t), "configuration")), `"namespace":"http"`) {
				return errors.New("not there")
			}
			return nil
		})
		g.guards(t, "from-http")
	})
}

func (g *gateway) recording(t *testing.T) object {
	t.Helper()
	return g.mesh.recording(t, gatewayPort, "httproute/mcp/mcp/rule/0")
}

// What callers get by each mistake, as docs/envoy-gateway.md says.
func TestGatewayMistakes(t *testing.T) {
	g := startGateway(t, manifests(t, "gateway/base"))
	eventually(t, "a guard", g.guarding)
	for _, c := range []struct {
		name   string
		change func(all []object) []object
		want   string // "runs" for a call that nobody guards
		path   string
	}{
		{"targetRefs name another route", func(all []object) []object {
			in(find(t, all, "EnvoyExtensionPolicy"), "spec", "targetRefs", 0).(object)["name"] = "mpc"
			return all
		}, "runs", "/mcp"},
		{"PathPrefix", func(all []object) []object {
			for _, o := range all {
				if o["kind"] == "HTTPRoute" && in(o, "metadata", "name") != "other" {
					in(o, "spec", "rules", 0, "matches", 0).(object)["path"] = object{"type": "PathPrefix", "value": "/mcp"}
				}
			}
			return all
		}, "runs", "/MCP"},
		{"no expression for parameters", func(all []object) []object {
			for _, o := range all {
				if o["kind"] == "HTTPRoute" && in(o, "metadata", "name") == "mcp" {
					rule := in(o, "spec", "rules", 0).(object)
					rule["matches"] = rule["matches"].([]any)[:1]
				}
			}
			return all
		}, "runs", "/;/mcp"},
		{"default is off", func(all []object) []object {
			in(find(t, all, "EnvoyExtensionPolicy"), "spec", "wasm", 0, "config").(object)["default"] = "off"
			return all
		}, "runs", "/mcp"},
		{"an image that is not there", func(all []object) []object {
			in(find(t, all, "EnvoyExtensionPolicy"), "spec", "wasm", 0, "code", "image").(object)["url"] = "registry.example.com/callonce:gone"
			return all
		}, "500 ", "/mcp"},
		{"another route takes the path", func(all []object) []object {
			other := find(t, manifests(t, "gateway/base"), "HTTPRoute")
			other["metadata"].(object)["name"] = "exact"
			in(other, "spec", "rules", 0).(object)["matches"] = []any{object{"path": object{"type": "Exact", "value": "/mcp"}}}
			return append(all, other)
		}, "runs", "/mcp"},
		{"fails open, and the image is not there", func(all []object) []object {
			w := in(find(t, all, "EnvoyExtensionPolicy"), "spec", "wasm", 0).(object)
			w["failOpen"] = true
			in(w, "code", "image").(object)["url"] = "registry.example.com/callonce:gone"
			return all
		}, "runs", "/mcp"},
		{"the patch is not there", func(all []object) []object { return without(all, "EnvoyPatchPolicy") }, `"idempotency_key_required"`, "/mcp"},
		{"the patch fits no listener", func(all []object) []object {
			for _, p := range in(find(t, all, "EnvoyPatchPolicy"), "spec", "jsonPatches").([]any) {
				p.(object)["name"] = "mcp/mcp/https"
			}
			return all
		}, `"idempotency_key_required"`, "/mcp"},
	} {
		t.Run(c.name, func(t *testing.T) {
			g.apply(t, c.change(manifests(t, "gateway/base")))
			if strings.Contains(c.name, "the patch") {
				eventually(t, "headers that are not buffered", func() error {
					if p := g.plugin(t); p == nil || p["allow_on_headers_stop_iteration"] != nil || p["failure_policy"] == "FAIL_RELOAD" {
						return fmt.Errorf("got %v", p)
					}
					return nil
				})
			}
			eventually(t, c.want, func() error {
				r, err := g.try("POST", c.path, toolCall("refund", "unguarded-mistake"))
				if err != nil {
					return err
				}
				if got := fmt.Sprint(r.status, " ", r.body); c.want == "runs" && !strings.Contains(got, "of unguarded-mistake") || c.want != "runs" && !strings.Contains(got, c.want) {
					return errors.New(got)
				}
				return nil
			})
			g.apply(t, manifests(t, "gateway/base"))
			eventually(t, "a guard", g.guarding)
		})
	}
}

// A bad configuration in a policy that is added to a gateway which serves already.
func TestGatewayBadAtFirst(t *testing.T) {
	all := manifests(t, "gateway/base")
	g := startGateway(t, without(without(all, "EnvoyExtensionPolicy"), "EnvoyPatchPolicy"))
	eventually(t, "the way to the server", g.unguarded)
	from := len(g.process.Output())
	in(find(t, all, "EnvoyExtensionPolicy"), "spec", "wasm", 0, "config", "policies", "payments", "tools", 0).(object)["guard"] = "perhaps"
	g.apply(t, all)
	logged(t, g.process, from, "failed to load")
	time.Sleep(time.Second)
	for range 10 {
		if r := g.send(t, "POST", "/mcp", toolCall("refund", "first")); r.status != 503 || g.server.ran("first") > 0 {
			t.Errorf("want 503, got %v", r)
		}
	}
	if r := g.send(t, "POST", "/oauth/token", "grant_type=x", "Content-Type", "application/x-www-form-urlencoded"); r.status != 200 {
		t.Errorf("another route: %v", r)
	}
	g.apply(t, manifests(t, "gateway/base"))
	eventually(t, "a guard, once it is mended", g.guarding)
}

// Callers told apart by their tokens' claims: envoy/gateway/jwt as it is.
func TestGatewayJWT(t *testing.T) {
	token := startIssuer(t)
	g := startGateway(t, manifests(t, "gateway/jwt"))
	ada, bob := "Bearer "+token("ada"), "Bearer "+token("bob")
	eventually(t, "a guard", func() error {
		r, err := g.try("POST", "/mcp", toolCall("refund", "unguarded-probe"), "Authorization", ada)
		if err == nil && !strings.Contains(r.body, "idempotency_key_required") {
			err = errors.New(r.String())
		}
		return err
	})
	g.guards(t, "hers", "Authorization", ada)
	if r := g.send(t, "POST", "/mcp", toolCall("charge", "his"), "Authorization", bob, "Idempotency-Key", "hers"); r.status != 200 || r.replayed || g.server.ran("his") != 1 {
		t.Errorf("another caller with the same key: %v", r)
	}
	if r := g.charge(t, "hers"); r.status != 401 || r.replayed {
		t.Errorf("no token: %v", r)
	}
	for path, want := range map[string]int{"/oauth/token": 200, "/oauth/..;/mcp": 401, "/.well-known/..;/mcp": 401, "/;/mcp": 401, "/%252e%252e/mcp": 401} {
		if r := g.send(t, "POST", path, toolCall("get_x", "unguarded-token"), "Content-Type", "text/plain"); r.status != want {
			t.Errorf("%s without a token: want %d, got %v", path, want, r)
		}
	}
	compare(t, "envoy-gateway-jwt", g.recording(t))
}
