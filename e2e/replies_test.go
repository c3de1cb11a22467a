package e2e_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/callonce/callonce/e2e/envoytest"
	"github.com/callonce/callonce/e2e/tools"
)

// proxyReply is one reply of Envoy's own as the filter's tests have it, and whether it
// proves that nothing was sent (plugin/internal/guard/sent.go).
type proxyReply struct {
	Name             string
	Details, Flags   string
	FlagsWithRetries string `json:"flags_with_retries"`
	Attempts         int
	NothingSent      bool `json:"nothing_sent"`
}

func recordedReplies(t *testing.T) (all []proxyReply) {
	t.Helper()
	root, err := tools.Root()
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(root, "plugin", "internal", "guard", "testdata", "replies.json"))
	if err == nil {
		err = json.Unmarshal(text, &all)
	}
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// What Envoy says when it answers in the server's place is what is recorded, to the
// letter; and a repeat goes on where that proves that nothing was sent, and only
// there. With the mesh's usual retries and without: a guarded call has none, but
// Envoy tells that the limit was reached.
func TestProxyReplies(t *testing.T) {
	for _, retries := range []bool{false, true} {
		t.Run(fmt.Sprint("retries ", retries), func(t *testing.T) {
			troubles := troubles(t)
			e := startEnvoy(t, envoytest.Options{
				Plugin: must(t, buildPlugin), Upstream: "http://127.0.0.1:1", Workers: 1,
				Config: `{"policies":{"p":{"server":"s","anonymous":true}},"default":"p"}`,
				Edit:   func(tree *envoytest.Tree) { layTroubles(tree, troubles, retries) },
			})
			for _, want := range recordedReplies(t) {
				trouble, known := troubles[want.Name]
				if !known {
					t.Errorf("%s: nothing here makes Envoy say so", want.Name)
					continue
				}
				if trouble.linux && runtime.GOOS != "linux" {
					continue
				}
				checkReply(t, e, want, trouble, retries)
			}
		})
	}
}

func checkReply(t *testing.T, e *envoytest.Envoy, want proxyReply, trouble trouble, retries bool) {
	t.Helper()
	before, err := e.AccessLog()
	if err != nil {
		t.Fatal(err)
	}
	calls := 2
	if trouble.before {
		calls++
		send(t, "POST", e.URL(), `{"jsonrpc":"2.0","method":"notifications/x"}`, "X-Trouble", want.Name)
	}
	for range 2 {
		send(t, "POST", e.URL(), chargeBody, "X-Trouble", want.Name, "Idempotency-Key", strings.ReplaceAll(want.Name, " ", "-"))
	}
	all, err := e.AccessLog()
	if err != nil || len(all) != len(before)+calls {
		t.Fatalf("%s: want %d access log records more, got %d, %v", want.Name, calls, len(all)-len(before), err)
	}
	first, repeat := all[len(all)-2], all[len(all)-1]
	flags := want.Flags
	if retries {
		flags = want.FlagsWithRetries
	}
	if first["details"] != want.Details || sorted(first["flags"]) != sorted(flags) || first["upstream_attempts"] != fmt.Sprint(want.Attempts) {
		t.Errorf("%s: want %q, flags %q after %d attempts, got %q, flags %q after %s", want.Name,
			want.Details, flags, want.Attempts, first["details"], first["flags"], first["upstream_attempts"])
	}
	outcome := "unknown_outcome"
	if want.NothingSent {
		outcome = "first"
	}
	if first["outcome"] != "first" || repeat["outcome"] != outcome {
		t.Errorf("%s: want first, then %s, got %s, then %s", want.Name, outcome, first["outcome"], repeat["outcome"])
	}
}

// sorted is a list of flags as the access log has it, in one order.
func sorted(flags string) string {
	list := strings.Split(strings.TrimPrefix(flags, "-"), ",")
	slices.Sort(list)
	return strings.Join(list, ",")
}
