package mesh_test

import (
	"bytes"
	"encoding/base64"
	"errors"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/callonce/callonce/e2e/child"
)

// gateway is Envoy Gateway, standing alone: what it reads are files, and its Envoy is a process beside it.
type gateway struct {
	mesh
	process   *child.Process
	resources string // the folder that it watches
	home      string
}

const gatewayPort = 80 // in a cluster it would be 10080, with a Service before it

// hostOnly is what standing alone needs besides, and nobody in Kubernetes: the class that an installation brings, a server that is no
// Service, and two places in which Envoy Gateway thinks of itself as in a cluster (its certificates, and where its modules are served).
func (g *gateway) hostOnly(t *testing.T, all []object) []object {
	t.Helper()
	version, err := envoyVersion()
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range all {
		switch o["kind"] {
		case "EnvoyProxy":
			o["spec"].(object)["provider"] = object{"type": "Host", "host": object{"envoyVersion": version}}
		case "HTTPRoute":
			for _, rule := range in(o, "spec", "rules").([]any) {
				rule.(object)["backendRefs"] = []any{object{"group": "gateway.envoyproxy.io", "kind": "Backend", "name": "payments"}}
			}
		}
	}
	certs := filepath.Join(g.home, "config", "certs", "envoy")
	secret := object{}
	for _, name := range []string{"ca.crt", "tls.crt", "tls.key"} {
		text, err := os.ReadFile(filepath.Join(certs, name))
		if err != nil {
			t.Fatal(err)
		}
		secret[name] = base64.StdEncoding.EncodeToString(text)
	}
	host, port, err := net.SplitHostPort(serverAt)
	if err != nil {
		t.Fatal(err)
	}
	cluster := func(path string, value any) object {
		return object{"type": "type.googleapis.com/envoy.config.cluster.v3.Cluster", "name": "wasm_cluster", "operation": object{"op": "replace", "path": path, "value": value}}
	}
	return append(all,
		object{"apiVersion": "v1", "kind": "Namespace", "metadata": object{"name": "mcp"}},
		object{"apiVersion": "v1", "kind": "Namespace", "metadata": object{"name": "envoy-gateway-system"}},
		object{"apiVersion": "gateway.networking.k8s.io/v1", "kind": "GatewayClass", "metadata": object{"name": "eg"}, "spec": object{"controllerName": "gateway.envoyproxy.io/gatewayclass-controller"}},
		object{"apiVersion": "gateway.envoyproxy.io/v1alpha1", "kind": "Backend", "metadata": object{"name": "payments", "namespace": "mcp"},
			"spec": object{"endpoints": []any{object{"ip": object{"address": host, "port": jsonNumber(port)}}}}},
		object{"apiVersion": "v1", "kind": "Secret", "metadata": object{"name": "envoy", "namespace": "envoy-gateway-system"}, "type": "kubernetes.io/tls", "data": secret},
		object{"apiVersion": "gateway.envoyproxy.io/v1alpha1", "kind": "EnvoyPatchPolicy", "metadata": object{"name": "host-only", "namespace": "mcp"}, "spec": object{
			"targetRef": object{"group": "gateway.networking.k8s.io", "kind": "Gateway", "name": "mcp"}, "type": "JSONPatch",
			"jsonPatches": []any{
				cluster("/transport_socket/typed_config/common_tls_context/validation_context/trusted_ca/filename", filepath.Join(certs, "ca.crt")),
				cluster("/load_assignment/endpoints/0/lb_endpoints/0/endpoint/address/socket_address/address", "127.0.0.1"),
			}}},
	)
}

func jsonNumber(text string) any {
	var n any
	_ = yaml.Unmarshal([]byte(text), &n) // digits
	return n
}

var versionIn = regexp.MustCompile(`/(\d+\.\d+\.\d+)/`)

// envoyVersion is that of the Envoy in use.
func envoyVersion() (string, error) {
	text, err := exec.Command(os.Getenv(varEnvoy), "--version").Output()
	if err != nil {
		return "", err
	}
	m := versionIn.FindSubmatch(text)
	if m == nil {
		return "", errors.New("no version in " + string(text))
	}
	return string(m[1]), nil
}

// startGateway starts everything, with the objects of a folder there from the start.
func startGateway(t *testing.T, all []object) *gateway {
	t.Helper()
	startRegistry(t)
	g := &gateway{home: t.TempDir(), resources: t.TempDir()}
	g.server = startServer(t)
	binary := filepath.Join(os.Getenv(varGateway), "envoy-gateway")
	certgen := exec.Command(binary, "certgen", "--local", "--config-home", filepath.Join(g.home, "config"))
	certgen.Env = []string{"HOME=" + g.home, "PATH=" + os.Getenv("PATH")}
	if text, err := certgen.CombinedOutput(); err != nil {
		t.Fatalf("certgen: %v\n%s", err, text)
	}
	version, err := envoyVersion()
	if err != nil {
		t.Fatal(err)
	}
	bin := filepath.Join(g.home, "data", "envoy-versions", version, "bin")
	if err := os.MkdirAll(bin, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := copyFile(os.Getenv(varEnvoy), filepath.Join(bin, "envoy")); err != nil { // its own installer finds it there, and downloads nothing
		t.Fatal(err)
	}
	text, err := os.ReadFile("../envoy/gateway/envoy-gateway.yaml")
	var config object
	if err == nil {
		err = yaml.Unmarshal(text, &config)
	}
	if err != nil {
		t.Fatal(err)
	}
	config["extensionApis"].(object)["enableBackend"] = true
	config["admin"] = object{"address": object{"host": "127.0.0.8", "port": 19000}} // its own, which is in another pod
	config["provider"] = object{"type": "Custom", "custom": object{
		"resource": object{"type": "File", "file": object{"paths": []any{g.resources}}},
		"infrastructure": object{"type": "Host", "host": object{
			"configHome": filepath.Join(g.home, "config"), "dataHome": filepath.Join(g.home, "data"), "stateHome": filepath.Join(g.home, "state"), "runtimeDir": filepath.Join(g.home, "run")}},
	}}
	write(t, filepath.Join(g.home, "envoy-gateway.yaml"), config)
	g.apply(t, all)
	g.process = run(t, "envoy-gateway", g.home, nil, binary, "server", "-c", filepath.Join(g.home, "envoy-gateway.yaml"))
	g.dial = plain(net.JoinHostPort(gatewayIP, "80"))
	logged(t, g.process, 0, "Watching path added") // what is changed before is not seen
	if len(all) > 0 {
		await(t, g.process, child.Listening(net.JoinHostPort(gatewayIP, "80")))
	}
	g.admin = "http://127.0.0.1:19000"
	forward(t, "127.0.0.1:19000", g.adminAt)
	return g
}

// apply makes objects all that there are. They become one file, changed at once.
func (g *gateway) apply(t *testing.T, all []object) {
	t.Helper()
	var text bytes.Buffer
	for _, o := range g.hostOnly(t, copies(all)) {
		doc, err := yaml.Marshal(o)
		if err != nil {
			t.Fatal(err)
		}
		text.WriteString("---\n")
		text.Write(doc)
	}
	file := filepath.Join(g.home, "resources.yaml")
	err := os.WriteFile(file, text.Bytes(), 0o600)
	if err == nil {
		err = os.Rename(file, filepath.Join(g.resources, "resources.yaml"))
	}
	if err != nil {
		t.Fatal(err)
	}
}

func copies(all []object) []object {
	var same []object
	for _, o := range all {
		text, err := yaml.Marshal(o)
		var c object
		if err == nil {
			err = yaml.Unmarshal(text, &c)
		}
		if err != nil {
			panic(err)
		}
		same = append(same, c)
	}
	return same
}

func copyFile(from, to string) error {
	text, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	return os.WriteFile(to, text, 0o755)
}

// adminAt is where the Envoy's admin interface listens: at a port of its choice, which stands in a file.
func (g *gateway) adminAt() (found string) {
	_ = filepath.WalkDir(g.home, func(path string, d os.DirEntry, err error) error {
		if err == nil && strings.Contains(d.Name(), "admin-address") {
			if text, err := os.ReadFile(path); err == nil {
				found = strings.TrimSpace(string(text))
			}
		}
		return nil
	})
	return found
}

// forward hands connections on, as a port-forward does.
func forward(t *testing.T, from string, to func() string) {
	t.Helper()
	l, err := net.Listen("tcp", from)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			in, err := l.Accept()
			if err != nil {
				return // closed
			}
			go func() {
				defer in.Close()
				out, err := net.Dial("tcp", to())
				if err != nil {
					return
				}
				defer out.Close()
				go func() {
					_, _ = io.Copy(out, in) // whoever leaves first ends both
					_ = out.(*net.TCPConn).CloseWrite()
				}()
				_, _ = io.Copy(in, out)
			}()
		}
	}()
}
