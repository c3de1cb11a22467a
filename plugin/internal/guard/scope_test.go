package guard

import (
	"crypto/sha256"
	"encoding/hex"
	"testing"
)

// storedID is what the contract says, computed here by other means.
func TestStoredID(t *testing.T) {
	w := newWorld(t)
	g := w.worker(`{"policies":{"p":{"reply":"http","principal":["header:x-user"],"scope":["header:x-tenant"],"session":true}},"default":"p"}`)
	x := w.send(g, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"charge","requestState":"s\u0031","inputResponses":[]}}`,
		"idempotency-key", `"k\"1"`, "x-user", "ada", "x-tenant", "t1", "mcp-session-id", "sess")
	x.wantSent()
	sum := sha256.Sum256([]byte(`["callonce/key/1",["vh","p"],"/mcp",["header:x-user","ada"],["t1"],"sess","x","","s1","k\"1"]`))
	if want := hex.EncodeToString(sum[:8]); x.state["callonce.key_hash"] != want {
		t.Errorf("stored id: expected %s, found %s", want, x.state["callonce.key_hash"])
	}
	g = w.worker(`{"policies":{"p":{"reply":"http","server":"s","principal":[["header:a","header:b"],"header:x-user"],"tools":[{"match":"charge","guard":"derived"}]}},"default":"p"}`)
	x = w.send(g, toolCall("1", `{"n":1.0}`), "a", "1", "b", "2")
	x.wantSent()
	fp := sha256.Sum256([]byte(`{"method":"tools/call","params":{"arguments":{"n":1},"name":"charge"}}`))
	sum = sha256.Sum256([]byte(`["callonce/key/1","s","/mcp",["header:a","1","header:b","2"],[],"","h","charge","","` + hex.EncodeToString(fp[:]) + `"]`))
	if want := hex.EncodeToString(sum[:8]); x.state["callonce.key_hash"] != want {
		t.Errorf("derived id: expected %s, found %s", want, x.state["callonce.key_hash"])
	}
}

// Every part of the scope separates: a key in one is unrelated to the same key in
// another.
func TestScopesAreApart(t *testing.T) {
	config := `{"policies":{"p":{"reply":"http","principal":["header:x-user"],"scope":["header:x-tenant"],"session":true,"anonymous":true},"q":{"anonymous":true}},"routes":{"other":"q"},"default":"p"}`
	w := newWorld(t)
	g := w.worker(config)
	body := toolCall("1", `{}`)
	base := []string{"idempotency-key", "k"}
	variants := map[string][]string{
		"nobody":              nil,
		"a user":              {"x-user", "ada"},
		"another user":        {"x-user", "bob"},
		"a tenant":            {"x-tenant", "t"},
		"a session":           {"mcp-session-id", "s"},
		"another path":        {":path", "/other"},
		"a token":             {"authorization", "Bearer a"},
		"another token":       {"authorization", "Bearer b"},
		"the token, split":    {"authorization", "Bearer", "authorization", " a"},
		"a cookie":            {"cookie", "Bearer a"},
		"the user as a token": {"authorization", "ada"},
	}
	hashes := map[string]string{}
	for name, h := range variants {
		x := w.send(g, body, append(append([]string{}, base...), h...)...)
		x.wantSent()
		if other, taken := hashes[x.state["callonce.key_hash"]]; taken {
			t.Errorf("%s and %s share a key", name, other)
		}
		hashes[x.state["callonce.key_hash"]] = name
	}
	x := w.open(g, base...)
	x.properties["xds.route_name"] = "other"
	x.arrive(body)
	x.wantSent()
	w.send(g, body, "idempotency-key", "k", ":path", "/mcp?another=query").wantRefused(409, "idempotency_in_flight")
}

func TestIdentityRefused(t *testing.T) {
	w := newWorld(t)
	g := w.worker(`{"policies":{"p":{"reply":"http","server":"s","principal":["header:x-user","header:x-svc"],"scope":["header:x-tenant"]}},"default":"p"}`)
	for name, h := range map[string][]string{
		"none":          nil,
		"sent twice":    {"x-user", "ada", "x-user", "ada"},
		"empty":         {"x-user", ""},
		"two lines":     {"x-user", "a\nb"},
		"not UTF-8":     {"x-user", "\xff"},
		"broken, next":  {"x-user", "\xff", "x-svc", "ok"},
		"tenant twice":  {"x-user", "ada", "x-tenant", "a", "x-tenant", "b"},
		"tenant broken": {"x-user", "ada", "x-tenant", "\x00"},
	} {
		t.Run(name, func(t *testing.T) {
			x := w.send(g, toolCall("1", `{}`), append([]string{"idempotency-key", "k"}, h...)...)
			x.wantRefused(400, "idempotency_requires_verified_identity")
		})
	}
	w.send(g, toolCall("1", `{}`), "idempotency-key", "k", "x-svc", "robot").wantSent()
	w.send(g, toolCall("1", `{}`)).wantSent() // nothing to guard: no identity needed
	g = w.worker(`{"policies":{"p":{"reply":"http","anonymous":true}},"default":"p"}`)
	x := w.open(g, "idempotency-key", "k")
	delete(x.properties, "xds.virtual_host_name")
	x.arrive(toolCall("1", `{}`))
	x.wantRefused(503, "idempotency_unavailable")
}
