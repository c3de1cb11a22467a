package conformance

import (
	"fmt"
	"net/http"
	"os"
	"strings"
	"testing"
)

// largeCalls bounds Large in an ordinary run.
const largeCalls = 40

// Large makes calls as large as can be among small ones, whose answers are large as well,
// and lists that gain an advert. A VM gives no memory back: once it has had room for what
// one large call takes, it must not grow any more. A long run makes a thousand.
func Large(t *testing.T, f Front) {
	config := strings.Replace(plain, `"server":"s"`, `"server":"s","advertise":true,"strip":true,"limits":{"entries":100,"entries_per_principal":100,"entries_per_scope":100,"reply_bytes":900000,"stored_bytes":4194304,"on_full":"evict"}`, 1)
	list := `{"jsonrpc":"2.0","id":1,"result":{"tools":[{"name":"charge","description":"` + strings.Repeat("x", 900_000) + `","inputSchema":{}}]}}`
	u := newUpstream(t, func(w http.ResponseWriter, s seen) {
		switch {
		case s.Rpc == "tools/list":
			writeJSON(w, list)
		case len(s.Body) > 100_000:
			writeJSON(w, padded(s.ID, 800_000))
		default:
			asJSON(w, s)
		}
	})
	p := f.Start(t, Setup{Config: config, Upstream: u.URL, Workers: 1})
	c := newClient(t, p)
	// Texts, and as many values as there can be.
	bodies := []string{
		`{"pad":"` + strings.Repeat("x", 980_000) + `"}`,
		`{"pad":[` + strings.Repeat("0,", 490_000) + `0]}`,
		`{"pad":"` + strings.Repeat(`\u00e9`, 160_000) + `"}`,
	}
	n := 0
	play := func(calls int) int64 {
		for range calls {
			n++
			key := fmt.Sprint("k", n)
			wantFirst(t, c.call("1", "charge", bodies[n%len(bodies)], key))
			wantFirst(t, c.call("1", "charge", `{}`, "small-"+key))
			wantReplay(t, c.call("2", "charge", `{}`, "small-"+key))
			if n%5 == 0 {
				wantReplay(t, c.call("2", "charge", bodies[n%len(bodies)], key))
				if r := c.post(`{"jsonrpc":"2.0","id":1,"method":"tools/list"}`); r.Status != 200 || !strings.Contains(r.Body, "idempotency_key") {
					t.Fatalf("a list: %d %v %.200s", r.Status, r.Err, r.Body)
				}
			}
			if t.Failed() {
				t.FailNow()
			}
		}
		u.forget()
		return p.Memory(t)
	}
	calls := largeCalls
	if os.Getenv(longRun) != "" {
		calls = 1000
	}
	const first = 50 // after them the VM has what it needs
	before := play(first)
	after := play(calls)
	t.Logf("%s: memory in MiB: %d after %d large calls, %d after %d more", f.Name(), before>>20, first, after>>20, calls)
	if after > before+before/8 {
		t.Errorf("memory grows from %d to %d bytes", before, after)
	}
}
