package e2e_test

import (
	"strings"
	"testing"

	"github.com/callonce/callonce/e2e/scenarios"
)

// The demo's scenarios, with the charges counted at the server.
func TestScenarios(t *testing.T) {
	for _, proxy := range proxies {
		for _, answer := range answers {
			t.Run(proxy.name+"/"+answer.name, func(t *testing.T) {
				server := startPayments(t, answer.opts)
				var transcript strings.Builder
				player := &scenarios.Player{URL: proxy.start(t, server.URL()), Book: server.Book, Out: &transcript}
				if err := player.Play(t.Context()); err != nil {
					t.Errorf("%v\ntranscript:\n%s", err, &transcript)
				}
			})
		}
	}
}
