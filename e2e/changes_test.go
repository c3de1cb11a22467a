package e2e_test

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/callonce/callonce/e2e/envoytest"
	"github.com/callonce/callonce/e2e/payments"
)

// A hundred changes of the configuration, with a call and its repeat after each: no call
// is refused, and memory reaches a plateau.
func TestHundredChanges(t *testing.T) {
	server := startPayments(t, payments.Options{Stateless: true})
	config := func(round int) string {
		return fmt.Sprintf(`{"policies":{"p":{"server":"s","anonymous":true,"ttl":"%ds"}},"default":"p"}`, 300+round)
	}
	e := startEnvoy(t, envoytest.Options{
		Plugin: must(t, buildPlugin), Config: config(0), Upstream: server.URL(), Workers: 2, Changes: true, Drain: time.Second,
	})
	var half int64
	for round := 1; round <= 100; round++ {
		if err := e.Change(must(t, buildPlugin), config(round)); err != nil {
			t.Fatal(err)
		}
		http.DefaultClient.CloseIdleConnections() // they belong to what was replaced
		for _, want := range []string{"", "true"} {
			resp, body := post(t, e.URL(), "Idempotency-Key", fmt.Sprint("k", round))
			if got := resp.Header.Get("Idempotency-Replayed"); resp.StatusCode != 200 || got != want {
				t.Fatalf("round %d: want 200, replayed %q, got %d, %q: %s", round, want, resp.StatusCode, got, body)
			}
		}
		if round == 50 {
			half = rss(t, e)
		}
	}
	if n := server.Book.Count(); n != 100 {
		t.Errorf("want 100 charges, got %d", n)
	}
	end := rss(t, e)
	t.Logf("memory in MiB: %d after 50 changes, %d after 100", half>>20, end>>20)
	if end > half+half/8 {
		t.Errorf("want a plateau, got %d bytes after 50 changes and %d after 100", half, end)
	}
}

func rss(t *testing.T, e *envoytest.Envoy) int64 {
	t.Helper()
	n, err := e.RSS()
	if err != nil {
		t.Skip("the memory of a process cannot be read here: ", err)
	}
	return n
}
