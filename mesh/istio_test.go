package mesh_test

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"regexp"
	"strings"
	"testing"
	"time"
)

// labelled is a metric of the filter with its labels, as Prometheus gets it.
var labelled = regexp.MustCompile(`idempotency_total\{[^}]*namespace="demo"[^}]*\} \d+`)

func (i *istio) change(t *testing.T, objects ...object) {
	t.Helper()
	i.api.Apply(objects...)
}

// The whole filter on an ingress gateway: envoy/istio/gateway as it is.
func TestIstioGateway(t *testing.T) {
	all := manifests(t, "istio/gateway")
	filter := find(t, all, "EnvoyFilter")
	i := startIstio(t, meshConfig(t), all...)
	eventually(t, "a guard", i.guarding)
	t.Run("calls", func(t *testing.T) { i.behaves(t, true) })
	t.Run("spellings", func(t *testing.T) { i.closed(t, true) })
	t.Run("CORS", i.shares)
	t.Run("flags", func(t *testing.T) {
		c := i.plugin(t)
		if in(c, "allow_on_headers_stop_iteration") != true || in(c, "failure_policy") != "FAIL_RELOAD" || in(c, "vm_config", "vm_id") != "callonce" {
			t.Errorf("got %v", c)
		}
	})
	t.Run("route names and access log", func(t *testing.T) {
		logged(t, i.agent, 0, `"route":"mcp"`)
		logged(t, i.agent, 0, `"route":"other"`)
		logged(t, i.agent, 0, `"outcome":"replay`)
	})
	t.Run("metrics", func(t *testing.T) {
		for _, url := range []string{i.admin + "/stats/prometheus", "http://127.0.0.1:15090/stats/prometheus", "http://127.0.0.1:15020/stats/prometheus"} {
			text := get(t, url, nil)
			if !labelled.MatchString(text) {
				t.Errorf("%s: no labels in\n%s", url, lines(text, "idempotency_total"))
			}
		}
	})
	t.Run("recorded", func(t *testing.T) { compare(t, "istio-gateway", i.recording(t)) })
	t.Run("configuration changed", func(t *testing.T) {
		i.guards(t, "kept")
		reconfigure(t, all, func(c string) string { return strings.Replace(c, `"match": "charge"`, `"match": "char*"`, 1) })
		i.change(t, filter)
		eventually(t, "the change", func() error {
			if c := fmt.Sprint(in(i.plugin(t), "configuration", "value")); !strings.Contains(c, "char*") {
				return errors.New(c)
			}
			return nil
		})
		if r := i.charge(t, "kept"); !r.replayed {
			t.Errorf("a key from before: %v", r)
		}
		i.guards(t, "after-the-change")
	})
	t.Run("configuration broken", func(t *testing.T) {
		from := len(i.istiod.Output())
		broken := manifests(t, "istio/gateway")
		i.change(t, reconfigure(t, broken, func(c string) string { return strings.Replace(c, `"guard": "optional"`, `"guard": "perhaps"`, 1) }))
		logged(t, i.istiod, from, "ACK ERROR")
		i.guards(t, "while-broken")
		i.change(t, filter)
	})
	t.Run("route metadata", func(t *testing.T) {
		for policy, want := range map[string]string{"off": "200", "nosuch": "idempotency_unavailable"} {
			i.change(t, object{"apiVersion": "networking.istio.io/v1alpha3", "kind": "EnvoyFilter", "metadata": object{"name": "route", "namespace": "istio-ingress"}, "spec": object{
				"workloadSelector": object{"labels": ingress.app},
				"configPatches": []any{object{"applyTo": "HTTP_ROUTE", "match": object{"context": "GATEWAY", "routeConfiguration": object{"vhost": object{"route": object{"name": "mcp"}}}},
					"patch": object{"operation": "MERGE", "value": object{"metadata": object{"filter_metadata": object{"callonce": object{"policy": policy}}}}}}},
			}})
			eventually(t, policy, func() error {
				r, err := i.try("POST", "/mcp", toolCall("refund", "unguarded-metadata"))
				if err == nil && !strings.Contains(r.String(), want) {
					err = errors.New(r.String())
				}
				return err
			})
		}
		i.api.Delete(object{"apiVersion": "networking.istio.io/v1alpha3", "kind": "EnvoyFilter", "metadata": object{"name": "route", "namespace": "istio-ingress"}})
		eventually(t, "a guard again", i.guarding)
	})
	t.Run("image gone", func(t *testing.T) {
		gone := find(t, manifests(t, "istio/gateway"), "EnvoyFilter")
		http := in(patchValue(t, gone, "EXTENSION_CONFIG"), "typed_config", "config", "vm_config", "code", "remote", "http_uri").(object)
		http["uri"] = "oci://registry.example.com/callonce:gone"
		i.guards(t, "forgotten")
		i.change(t, gone)
		eventually(t, "denied", i.answers("/mcp", 403))
		if r := i.charge(t, "while-gone"); r.status != 403 || i.server.ran("while-gone") != 0 {
			t.Errorf("got %v", r)
		}
		i.change(t, filter)
		eventually(t, "a guard again", i.guarding)
		// With the last VM its table went: docs/istio.md says so.
		if r := i.charge(t, "forgotten"); r.replayed || i.server.ran("forgotten") != 2 {
			t.Errorf("a key from before: %v", r)
		}
		i.guards(t, "after-the-image-came-back")
	})
}

// answers says whether a call of a required tool without a key gets a status.
func (m *mesh) answers(path string, status int) func() error {
	return func() error {
		r, err := m.try("POST", path, toolCall("refund", "unguarded-probe"))
		if err == nil && r.status != status {
			err = errors.New(r.String())
		}
		return err
	}
}

func lines(text, with string) string {
	var found []string
	for line := range strings.Lines(text) {
		if strings.Contains(line, with) {
			found = append(found, line)
		}
	}
	return strings.Join(found, "")
}

// Callers told apart by their tokens' claims: envoy/istio/jwt as it is.
func TestIstioJWT(t *testing.T) {
	token := startIssuer(t)
	i := startIstio(t, meshConfig(t), manifests(t, "istio/jwt")...)
	ada, bob := "Bearer "+token("ada"), "Bearer "+token("bob")
	eventually(t, "a guard", func() error {
		r, err := i.try("POST", "/mcp", toolCall("refund", "unguarded-probe"), "Authorization", ada)
		if err == nil && !strings.Contains(r.body, "idempotency_key_required") {
			err = errors.New(r.String())
		}
		return err
	})
	i.guards(t, "hers", "Authorization", ada)
	mine := i.send(t, "POST", "/mcp", toolCall("charge", "his"), "Authorization", bob, "Idempotency-Key", "hers")
	if mine.status != 200 || mine.replayed || i.server.ran("his") != 1 {
		t.Errorf("another caller with the same key: %v", mine)
	}
	for name, value := range map[string]string{"none": "", "a forged one": ada[:len(ada)-8] + "AAAAAAAA"} {
		var header []string
		if value != "" {
			header = []string{"Authorization", value}
		}
		if r := i.charge(t, "hers", header...); r.status != 401 && r.status != 403 || r.replayed {
			t.Errorf("token: %s: %v", name, r)
		}
	}
	for path, want := range map[string]int{"/oauth/token": 200, "/oauth/..;/mcp": 403, "/.well-known/..;/mcp": 403, "/;/mcp": 403, "/%252e%252e/mcp": 403} {
		if r := i.send(t, "POST", path, toolCall("get_x", "unguarded-token"), "Content-Type", "text/plain"); r.status != want {
			t.Errorf("%s without a token: want %d, got %v", path, want, r)
		}
	}
	compare(t, "istio-jwt", i.recording(t))
}

// In front of one workload, callers told apart by their certificates: envoy/istio/sidecar as it is. Only how traffic gets to the
// listener is the test's: no iptables redirect it here, so the Sidecar binds a port.
func TestIstioSidecar(t *testing.T) {
	w := workload{role: "sidecar", name: "payments-1", namespace: "default", app: object{"app": "payments"}, ip: serverIP, credentials: true}
	all := manifests(t, "istio/sidecar")
	find(t, all, "Sidecar")["spec"].(object)["ingress"] = []any{object{
		"port": object{"number": 9090, "protocol": "HTTP", "name": "http"}, "bind": serverIP, "captureMode": "NONE", "defaultEndpoint": "127.0.0.1:8080",
	}}
	i := startIstiod(t, meshConfig(t), append(service("payments", w, 9090, 9090), all...)...)
	listen(t, "127.0.0.1:8080", i.server)
	i.agent = i.startAgent(t, w, meshConfig(t))
	as := func(id string) *mesh {
		m := i.mesh
		config := &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"istio-http/1.1", "http/1.1"}}
		if id != "" {
			config.Certificates = []tls.Certificate{authority.issue(t, id)}
		}
		m.dial = func() (net.Conn, error) {
			conn, err := net.DialTimeout("tcp", serverIP+":9090", 5*time.Second)
			if err != nil {
				return nil, err
			}
			return tls.Client(conn, config), nil
		}
		return &m
	}
	ada, bob := as("spiffe://cluster.local/ns/default/sa/ada"), as("spiffe://cluster.local/ns/default/sa/bob")
	eventually(t, "a guard", ada.guarding)
	ada.guards(t, "hers")
	if r := bob.send(t, "POST", "/mcp", toolCall("charge", "his"), "Idempotency-Key", "hers"); r.status != 200 || r.replayed || i.server.ran("his") != 1 {
		t.Errorf("another caller with the same key: %v", r)
	}
	t.Run("spellings", func(t *testing.T) { ada.closed(t, true) })
	for name, m := range map[string]*mesh{"no certificate": as(""), "plain text": {dial: plain(serverIP + ":9090"), server: i.server}} {
		if r, err := m.try("POST", "/mcp", toolCall("charge", "nobody"), "Idempotency-Key", "hers"); err == nil {
			t.Errorf("%s: want no answer, got %v", name, r)
		}
	}
	t.Run("recorded", func(t *testing.T) { compare(t, "istio-sidecar", i.mesh.recording(t, 9090, "inbound|")) })
	t.Run("no shadow rule", func(t *testing.T) {
		filter := find(t, all, "EnvoyFilter")
		patches := filter["spec"].(object)["configPatches"].([]any)
		filter["spec"].(object)["configPatches"] = patches[1:]
		i.change(t, filter)
		eventually(t, "refused", func() error {
			r, err := ada.try("POST", "/mcp", toolCall("charge", "unguarded-nobody"), "Idempotency-Key", "nobody")
			if err == nil && !strings.Contains(r.body, `"idempotency_requires_verified_identity"`) {
				err = errors.New(r.String())
			}
			return err
		})
	})
	t.Run("the wrong context", func(t *testing.T) {
		wrong := find(t, manifests(t, "istio/gateway"), "EnvoyFilter")
		wrong["metadata"].(object)["namespace"] = w.namespace
		wrong["spec"].(object)["workloadSelector"] = object{"labels": w.app}
		i.change(t, wrong)
		eventually(t, "no guard", ada.unguarded)
	})
	t.Run("no mTLS", func(t *testing.T) {
		plaintext := manifests(t, "istio/sidecar")
		find(t, plaintext, "PeerAuthentication")["spec"].(object)["mtls"] = object{"mode": "DISABLE"}
		i.change(t, find(t, plaintext, "EnvoyFilter"), find(t, plaintext, "PeerAuthentication"))
		plain := mesh{dial: plain(serverIP + ":9090"), server: i.server}
		eventually(t, "refused", func() error {
			r, err := plain.try("POST", "/mcp", toolCall("charge", "unguarded-nobody"), "Idempotency-Key", "nobody")
			if err == nil && !strings.Contains(r.body, `"idempotency_requires_verified_identity"`) {
				err = errors.New(r.String())
			}
			return err
		})
	})
}

// Istio's own resource: envoy/istio/wasmplugin as it is, and its other sources.
func TestIstioWasmPlugin(t *testing.T) {
	all := manifests(t, "istio/wasmplugin")
	plugin := find(t, all, "WasmPlugin")
	i := startIstio(t, meshConfig(t), all...)
	eventually(t, "a guard", i.guarding)
	i.behaves(t, false)
	t.Run("spellings", func(t *testing.T) { i.closed(t, false) })
	t.Run("CORS", i.shares)
	t.Run("recorded", func(t *testing.T) { compare(t, "istio-wasmplugin", i.recording(t)) })
	file := wasmFile(t)
	for name, url := range map[string]string{"http": moduleURL, "file": "file://" + file, "digest": "oci://" + byDigest(t)} {
		t.Run(name, func(t *testing.T) {
			spec := plugin["spec"].(object)
			spec["url"] = url
			config := spec["pluginConfig"].(object)
			config["namespace"] = name // the module is loaded anew, and the change can be seen
			i.change(t, plugin)
			eventually(t, url, func() error {
				if got := in(i.plugin(t), "configuration", "value", "namespace"); got != name && !strings.Contains(fmt.Sprint(in(i.plugin(t), "configuration")), `"namespace":"`+name+`"`) {
					return fmt.Errorf("got %v", in(i.plugin(t), "configuration"))
				}
				return nil
			})
			i.guards(t, "from-"+name)
		})
	}
}
