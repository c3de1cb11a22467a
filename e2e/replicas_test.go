package e2e_test

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/callonce/callonce/e2e/child"
	"github.com/callonce/callonce/e2e/envoytest"
	"github.com/callonce/callonce/e2e/tools"
)

// Behind envoy/replicas.yaml the repeats of a call meet the replica that knows its key, by the
// key's header or by the session. Balanced in turn they do not, which is what shows that the
// configuration does it; and what it cannot do is as README.md says.
func TestReplicas(t *testing.T) {
	server := startRecorder(t)
	var replicas []*envoytest.Envoy
	for range 2 {
		replicas = append(replicas, startEnvoy(t, envoytest.Options{
			Plugin: must(t, buildPlugin), Upstream: server.URL,
			Config: `{"policies":{"p":{"server":"s","anonymous":true}},"default":"p"}`,
		}))
	}
	const calls = 10
	// met counts the calls whose repeat met their replica. Each goes over a connection of its own.
	met := func(front string, ask func(i int) (body string, headers []string)) (n int) {
		for i := range calls {
			body, headers := ask(i)
			for try := range 2 {
				transport := &http.Transport{DisableKeepAlives: true}
				resp, text := sendBy(t, transport, "POST", front, body, headers...)
				switch got := outcome(resp, text); {
				case try == 1 && got == "replay":
					n++
				case got != "first":
					t.Fatalf("call %d, try %d: %s %s", i, try, got, text)
				}
			}
		}
		return n
	}
	inMeta := func(key string) string {
		return `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"charge","arguments":{},"_meta":{"callonce.dev/idempotency-key":"` + key + `"}}}`
	}
	hashed := startReplicasFront(t, replicas)
	for what, ask := range map[string]func(i int) (string, []string){
		"by the key's header": func(i int) (string, []string) {
			// The session is another each time, as after a reconnect.
			return toolCall("1", "charge", `{}`), []string{"Idempotency-Key", fmt.Sprint("a", i), "Mcp-Session-Id", fmt.Sprint(time.Now().UnixNano())}
		},
		"by the other header": func(i int) (string, []string) {
			return toolCall("1", "charge", `{}`), []string{"X-Idempotency-Key", fmt.Sprint("b", i)}
		},
		"by the session, keys in the body": func(i int) (string, []string) {
			return inMeta(fmt.Sprint("c", i)), []string{"Mcp-Session-Id", fmt.Sprint("s", i)}
		},
	} {
		if n := met(hashed, ask); n != calls {
			t.Errorf("%s: want %d repeats to meet their replica, got %d", what, calls, n)
		}
	}
	for i, r := range replicas {
		n, err := r.Counter("mcp_gateway_idempotency_total", map[string]string{"outcome": "first"})
		if err != nil || n == 0 || n == 3*calls {
			t.Errorf("replica %d: want a share of the calls, got %d, %v", i, n, err)
		}
	}
	inTurn := startReplicasFront(t, replicas, "lb_policy: RING_HASH", "lb_policy: ROUND_ROBIN")
	if n := met(inTurn, func(i int) (string, []string) {
		return toolCall("1", "charge", `{}`), []string{"Idempotency-Key", fmt.Sprint("d", i)}
	}); n != 0 {
		t.Errorf("in turn: want no repeat to meet its replica, got %d", n)
	}
	// One replica less: its keys run again where it is known to be away, and get 503 where not.
	key := ""
	for i := 0; key == ""; i++ {
		if i == 100 {
			t.Fatal("want a key that goes to the second replica")
		}
		before, _ := replicas[1].Counter("mcp_gateway_idempotency_total", map[string]string{"outcome": "first"})
		send(t, "POST", hashed, toolCall("1", "charge", `{}`), "Idempotency-Key", fmt.Sprint("e", i))
		if after, _ := replicas[1].Counter("mcp_gateway_idempotency_total", map[string]string{"outcome": "first"}); after > before {
			key = fmt.Sprint("e", i)
		}
	}
	runs := server.Runs("")
	replicas[1].Close()
	if resp, body := send(t, "POST", hashed, toolCall("1", "charge", `{}`), "Idempotency-Key", key); resp.StatusCode != 503 || server.Runs("") != runs {
		t.Errorf("a replica that is gone: want 503 and no run, got %d %s, %d runs", resp.StatusCode, body, server.Runs("")-runs)
	}
}

// startReplicasFront runs envoy/replicas.yaml before two replicas, with texts replaced (old, new, …),
// and gives its URL.
func startReplicasFront(t *testing.T, replicas []*envoytest.Envoy, replaced ...string) string {
	t.Helper()
	port := freePort(t)
	replaced = append(replaced, "port_value: 10010", "port_value: "+port, "port_value: 9911", "port_value: 0")
	for i, r := range replicas {
		u, err := url.Parse(r.URL())
		if err != nil {
			t.Fatal(err)
		}
		replaced = append(replaced, fmt.Sprint("port_value: 1000", i, "}"), "port_value: "+u.Port()+"}")
	}
	text := envoyFile(t, "replicas.yaml")
	for i := 0; i < len(replaced); i += 2 {
		if strings.Count(text, replaced[i]) != 1 {
			t.Fatalf("want %q once in replicas.yaml, found %d", replaced[i], strings.Count(text, replaced[i]))
		}
		text = strings.Replace(text, replaced[i], replaced[i+1], 1)
	}
	file := filepath.Join(t.TempDir(), "replicas.yaml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	process, err := child.Start("envoy", exec.Command(must(t, tools.Envoy), "-c", file, "--use-dynamic-base-id", "--concurrency", "1"), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(process.Stop)
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := process.Await(ctx, child.Listening("127.0.0.1:"+port)); err != nil {
		t.Fatal(err)
	}
	for _, bad := range []string{"[warning]", "[error]", "[critical]", "eprecated"} {
		if strings.Contains(process.Output(), bad) {
			t.Errorf("want no remarks, got\n%s", process.Output())
		}
	}
	return "http://127.0.0.1:" + port
}
