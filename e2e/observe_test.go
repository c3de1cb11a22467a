package e2e_test

import (
	"strings"
	"testing"

	"github.com/callonce/callonce/e2e/envoytest"
)

// Whoever reads the logs sees that a policy only observes: once at the start, and on each line of a decision. The filter's own lines
// carry its name once, which is the proxy's doing.
func TestLogsTellObserving(t *testing.T) {
	const config = `{"policies":{"watched":{"server":"s","anonymous":true,"mode":"observe"},"real":{"server":"r","anonymous":true}},
		"routes":{"real":"real"},"default":"watched"}`
	server := startRecorder(t)
	e := startEnvoy(t, envoytest.Options{Plugin: must(t, buildPlugin), Config: config, Upstream: server.URL})
	for _, id := range []string{"1", "2"} {
		send(t, "POST", e.URL(), toolCall(id, "charge", `{}`), "Idempotency-Key", "k")
	}
	if n := server.Runs("charge"); n != 2 {
		t.Errorf("observed: want 2 runs, got %d", n)
	}
	lines, err := e.AccessLog()
	if err != nil || len(lines) != 2 {
		t.Fatalf("want two records, got %v, %v", lines, err)
	}
	for i, want := range []string{"first", "replay"} {
		if got := lines[i]; got["outcome"] != want || got["mode"] != "observe" {
			t.Errorf("want outcome %s, mode observe in the access log, got %v", want, got)
		}
	}
	logs := e.Logs()
	if !strings.Contains(logs, `callonce: the policy "watched" observes: `) || strings.Contains(logs, `"real" observes`) {
		t.Errorf("want the log to say which policy observes, got\n%s", logs)
	}
	if strings.Contains(logs, "callonce: callonce: ") {
		t.Errorf("want the name once, got\n%s", logs)
	}
}
