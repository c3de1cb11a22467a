package mesh_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/callonce/callonce/e2e/child"
	"github.com/callonce/callonce/e2e/tools"
	"github.com/callonce/callonce/mesh/apiserver"
)

// definitions are the kinds of Istio's that istiod looks for.
var definitions = []string{
	"wasmplugins.extensions.istio.io", "trafficextensions.extensions.istio.io", "gateways.networking.istio.io", "virtualservices.networking.istio.io",
	"serviceentries.networking.istio.io", "workloadentries.networking.istio.io", "workloadgroups.networking.istio.io", "destinationrules.networking.istio.io",
	"envoyfilters.networking.istio.io", "sidecars.networking.istio.io", "proxyconfigs.networking.istio.io", "authorizationpolicies.security.istio.io",
	"requestauthentications.security.istio.io", "peerauthentications.security.istio.io", "telemetries.telemetry.istio.io",
}

// istio is a control plane, and what it controls.
type istio struct {
	mesh
	api    *apiserver.Server
	istiod *child.Process
	agent  *child.Process
}

// workload is a pod, and the agent in it.
type workload struct {
	role      string // router or sidecar
	name      string
	namespace string
	app       object // its labels
	ip        string
	// credentials says that it has a certificate of the mesh; else all is plain text
	credentials bool
}

var ingress = workload{role: "router", name: "gateway-1", namespace: "istio-ingress", app: object{"istio": "ingressgateway"}, ip: gatewayIP}

// id is what its certificate says.
func (w workload) id() string { return "spiffe://cluster.local/ns/" + w.namespace + "/sa/default" }

// service is a service with one pod.
func service(name string, w workload, port int, target int) []object {
	return []object{
		{"apiVersion": "v1", "kind": "Pod", "metadata": object{"name": w.name, "namespace": w.namespace, "labels": w.app},
			"spec":   object{"serviceAccountName": "default", "nodeName": "node", "containers": []any{}},
			"status": object{"phase": "Running", "podIP": w.ip, "podIPs": []any{object{"ip": w.ip}}, "conditions": []any{object{"type": "Ready", "status": "True"}}}},
		{"apiVersion": "v1", "kind": "Service", "metadata": object{"name": name, "namespace": w.namespace},
			"spec": object{"clusterIP": "None", "selector": w.app, "ports": []any{object{"name": "http", "port": port, "targetPort": target, "protocol": "TCP"}}}},
		{"apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "addressType": "IPv4",
			"metadata":  object{"name": name + "-1", "namespace": w.namespace, "labels": object{"kubernetes.io/service-name": name}},
			"ports":     []any{object{"name": "http", "port": target, "protocol": "TCP"}},
			"endpoints": []any{object{"addresses": []any{w.ip}, "conditions": object{"ready": true}, "targetRef": object{"kind": "Pod", "name": w.name, "namespace": w.namespace}}}},
	}
}

// meshConfig is envoy/istio/mesh.yaml, and what a mesh without a certificate authority and with the usual Envoy needs besides.
func meshConfig(t *testing.T) object {
	t.Helper()
	text, err := os.ReadFile("../envoy/istio/mesh.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var m object
	if err := yaml.Unmarshal(text, &m); err != nil {
		t.Fatal(err)
	}
	maps.Copy(m, object{
		"ingressControllerMode": "OFF", "enableAutoMtls": false, "enablePrometheusMerge": false,
		"defaultProviders": object{"metrics": []any{}}, // istio.stats is a filter of Istio's own Envoy
	})
	maps.Copy(m["defaultConfig"].(object), object{"discoveryAddress": "127.0.0.1:15010", "controlPlaneAuthPolicy": "NONE"})
	return m
}

// startIstiod starts everything but a workload, with objects there from the start: a registry, the server, the API server, istiod.
func startIstiod(t *testing.T, config object, objects ...object) *istio {
	t.Helper()
	startRegistry(t)
	i := &istio{api: apiserver.New(definitions...)}
	i.server = startServer(t)
	i.admin = "http://127.0.0.1:15000"
	i.api.Namespaces("istio-system", "istio-ingress")
	i.api.Apply(objects...)
	listen(t, apiAt, i.api)
	i.startControl(t, config)
	return i
}

// startIstio starts a gateway besides, and has the server known in the namespace istio-ingress.
func startIstio(t *testing.T, config object, objects ...object) *istio {
	t.Helper()
	all := append(service("istio-ingressgateway", ingress, 80, 80),
		service("payments", workload{name: "payments-1", namespace: ingress.namespace, app: object{"app": "payments"}, ip: serverIP}, 8080, 8080)...)
	i := startIstiod(t, config, append(all, objects...)...)
	i.agent = i.startAgent(t, ingress, config)
	i.dial = plain(net.JoinHostPort(gatewayIP, "80"))
	return i
}

func (i *istio) startControl(t *testing.T, config object) {
	t.Helper()
	dir := t.TempDir()
	write(t, filepath.Join(dir, "mesh.yaml"), config)
	write(t, filepath.Join(dir, "kubeconfig"), object{
		"apiVersion": "v1", "kind": "Config", "current-context": "stub",
		"contexts": []any{object{"name": "stub", "context": object{"cluster": "stub", "user": "stub"}}},
		"clusters": []any{object{"name": "stub", "cluster": object{"server": "http://" + apiAt}}},
		"users":    []any{object{"name": "stub", "user": object{}}},
	})
	i.istiod = run(t, "istiod", dir, []string{
		// Filters of Istio's own Envoy; and no certificate authority.
		"PILOT_ENABLE_ALPN_FILTER=false", "PILOT_ENABLE_METADATA_EXCHANGE=false", "ENABLE_CA_SERVER=false",
		"PILOT_ENABLE_GATEWAY_API=false", "PILOT_ENABLE_ANALYSIS=false",
	}, filepath.Join(os.Getenv(varIstio), "pilot-discovery"), "discovery", "--registries=Kubernetes", "--kubeconfig="+filepath.Join(dir, "kubeconfig"),
		"--meshConfig="+filepath.Join(dir, "mesh.yaml"), "--grpcAddr=127.0.0.1:15010", "--httpAddr=127.0.0.1:8081", "--monitoringAddr=127.0.0.1:15014",
		"--secureGRPCAddr=", "--httpsAddr=", "--ctrlz_port=0")
	await(t, i.istiod, ok("http://127.0.0.1:8081/ready"))
}

func (i *istio) startAgent(t *testing.T, w workload, config object) *child.Process {
	t.Helper()
	proxy := maps.Clone(config["defaultConfig"].(object))
	maps.Copy(proxy, object{"binaryPath": os.Getenv(varEnvoy), "configPath": filepath.Join(t.TempDir(), "proxy"), "concurrency": 2, "terminationDrainDuration": "1s"})
	text, err := json.Marshal(proxy)
	labels, err2 := json.Marshal(w.app)
	if err != nil || err2 != nil {
		t.Fatal(err, err2)
	}
	environment := []string{
		"POD_NAME=" + w.name, "POD_NAMESPACE=" + w.namespace, "INSTANCE_IP=" + w.ip, "SERVICE_ACCOUNT=default", "ISTIO_META_CLUSTER_ID=Kubernetes",
		"ISTIO_METAJSON_LABELS=" + string(labels), "ISTIO_BOOTSTRAP=" + filepath.Join(os.Getenv(varIstio), tools.Bootstrap), "PROXY_CONFIG=" + string(text),
	}
	dir := t.TempDir() // the agent writes below it
	if w.credentials {
		authority.credentials(t, dir, w.id())
	} else {
		environment = append(environment, "FILE_MOUNTED_CERTS=true")
	}
	return run(t, w.name, dir, environment, filepath.Join(os.Getenv(varIstio), "pilot-agent"), "proxy", w.role,
		"--domain", w.namespace+".svc.cluster.local", "--serviceCluster", w.name+"."+w.namespace, "--proxyLogLevel", "warning", "--profiling=false")
}

func write(t *testing.T, file string, o object) {
	t.Helper()
	text, err := json.Marshal(o) // which is YAML too
	if err == nil {
		err = os.WriteFile(file, text, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// without is a list of objects less those of a kind.
func without(all []object, kind string) (rest []object) {
	for _, o := range all {
		if o["kind"] != kind {
			rest = append(rest, o)
		}
	}
	return rest
}

// patchValue is the value of the patch of an EnvoyFilter that applies to something.
func patchValue(t *testing.T, filter object, applyTo string) object {
	t.Helper()
	for _, p := range filter["spec"].(object)["configPatches"].([]any) {
		if in(p, "applyTo") == applyTo {
			return in(p, "patch", "value").(object)
		}
	}
	t.Fatalf("no patch of %s", applyTo)
	return nil
}

// configuration changes the filter's configuration in an EnvoyFilter or a WasmPlugin.
func reconfigure(t *testing.T, all []object, change func(text string) string) object {
	t.Helper()
	for _, o := range all {
		switch o["kind"] {
		case "EnvoyFilter":
			c := in(patchValue(t, o, "EXTENSION_CONFIG"), "typed_config", "config", "configuration").(object)
			c["value"] = change(c["value"].(string))
			return o
		case "WasmPlugin":
			spec := o["spec"].(object)
			text, err := json.Marshal(spec["pluginConfig"])
			if err != nil {
				t.Fatal(err)
			}
			var c object
			if err := json.Unmarshal([]byte(change(string(text))), &c); err != nil {
				t.Fatal(err)
			}
			spec["pluginConfig"] = c
			return o
		}
	}
	t.Fatal("no filter in it")
	return nil
}

// logged waits until a program has printed something new.
func logged(t *testing.T, p *child.Process, from int, words string) {
	t.Helper()
	eventually(t, fmt.Sprintf("%q in the log", words), func() error {
		if out := p.Output(); !strings.Contains(out[min(from, len(out)):], words) {
			return fmt.Errorf("not there")
		}
		return nil
	})
}
