package conformance

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
)

// The filter is changed while calls run.
var changes = []Case{
	{30, "configuration-then-code-changed", true, changedWhileServing},
	{49, "replaced-while-a-call-runs", true, replacedInFlight},
}

// changed is plain with something else in it, so that it is another configuration.
func changed(round int) string {
	return strings.Replace(plain, `"server":"s"`, fmt.Sprintf(`"server":"s","ttl":"%ds"`, 300+round), 1)
}

// changedWhileServing changes the configuration, then the code, each with a call in
// flight, and looks at both calls through what came after.
func changedWhileServing(t *testing.T, f Front) {
	works := map[string]*gate{"one": newGate(), "two": newGate(), "": newGate()}
	works[""].open()
	u := newUpstream(t, func(w http.ResponseWriter, s seen) {
		key := s.Header.Get("Idempotency-Key")
		g := works[key]
		if g == nil {
			g = works[""]
		}
		if g.wait(s) {
			asEvents(w, s)
		}
	})
	p := f.Start(t, Setup{Config: plain, Upstream: u.URL, Changes: true})
	call := func(key string) reply { return newClient(t, p).call("5", "charge", `{}`, key) }
	wantFirst(t, call("before"))
	var running []*underway
	for i, key := range []string{"one", "two"} {
		running = append(running, newClient(t, p).begin(toolCall("1", "charge", `{}`), "Idempotency-Key", key))
		u.await(t, 2+i)
		p.Change(t, changed(1), i == 1)
		for _, in := range []string{"one", "two"}[:i+1] {
			wantRefusal(t, call(in), 409, "idempotency_in_flight")
		}
		wantReplay(t, call("before"))
	}
	for i, key := range []string{"one", "two"} {
		works[key].open()
		r := running[i].wait(t)
		wantFirst(t, r)
		if !strings.Contains(r.Body, `"result"`) {
			t.Errorf("call %s was answered with %q", key, r.Body)
		}
		wantReplay(t, call(key))
	}
	wantRuns(t, u, 3)
}

// replacedInFlight replaces the configuration in several ways, each while a call is in
// flight: that call settles as it was claimed.
func replacedInFlight(t *testing.T, f Front) {
	original := strings.Replace(plain, `"server":"s"`, `"server":"s","ttl":"2m","tools":[{"match":"charge","guard":"required"}]`, 1)
	unguarded := func(c *client) { wantFirst(t, c.call("2", "charge", `{}`, "")) }
	ways := []struct {
		name, config string
		inForce      func(c *client) // shows that the other configuration serves
	}{
		{"smaller limits", strings.Replace(original, `"ttl":"2m"`, `"ttl":"10s","limits":{"reply_bytes":16,"stored_bytes":16,"entries":1,"entries_per_principal":1,"entries_per_scope":1,"in_flight":1,"in_flight_per_principal":1,"in_flight_per_scope":1,"tombstones_per_scope":1}`, 1),
			func(c *client) {
				wantRefusal(t, c.call("2", "charge", `{}`, "another"), 429, "idempotency_capacity")
				wantRefusal(t, c.call("2", "charge", `{"slow":1}`, "k0"), 409, "idempotency_in_flight")
			}},
		{"tool off", strings.Replace(original, `"required"`, `"off"`, 1), unguarded},
		{"policy gone", `{"namespace":"cases"}`, unguarded},
	}
	works := map[string]*gate{}
	for i := range ways {
		works[fmt.Sprint("k", i)] = newGate()
	}
	u := newUpstream(t, func(w http.ResponseWriter, s seen) {
		if g := works[s.Header.Get("Idempotency-Key")]; g == nil || g.wait(s) {
			asEvents(w, s)
		}
	})
	p := f.Start(t, Setup{Config: original, Upstream: u.URL, Changes: true})
	wantRefusal(t, newClient(t, p).call("1", "charge", `{}`, ""), 400, "idempotency_key_required")
	for i, other := range ways {
		key, before := fmt.Sprint("k", i), u.Runs()
		first := newClient(t, p).begin(toolCall("1", "charge", `{"slow":1}`), "Idempotency-Key", key)
		u.await(t, before+1)
		p.Change(t, other.config, false)
		other.inForce(newClient(t, p))
		works[key].open()
		r := first.wait(t)
		wantFirst(t, r)
		p.Change(t, original, false)
		again := newClient(t, p).call("3", "charge", `{"slow":1}`, key)
		wantReplay(t, again)
		if want := strings.Replace(r.message(t), `"id":1`, `"id":3`, 1); again.message(t) != want {
			t.Errorf("%s: expected the replay %s, found %s", other.name, want, again.message(t))
		}
	}
	wantRuns(t, u, len(ways)+2)
}
