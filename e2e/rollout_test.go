package e2e_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/callonce/callonce/e2e/child"
	"github.com/callonce/callonce/e2e/tools"
)

// The two ways to ship the configuration say the same: one file, and a bootstrap with the
// listener and the server in files that Envoy watches.
func TestDynamicConfigurationIsTheSame(t *testing.T) {
	read := func(file string) (tree map[string]any) {
		if err := yaml.Unmarshal([]byte(envoyFile(t, file)), &tree); err != nil {
			t.Fatal(err)
		}
		return tree
	}
	whole, bootstrap := read("envoy.yaml"), read("dynamic/bootstrap.yaml")
	static := whole["static_resources"].(map[string]any)
	for member, file := range map[string]string{"listeners": "dynamic/listeners.yaml", "clusters": "dynamic/clusters.yaml"} {
		resources, _ := read(file)["resources"].([]any)
		for _, r := range resources {
			if m, _ := r.(map[string]any); m["@type"] == nil {
				t.Errorf("%s: a resource without @type", file)
			} else {
				delete(m, "@type")
			}
		}
		if !reflect.DeepEqual(resources, static[member]) {
			t.Errorf("%s does not say what envoy.yaml says of its %s: change both", file, member)
		}
	}
	delete(whole, "static_resources")
	delete(bootstrap, "dynamic_resources")
	delete(bootstrap, "node")
	if !reflect.DeepEqual(bootstrap, whole) {
		t.Error("dynamic/bootstrap.yaml does not say what envoy.yaml says beside its resources: change both")
	}
}

// rolling is an Envoy with the files of envoy/dynamic, in a folder of its own, at free ports.
type rolling struct {
	t                        *testing.T
	top, admin, url          string
	process                  *child.Process
	listeners, clusters      string // as they are now
	adminAddress, listenAddr string
}

func startRolling(t *testing.T, upstream string) *rolling {
	t.Helper()
	r := &rolling{t: t, top: t.TempDir(), adminAddress: freePort(t), listenAddr: freePort(t)}
	server, err := url.Parse(upstream)
	if err != nil {
		t.Fatal(err)
	}
	r.admin, r.url = "http://127.0.0.1:"+r.adminAddress, "http://127.0.0.1:"+r.listenAddr
	for _, dir := range []string{"dist", "envoy/dynamic"} {
		if err := os.MkdirAll(filepath.Join(r.top, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for name, build := range map[string]func() (string, error){"callonce.wasm": buildPlugin, "other.wasm": buildFaulty} {
		if err := os.Symlink(must(t, build), filepath.Join(r.top, "dist", name)); err != nil {
			t.Fatal(err)
		}
	}
	r.write("bootstrap.yaml", r.replaced(envoyFile(t, "dynamic/bootstrap.yaml"), "port_value: 9901", "port_value: "+r.adminAddress))
	r.listeners = r.replaced(envoyFile(t, "dynamic/listeners.yaml"), "port_value: 10000", "port_value: "+r.listenAddr)
	r.clusters = r.replaced(envoyFile(t, "dynamic/clusters.yaml"), "port_value: 8080", "port_value: "+server.Port())
	r.write("listeners.yaml", r.listeners)
	r.write("clusters.yaml", r.clusters)
	r.start()
	return r
}

func freePort(t *testing.T) string {
	t.Helper()
	addr, err := child.FreeAddr()
	if err != nil {
		t.Fatal(err)
	}
	_, port, err := net.SplitHostPort(addr)
	if err != nil {
		t.Fatal(err)
	}
	return port
}

func (r *rolling) start() {
	r.t.Helper()
	cmd := exec.Command(must(r.t, tools.Envoy), "-c", "envoy/dynamic/bootstrap.yaml", "--use-dynamic-base-id", "--concurrency", "2", "--drain-time-s", "120")
	cmd.Dir = r.top
	var err error
	if r.process, err = child.Start("envoy", cmd, nil); err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(r.process.Stop)
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
	defer cancel()
	if err := r.process.Await(ctx, child.Listening("127.0.0.1:"+r.listenAddr)); err != nil {
		r.t.Fatal(err)
	}
}

// replaced replaces what stands in a text once.
func (r *rolling) replaced(text, old, with string) string {
	r.t.Helper()
	if strings.Count(text, old) != 1 {
		r.t.Fatalf("want %q once, found %d", old, strings.Count(text, old))
	}
	return strings.Replace(text, old, with, 1)
}

// write moves a file into its place, as README.md says.
func (r *rolling) write(name, text string) {
	r.t.Helper()
	file := filepath.Join(r.top, "envoy", "dynamic", name)
	if err := errors.Join(os.WriteFile(file+".next", []byte(text), 0o600), os.Rename(file+".next", file)); err != nil {
		r.t.Fatal(err)
	}
}

// stat is the sum of the counters of these names.
func (r *rolling) stat(names ...string) (sum int) {
	r.t.Helper()
	resp, err := http.Get(r.admin + "/stats")
	if err != nil {
		r.t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		r.t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ": ")
		for _, wanted := range names {
			if name == wanted {
				n, _ := strconv.Atoi(value)
				sum += n
			}
		}
	}
	return sum
}

// take moves a changed file into its place and waits until one of the counters has grown.
func (r *rolling) take(name, text string, counters ...string) {
	r.t.Helper()
	before := r.stat(counters...)
	r.write(name, text)
	deadline := time.Now().Add(3 * time.Minute)
	for r.stat(counters...) == before || r.stat("listener_manager.total_listeners_warming", "cluster_manager.warming_clusters") > 0 {
		if time.Now().After(deadline) {
			r.t.Fatalf("%s was not taken up:\n%s", name, r.process.Output())
		}
		time.Sleep(100 * time.Millisecond)
	}
	http.DefaultClient.CloseIdleConnections()
}

func (r *rolling) call(id, tool, key string) string {
	r.t.Helper()
	resp, body := send(r.t, "POST", r.url, toolCall(id, tool, `{}`), "Idempotency-Key", key, "Accept-Encoding", "identity")
	return outcome(resp, body)
}

// With keys of every state alive, what README.md says of each change: those that keep keys
// keep all of them, while a call goes on; the others forget.
func TestRollOutKeepsKeys(t *testing.T) {
	server := startRecorder(t)
	r := startRolling(t, server.URL)
	want := func(what, want, got string) {
		t.Helper()
		if got != want {
			t.Errorf("%s: want %s, got %s", what, want, got)
		}
	}
	want("completed", "first", r.call("1", "charge", "completed"))
	want("unknown", "503", r.call("1", "lost", "unknown"))
	r.call("1", "gzipped", "not-replayable")
	want("released", "403", r.call("1", "declined", "released"))
	slow := make(chan string, 1)
	go func() {
		resp, err := http.DefaultTransport.RoundTrip(mustRequest(r.url, toolCall("1", "slow", `{}`), "in-flight"))
		if err != nil {
			slow <- err.Error()
			return
		}
		defer resp.Body.Close()
		text, err := io.ReadAll(resp.Body)
		if err != nil {
			slow <- err.Error()
			return
		}
		slow <- outcome(resp, string(text))
	}()
	for deadline := time.Now().Add(time.Minute); server.Runs("slow") == 0 && time.Now().Before(deadline); {
		time.Sleep(20 * time.Millisecond)
	}
	all := func(after string) {
		t.Helper()
		runs := server.Runs("")
		want(after+", completed", "replay", r.call("2", "charge", "completed"))
		want(after+", unknown", "idempotency_outcome_unknown", r.call("2", "lost", "unknown"))
		want(after+", not replayable", "idempotency_response_not_replayable", r.call("2", "gzipped", "not-replayable"))
		want(after+", in flight", "idempotency_in_flight", r.call("2", "slow", "in-flight"))
		if n := server.Runs(""); n != runs {
			t.Errorf("%s: want no run, got %d", after, n-runs)
		}
	}
	all("before any change")

	taken := []string{"listener_manager.listener_in_place_updated", "listener_manager.listener_modified"}
	for _, change := range []struct{ what, old, with string }{
		{"another policy", `"strip": true,`, `"strip": true, "ttl": "10m",`},
		{"a module of other bytes", "filename: dist/callonce.wasm", "filename: dist/other.wasm"},
		{"a route's timeout", "route: {cluster: mcp_server, timeout: 0s, idle_timeout: 3600s}", "route: {cluster: mcp_server, timeout: 0s, idle_timeout: 1800s}"},
		{"the listener's buffer", "  per_connection_buffer_limit_bytes: 1048576", "  per_connection_buffer_limit_bytes: 1048577"},
	} {
		r.listeners = r.replaced(r.listeners, change.old, change.with)
		r.take("listeners.yaml", r.listeners, taken...)
		all(change.what)
	}
	r.clusters = r.replaced(r.clusters, "connect_timeout: 1s", "connect_timeout: 2s")
	r.take("clusters.yaml", r.clusters, "cluster_manager.cluster_modified")
	all("another server's timeout")
	r.take("listeners.yaml", r.replaced(r.listeners, `"anonymous": true`, `"anonymous": "yes"`), "listener_manager.lds.update_rejected")
	all("a mistake, which is refused")
	if !strings.Contains(r.process.Output(), `/policies/payments/anonymous: found `) {
		t.Errorf("want the log to name the mistake, got\n%s", r.process.Output())
	}

	server.end()
	want("the call that ran through all of it", "first", <-slow)
	want("its repeat", "replay", r.call("3", "slow", "in-flight"))
	want("released", "403", r.call("2", "declined", "released"))
	if n := server.Runs("declined"); n != 2 {
		t.Errorf("a released key: want another run, got %d", n)
	}

	r.listeners = r.replaced(r.listeners, "vm_id: callonce\n", "vm_id: another\n")
	r.take("listeners.yaml", r.listeners, taken...)
	want("another vm_id forgets", "first", r.call("4", "charge", "completed"))
	r.process.Stop()
	r.start()
	http.DefaultClient.CloseIdleConnections()
	want("a restart forgets", "first", r.call("5", "charge", "completed"))
}

func mustRequest(url, body, key string) *http.Request {
	req, err := http.NewRequest("POST", url+"/mcp", strings.NewReader(body))
	if err != nil {
		panic(err)
	}
	req.Header = http.Header{"Content-Type": {"application/json"}, "Accept": {"application/json, text/event-stream"}, "Idempotency-Key": {key}}
	req.GetBody = nil
	return req
}

// SIGTERM alone cuts a call; after drain.sh there is none to be cut.
func TestDrain(t *testing.T) {
	for _, drained := range []bool{false, true} {
		t.Run(fmt.Sprint("drained ", drained), func(t *testing.T) {
			server := startRecorder(t)
			r := startRolling(t, server.URL)
			transport := &http.Transport{}
			t.Cleanup(transport.CloseIdleConnections)
			type ended struct {
				outcome string
				err     error
			}
			slow := make(chan ended, 1)
			go func() {
				resp, err := transport.RoundTrip(mustRequest(r.url, toolCall("1", "slow", `{}`), "k"))
				if err != nil {
					slow <- ended{"", err}
					return
				}
				defer resp.Body.Close()
				text, err := io.ReadAll(resp.Body)
				slow <- ended{outcome(resp, string(text)), err}
			}()
			for deadline := time.Now().Add(time.Minute); server.Runs("slow") == 0 && time.Now().Before(deadline); {
				time.Sleep(20 * time.Millisecond)
			}
			if !drained {
				if err := syscall.Kill(r.process.PID(), syscall.SIGTERM); err != nil {
					t.Fatal(err)
				}
				if got := <-slow; got.err == nil && got.outcome == "first" {
					t.Error("SIGTERM alone: want the call cut, else this shows nothing")
				}
				return
			}
			script := exec.CommandContext(t.Context(), filepath.Join(must(t, tools.Root), "envoy", "drain.sh"), r.admin, "60")
			var said strings.Builder
			script.Stdout, script.Stderr = &said, &said
			if err := script.Start(); err != nil {
				t.Fatal(err)
			}
			time.Sleep(3 * time.Second)
			select {
			case got := <-slow:
				t.Fatalf("want the call to go on while Envoy drains, got %+v", got)
			default:
			}
			// Whoever comes while Envoy drains is served.
			if resp, body := send(t, "POST", r.url, toolCall("2", "slow", `{}`), "Idempotency-Key", "k"); outcome(resp, body) != "idempotency_in_flight" {
				t.Errorf("while it drains: want idempotency_in_flight, got %s, %v", outcome(resp, body), resp.Header)
			}
			server.end()
			if got := <-slow; got.err != nil || got.outcome != "first" {
				t.Errorf("the call: want its answer, got %+v", got)
			}
			if err := script.Wait(); err != nil {
				t.Errorf("drain.sh: %v: %s", err, said.String())
			}
			if err := syscall.Kill(r.process.PID(), syscall.SIGTERM); err != nil {
				t.Fatal(err)
			}
			<-r.process.Done()
		})
	}
}
