package conformance

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"
	"time"
)

// Sizes and bounds.
var limits = []Case{
	{35, "bodies-at-the-cap", true, bodiesAtTheCap},
	{38, "memory-reaches-a-plateau", true, plateau},
}

func bodiesAtTheCap(t *testing.T, f Front) {
	c, u, _ := serve(t, f, asJSON)
	const most = 983040 // the default
	sized := func(id string, size int) string {
		frame := toolCall(id, "charge", `{"pad":""}`)
		return strings.Replace(frame, `"pad":""`, `"pad":"`+strings.Repeat("x", size-len(frame))+`"`, 1)
	}
	runs := 0
	for name, body := range map[string]func(string) io.Reader{
		"with a length": func(s string) io.Reader { return strings.NewReader(s) },
		"in chunks":     chunked,
	} {
		post := func(text, key string) reply {
			res, err := c.open(t.Context(), "POST", body(text), headers{"Idempotency-Key", key})
			if err != nil {
				t.Fatalf("%s, %d bytes: %v", name, len(text), err)
			}
			return readAll(res)
		}
		wantFirst(t, post(sized("1", most), name[:2]))
		wantReplay(t, post(sized("2", most), name[:2]))
		over := post(sized("3", most+1), name[:2]+"-over")
		if got := wantRefusal(t, over, 413, "idempotency_unsupported_request"); got.Error.Data.MayHaveRun != "no" {
			t.Errorf("%s, one byte over: may_have_run %s", name, got.Error.Data.MayHaveRun)
		}
		// Nothing of it is left: the key is free.
		wantFirst(t, c.call("4", "charge", `{}`, name[:2]+"-over"))
		runs += 2
		wantRuns(t, u, runs)
		if got := len(u.Seen()[runs-2].Body); got != most {
			t.Errorf("%s: %d bytes reached the server, expected %d", name, got, most)
		}
	}
}

// longRun is the environment variable that makes runs last: a duration, or anything else
// for ten minutes.
const longRun = "CALLONCE_LONG_RUN"

// plateau makes calls of 64 KiB at full speed. Memory may grow at first, and then no
// more.
func plateau(t *testing.T, f Front) {
	config := strings.Replace(plain, `"server":"s"`, `"server":"s","lease":"2s","ttl":"2s","limits":{"entries":1000,"entries_per_principal":1000,"entries_per_scope":1000,"stored_bytes":1048576,"on_full":"evict"}`, 1)
	c, u, p := serveWith(t, f, config, func(w http.ResponseWriter, s seen) { writeJSON(w, padded(s.ID, 8000)) })
	pad := strings.Repeat("0123456789abcdef", 4096)
	n := 0
	burst := func(calls int) int64 {
		var all sync.WaitGroup
		turn := make(chan int)
		for range 8 {
			all.Go(func() {
				for i := range turn {
					key := fmt.Sprint("k", i)
					if r := c.call("1", "charge", `{"pad":"`+pad+`"}`, key); r.Status != 200 || r.isRefusal() != "" {
						t.Errorf("call %d: %d %v %.300s", i, r.Status, r.Err, r.Body)
					}
				}
			})
		}
		for range calls {
			n++
			turn <- n
		}
		close(turn)
		all.Wait()
		u.forget()
		return p.Memory(t)
	}
	const calls = 300
	long, err := time.ParseDuration(os.Getenv(longRun))
	if err != nil {
		long = 0
	}
	var seen []int64
	for begun := time.Now(); len(seen) < 6 || time.Since(begun) < long; {
		seen = append(seen, burst(calls))
	}
	half := len(seen) / 2
	before, after := seen[half-1], seen[len(seen)-1]
	t.Logf("%s: %d calls of 64 KiB, memory in MiB: %d after %d calls, %d after half, %d at the end",
		f.Name(), n, seen[0]>>20, calls, before>>20, after>>20)
	if after > before+before/8 {
		t.Errorf("memory grows: %v", seen)
	}
	wantRuns(t, u, n)
}
