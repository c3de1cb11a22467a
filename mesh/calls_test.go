package mesh_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/callonce/callonce/e2e/spellings"
)

// closed sends a call of a required tool without a key on each spelling: none may run. Where headers are buffered nothing of it arrives at all.
func (m *mesh) closed(t *testing.T, buffered bool) {
	t.Helper()
	for n, path := range spellings.MCP {
		order := fmt.Sprintf("unguarded-spelling-%d", n)
		m.server.take()
		r, err := m.try("POST", path, toolCall("refund", order))
		switch {
		case err != nil:
			t.Errorf("%s: %v", path, err)
		case strings.Contains(r.body, `"idempotency_key_required"`), r.status == 307: // a redirect leads to the usual spelling
		case r.status == 400 && len(r.body) < 100: // Envoy itself takes no such path
		default:
			t.Errorf("%s: want idempotency_key_required, got %v", path, r)
		}
		if n := m.server.ran(order); n > 0 {
			t.Errorf("%s: an unguarded call ran", path)
		}
		if arrived := m.server.take(); buffered && len(arrived) > 0 {
			t.Errorf("%s: an unguarded call arrived at %q", path, arrived[0].path)
		}
	}
}

// behaves is what a guard does on every mesh: a run and its replay, also of a call of 900 KB; a refusal of which, where headers are
// buffered, the server sees nothing; nothing on other paths.
func (m *mesh) behaves(t *testing.T, buffered bool) {
	t.Helper()
	m.guards(t, "behaves")
	m.server.take()
	if r := m.charge(t, "behaves", "X-Other", "1"); !r.replayed {
		t.Errorf("again: %v", r)
	}
	if r := m.send(t, "POST", "/mcp", toolCall("charge", "unguarded-conflict"), "Idempotency-Key", "behaves"); !strings.Contains(r.body, `"idempotency_key_conflict"`) {
		t.Errorf("another call under the key: %v", r)
	}
	if arrived := m.server.take(); buffered && len(arrived) > 0 {
		t.Errorf("the server saw %d requests that were answered in its stead", len(arrived))
	}
	large := strings.Replace(toolCall("charge", "large"), `"arguments":{`, `"arguments":{"text":"`+strings.Repeat("x", 900_000)+`",`, 1)
	first := m.send(t, "POST", "/mcp", large, "Idempotency-Key", "large")
	again := m.send(t, "POST", "/mcp", large, "Idempotency-Key", "large")
	if first.status != 200 || !again.replayed || m.server.ran("large") != 1 {
		t.Errorf("900 KB: %d runs: %v, then %v", m.server.ran("large"), first, again)
	}
	if r := m.send(t, "POST", "/oauth/token", "grant_type=x", "Content-Type", "application/x-www-form-urlencoded"); r.status != 200 {
		t.Errorf("a form on another path: %v", r)
	}
}

// shares is what pages of the allowed origin may do: ask, and read that they were given a replay.
func (m *mesh) shares(t *testing.T) {
	t.Helper()
	const origin = "https://agent.example.com"
	r := m.send(t, http.MethodOptions, "/mcp", "", "Origin", origin, "Access-Control-Request-Method", "POST", "Access-Control-Request-Headers", "idempotency-key,content-type")
	if r.status != 200 && r.status != 204 || r.header.Get("Access-Control-Allow-Origin") != origin || !strings.Contains(r.header.Get("Access-Control-Allow-Headers"), "idempotency-key") {
		t.Errorf("preflight: %v %v", r, r.header)
	}
	m.charge(t, "shared", "Origin", origin)
	r = m.charge(t, "shared", "Origin", origin)
	if !r.replayed || r.header.Get("Access-Control-Allow-Origin") != origin || !strings.Contains(r.header.Get("Access-Control-Expose-Headers"), "idempotency-replayed") {
		t.Errorf("a replay: %v %v", r, r.header)
	}
}
