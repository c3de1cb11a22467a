package scenarios_test

import (
	"strings"
	"testing"

	"github.com/callonce/callonce/e2e/payments"
	"github.com/callonce/callonce/e2e/scenarios"
)

// Without the filter every scenario but the first must be told as failed; else the
// demo would praise a proxy that does nothing.
func TestPlayWithoutFilter(t *testing.T) {
	for name, opts := range map[string]payments.Options{"sse": {}, "json": {JSON: true}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server, err := payments.Start("127.0.0.1:0", opts)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(server.Close)
			var transcript strings.Builder
			player := &scenarios.Player{URL: server.URL(), SEP3182: server.URL(), Book: server.Book, Out: &transcript, Prefix: "x-"}
			err = player.Play(t.Context())
			if err == nil {
				t.Fatalf("want an error, got none:\n%s", &transcript)
			}
			t.Logf("%s\n%v", &transcript, err)
			for _, customer := range []string{"bob", "carol", "dave", "erin", "frank"} {
				if !strings.Contains(err.Error(), "x-"+customer+": want 1 charges at the server, got ") {
					t.Errorf("want %s's charges among the errors", customer)
				}
			}
			if strings.Contains(err.Error(), "alice") {
				t.Error("alice was charged twice, as she should be: want no error")
			}
		})
	}
}
