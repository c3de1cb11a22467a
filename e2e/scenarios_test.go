package e2e_test

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/callonce/callonce/e2e/scenarios"
)

// The demo's scenarios, with the charges counted at the server.
func TestScenarios(t *testing.T) {
	sep3182, err := os.ReadFile("testdata/sep3182.json")
	if err != nil {
		t.Fatal(err)
	}
	for _, proxy := range append(slices.Clone(proxies), onSDK) {
		for _, answer := range answers {
			t.Run(proxy.name+"/"+answer.name, func(t *testing.T) {
				server := startPayments(t, answer.opts)
				var transcript strings.Builder
				player := &scenarios.Player{URL: proxy.start(t, server.URL()), SEP3182: proxy.start(t, server.URL(), string(sep3182)), Book: server.Book, Out: &transcript}
				if err := player.Play(t.Context()); err != nil {
					t.Errorf("%v\ntranscript:\n%s", err, &transcript)
				}
			})
		}
	}
}
