package e2e_test

import (
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/callonce/callonce/e2e/envoytest"
)

// A format for local replies leaves the filter's own alone, to the byte; Envoy's are formatted, that
// of a guarded call among them. Without the mapper of envoy.yaml a replay is wrapped.
func TestFormatsOfLocalRepliesLeaveOursAlone(t *testing.T) {
	config := envoytest.Manager.To("local_reply_config")
	format := map[string]any{"json_format": map[string]any{"wrapped": "%LOCAL_REPLY_BODY%"}}
	type reply struct {
		status    int
		kind, len string
		body      string
	}
	replies := map[string]map[string]reply{}
	for name, edit := range map[string]func(*envoytest.Tree){
		"plain":     func(*envoytest.Tree) {},
		"formatted": func(tree *envoytest.Tree) { tree.Object(config...)["body_format"] = format },
		"no mapper": func(tree *envoytest.Tree) {
			tree.Set(map[string]any{"body_format": format}, config...)
		},
	} {
		var runs atomic.Int32
		server := scripted(t, func(w http.ResponseWriter, r *http.Request) {
			runs.Add(1)
			if r.Header.Get("X-Die") != "" {
				hijacked(w, func(*net.TCPConn) {})
				return
			}
			w.Header().Set("Content-Type", "application/json")
			io.WriteString(w, `{"jsonrpc":"2.0","id":1,"result":{"content":[]}}`)
		})
		e := startEnvoy(t, envoytest.Options{
			Plugin: must(t, buildPlugin), Upstream: server, Edit: edit,
			Config: `{"policies":{"p":{"server":"s","anonymous":true,"reply":"http"}},"default":"p"}`,
		})
		got := map[string]reply{}
		ask := func(what, body string, headers ...string) {
			resp, text := send(t, "POST", e.URL(), body, headers...)
			got[what] = reply{resp.StatusCode, resp.Header.Get("Content-Type"), resp.Header.Get("Content-Length"), text}
		}
		ask("first", chargeBody, "Idempotency-Key", "one")
		ask("replay", chargeBody, "Idempotency-Key", "one")
		ask("conflict", strings.Replace(chargeBody, "alice", "bob", 1), "Idempotency-Key", "one")
		ask("Envoy's own", chargeBody, "Idempotency-Key", "two", "X-Die", "1")
		e.Close()
		replies[name] = got
		if runs.Load() != 2 {
			t.Errorf("%s: want 2 runs, got %d", name, runs.Load())
		}
	}
	plain, formatted, bare := replies["plain"], replies["formatted"], replies["no mapper"]
	if plain["replay"].body != plain["first"].body || plain["conflict"].status != 409 {
		t.Errorf("without a format: %+v", plain)
	}
	for _, what := range []string{"first", "replay", "conflict"} {
		if formatted[what] != plain[what] {
			t.Errorf("%s: want %+v, got %+v", what, plain[what], formatted[what])
		}
	}
	if own := formatted["Envoy's own"]; own.status != 503 || !strings.HasPrefix(own.body, `{"wrapped":"upstream connect error`) {
		t.Errorf("Envoy's own reply: want it formatted, got %+v", own)
	}
	if !strings.HasPrefix(bare["replay"].body, `{"wrapped"`) {
		t.Errorf("without the mapper: want a wrapped replay, else this shows nothing; got %+v", bare["replay"])
	}
}
