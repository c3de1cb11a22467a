package conformance

import (
	"io"
	"net/http"
	"strings"
	"testing"
)

// Crowd shows what becomes of requests whose headers have come and whose bodies have
// not. They take memory of the VM, as much as their callers like. It is bounded (in the
// build with the small table, to 1 MiB): what would have to wait beyond that is refused,
// all else goes on, and what waited leaves its memory behind when it goes. So does a call
// once it is in flight.
func Crowd(t *testing.T, f Front) {
	inFlight := newGate()
	u := newUpstream(t, func(w http.ResponseWriter, s seen) {
		if strings.Contains(string(s.Body), "slow") && !inFlight.wait(s) {
			return
		}
		asJSON(w, s)
	})
	p := f.Start(t, Setup{Config: plain, Upstream: u.URL, Workers: 1, Small: true})
	c := newClient(t, p)
	wantFirst(t, c.call("1", "charge", `{}`, "before"))
	long := strings.Repeat("x", 60_000)

	// In flight: sixty of these would be over the bound.
	var calls []*underway
	for i := range 60 {
		key := "slow-" + string(rune('A'+i))
		calls = append(calls, c.begin(toolCall("1", "charge", `{"slow":1}`), "Idempotency-Key", key, "X-Long", long))
	}
	u.await(t, 61)
	wantFirst(t, c.call("2", "charge", `{}`, "beside"))
	inFlight.open()
	for _, call := range calls {
		wantFirst(t, call.wait(t))
	}

	// Waiting for their bodies.
	var waiting []io.Closer
	for range 60 {
		conn := dial(t, p)
		waiting = append(waiting, conn)
		_, err := io.WriteString(conn, "POST /mcp HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 10\r\nX-Long: "+long+"\r\n\r\n")
		if err != nil {
			t.Fatal(err)
		}
	}
	another := func() reply {
		return c.post(toolCall("3", "charge", `{}`), "Idempotency-Key", "crowded", "X-Long", long)
	}
	eventually(t, "a crowd", func() bool { return another().Status == 503 })
	wantRefusal(t, another(), 503, "idempotency_unavailable")
	if res, err := http.Get(p.URL() + "/mcp"); err != nil || res.StatusCode != 200 {
		t.Errorf("a GET in the crowd: %v %v", res, err)
	} else {
		res.Body.Close()
	}
	for _, conn := range waiting {
		_ = conn.Close()
	}
	eventually(t, "the crowd to be gone", func() bool { return another().Status == 200 })
	if n := strings.Count(p.Logs(), "all the memory that is for them"); n != 1 {
		t.Errorf("said %d times that there was no memory", n)
	}
}
