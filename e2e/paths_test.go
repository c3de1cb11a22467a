package e2e_test

import (
	"bufio"
	"encoding/pem"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/callonce/callonce/e2e/envoytest"
	"github.com/callonce/callonce/e2e/spellings"
	"github.com/callonce/callonce/e2e/tools"
)

// arrivals is a server that notes the paths, decoded, at which requests arrive.
type arrivals struct {
	*httptest.Server
	mu    sync.Mutex
	paths []string
}

func startArrivals(t *testing.T, start func(http.Handler) *httptest.Server) *arrivals {
	t.Helper()
	a := &arrivals{}
	a.Server = start(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		a.mu.Lock()
		a.paths = append(a.paths, r.URL.Path)
		a.mu.Unlock()
		w.Header().Set("Content-Type", "application/json")
		io.WriteString(w, `{"arrived":true}`)
	}))
	t.Cleanup(a.Close)
	return a
}

// take gives the paths since the last time.
func (a *arrivals) take() []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	seen := a.paths
	a.paths = nil
	return seen
}

// raw sends a request whose path is not touched by any client, and gives the answer's status and body.
func raw(t *testing.T, url, method, path, contentType, body string) (int, string) {
	t.Helper()
	conn, err := net.Dial("tcp", strings.TrimPrefix(url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	head := method + " " + path + " HTTP/1.1\r\nHost: x\r\nContent-Type: " + contentType + "\r\nContent-Length: " + strconv.Itoa(len(body)) + "\r\n\r\n"
	if _, err := io.WriteString(conn, head+body); err != nil {
		t.Fatal(err)
	}
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, whole(t, resp)
}

const mustHaveKey = `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"refund","arguments":{}}}`

// The configuration guards the MCP path, however it is spelled, and leaves alone what else a server has.
func TestGuardedPath(t *testing.T) {
	server := startArrivals(t, httptest.NewServer)
	e := startEnvoy(t, envoytest.Options{Plugin: must(t, buildPlugin), Upstream: server.URL})
	for _, path := range append([]string{"/x;y"}, spellings.MCP...) {
		status, body := raw(t, e.URL(), "POST", path, "application/json", mustHaveKey)
		// A redirect leads to the path's usual spelling.
		if status != 307 && !strings.Contains(body, `"idempotency_key_required"`) && !(status == 400 && len(body) < 100) { // Envoy itself takes no such path
			t.Errorf("%s: want idempotency_key_required, got %d %s", path, status, body)
		}
		if got := server.take(); len(got) > 0 {
			t.Errorf("%s: an unguarded call arrived at %q", path, got)
		}
	}
	for _, r := range []struct{ method, path, contentType, body string }{
		{"POST", "/oauth/token", "application/x-www-form-urlencoded", "grant_type=client_credentials"},
		{"POST", "/hooks", "text/plain", "x"},
		{"POST", "/hooks", "application/json", `{"twice":1,"twice":2}`},
		{"GET", "/.well-known/oauth-protected-resource", "", ""},
		{"GET", "/mcp", "", ""},
		{"DELETE", "/mcp", "", ""},
	} {
		if status, body := raw(t, e.URL(), r.method, r.path, r.contentType, r.body); status != 200 || len(server.take()) != 1 {
			t.Errorf("%s %s: want it to arrive, got %d %s", r.method, r.path, status, body)
		}
	}
	// What the last route is for.
	if status, body := raw(t, e.URL(), "POST", "/mcp", "application/x-www-form-urlencoded", "a=b"); status != 400 || !strings.Contains(body, `"idempotency_unsupported_request"`) {
		t.Errorf("a form on the MCP path: want idempotency_unsupported_request, got %d %s", status, body)
	}
}

// A bare off, which YAML makes the boolean false, is off: for that route.
func TestBareOff(t *testing.T) {
	server := startArrivals(t, httptest.NewServer)
	e := startEnvoy(t, envoytest.Options{Plugin: must(t, buildPlugin), Upstream: server.URL, Edit: func(e *envoytest.Tree) {
		e.Set(false, envoytest.Host.To("routes", 3, "metadata", "filter_metadata", "callonce", "policy")...)
	}})
	for path, contentType := range map[string]string{"/oauth/token": "application/x-www-form-urlencoded", "/other": "application/json"} {
		if status, body := raw(t, e.URL(), "POST", path, contentType, mustHaveKey); status != 200 || len(server.take()) != 1 {
			t.Errorf("%s: want it passed on, got %d %s", path, status, body)
		}
	}
	if status, body := raw(t, e.URL(), "POST", "/mcp", "application/json", mustHaveKey); status != 200 || !strings.Contains(body, `"idempotency_key_required"`) || len(server.take()) != 0 {
		t.Errorf("/mcp: want it guarded, got %d %s", status, body)
	}
}

// Both configurations lead the same paths to the same policies.
func TestConfigurationsHaveTheSameRoutes(t *testing.T) {
	routes := func(file string) any {
		var tree map[string]any
		if err := yaml.Unmarshal([]byte(envoyFile(t, file)), &tree); err != nil {
			t.Fatal(err)
		}
		return envoytest.NewTree(tree).At(envoytest.Host.To("routes")...)
	}
	if a, b := routes("envoy.yaml"), routes("mtls-jwt.yaml"); a == nil || !reflect.DeepEqual(a, b) {
		t.Errorf("want the same, got\n%v\nand\n%v", a, b)
	}
}

func envoyFile(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(must(t, tools.Root), "envoy", file))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// commented returns a member of envoy.yaml that stands there in comments, with texts replaced (old, new, …).
func commented(t *testing.T, member string, replaced ...string) any {
	t.Helper()
	var block strings.Builder
	for line := range strings.Lines(envoyFile(t, "envoy.yaml")) {
		text, isComment := strings.CutPrefix(strings.TrimLeft(line, " "), "# ")
		switch {
		case isComment && (block.Len() > 0 || strings.HasPrefix(text, member+":")):
			block.WriteString(text)
		case block.Len() > 0:
			var tree map[string]any
			if err := yaml.Unmarshal([]byte(strings.NewReplacer(replaced...).Replace(block.String())), &tree); err != nil || tree[member] == nil {
				t.Fatalf("%v in\n%s", err, block.String())
			}
			return tree[member]
		}
	}
	t.Fatalf("envoy.yaml: want %s in comments, found none", member)
	return nil
}

// What envoy.yaml says in comments on a principal that is a header does what it says.
func TestCommentOnCallersHeaders(t *testing.T) {
	const config = `{"policies":{"p":{"server":"s","principal":["header:x-user"]}},"default":"p"}`
	server := startRecorder(t)
	for _, removed := range []bool{false, true} {
		e := startEnvoy(t, envoytest.Options{Plugin: must(t, buildPlugin), Config: config, Upstream: server.URL, Edit: func(e *envoytest.Tree) {
			if removed {
				e.Object(envoytest.Manager...)["early_header_mutation_extensions"] = commented(t, "early_header_mutation_extensions")
			}
		}})
		want := "first"
		if removed {
			want = "idempotency_requires_verified_identity"
		}
		resp, body := send(t, "POST", e.URL(), toolCall("1", "charge", `{}`), "X-User", "ada", "Idempotency-Key", "k")
		if got := outcome(resp, body); got != want {
			t.Errorf("removed %v: want %s, got %s", removed, want, got)
		}
		if told := strings.Count(e.Logs(), "none came from header:x-user."); told > 0 != removed {
			t.Errorf("removed %v: the log says %d times that no identity came", removed, told)
		}
	}
}

// What envoy.yaml says in comments on a server behind https does what it says: the server is reached, and no other with another name.
func TestCommentOnHTTPS(t *testing.T) {
	server := startArrivals(t, httptest.NewTLSServer)
	authority := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(authority, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]int{"example.com": 200, "elsewhere.example": 503} {
		socket := commented(t, "transport_socket", "mcp.example.com", name, "/etc/ssl/certs/ca-certificates.crt", authority)
		e := startEnvoy(t, envoytest.Options{Plugin: must(t, buildPlugin), Upstream: strings.Replace(server.URL, "https", "http", 1), Edit: func(e *envoytest.Tree) {
			e.Object(envoytest.Clusters.To(0)...)["transport_socket"] = socket
		}})
		if resp, body := post(t, e.URL()); resp.StatusCode != want {
			t.Errorf("%s: want %d, got %d %s", name, want, resp.StatusCode, body)
		}
	}
}

// detach.yaml guards each spelling that envoy.yaml guards, and lets nobody to the path that its routes rewrite to: only its last route is off.
func TestDetachLeadsAroundNothing(t *testing.T) {
	var tree map[string]any
	if err := yaml.Unmarshal([]byte(envoyFile(t, "detach.yaml")), &tree); err != nil {
		t.Fatal(err)
	}
	routes := envoytest.NewTree(tree).At(envoytest.Host.To("routes")...).([]any)
	for _, path := range []string{"/mcp", "/%3b/mcp", "/%3Ba/mcp", "/;/mcp", "/%253b/mcp", "/v2/mcp", "/V2/MCP/tenant", "/v2/mcp;a"} {
		name := ""
		for _, r := range routes {
			route := r.(map[string]any)
			match := route["match"].(map[string]any)
			if match["headers"] != nil {
				continue
			}
			prefix, _ := match["prefix"].(string)
			fits := prefix != "" && strings.HasPrefix(strings.ToLower(path), prefix)
			if odd, is := match["safe_regex"].(map[string]any); is {
				fits = regexp.MustCompile("^(?:" + odd["regex"].(string) + ")$").MatchString(path)
			}
			if fits {
				name = route["name"].(string)
				break
			}
		}
		if name == "" || name == "other" {
			t.Errorf("%s goes by the route %q, on which nothing guards", path, name)
		}
	}
}
