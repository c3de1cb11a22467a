package conformance

import (
	"bufio"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"
)

// Event streams on their way.
var streams = []Case{
	{37, "events-pass-without-delay", true, withoutDelay},
}

// soon is within what an event must have reached the client.
const soon = 200 * time.Millisecond

// withoutDelay sends one event a second, and each only when the client has the one
// before: held back, none would ever come.
func withoutDelay(t *testing.T, f Front) {
	const events = 3
	got := make(chan struct{})
	c, u, _ := serve(t, f, func(w http.ResponseWriter, s seen) {
		for i := range events {
			event(w, fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progress":%d,"sent":%d}}`, i, time.Now().UnixNano()))
			select {
			case <-got:
			case <-s.Gone:
				return
			}
			time.Sleep(time.Second)
		}
		event(w, result(s))
	})
	// A busy machine may be late by itself; what the filter does, it does every time.
	const attempts = 5
	var worst time.Duration
	for attempt := range attempts {
		key := fmt.Sprint("k", attempt)
		res, err := c.open(t.Context(), "POST", strings.NewReader(toolCall("1", "charge", `{}`)), headers{"Idempotency-Key", key})
		if err != nil {
			t.Fatal(err)
		}
		lines := bufio.NewScanner(res.Body)
		worst = 0
		for n := 0; lines.Scan(); {
			_, at, found := strings.Cut(lines.Text(), `"sent":`)
			if !found {
				continue
			}
			var sent int64
			if _, err := fmt.Sscanf(at, "%d", &sent); err != nil {
				t.Fatalf("not an event: %s", lines.Text())
			}
			worst = max(worst, time.Since(time.Unix(0, sent)))
			n++
			got <- struct{}{}
		}
		if err := lines.Err(); err != nil {
			t.Fatal(err)
		}
		_ = res.Body.Close()
		wantReplay(t, c.call("2", "charge", `{}`, key))
		wantRuns(t, u, attempt+1)
		if worst <= soon {
			return
		}
	}
	t.Errorf("in %d attempts no stream whose events took less than %v: the last one's slowest took %v", attempts, soon, worst)
}
