package e2e_test

import (
	"strings"
	"testing"
	"time"

	"github.com/callonce/callonce/e2e/fleet"
	"github.com/callonce/callonce/e2e/hostsimcmd"
	"github.com/callonce/callonce/e2e/payments"
	"github.com/callonce/callonce/e2e/scenarios"
)

// The demo's scenes of two replicas over one etcd, with the charges counted at the server.
func TestFleetScenarios(t *testing.T) {
	server := startPayments(t, payments.Options{Stateless: true, JSON: true})
	f, err := fleet.Start(t.Context(), hostsimcmd.Options{Binary: must(t, buildCommand), Plugin: must(t, buildPlugin), Upstream: server.URL()},
		must(t, buildEtcd), "3s")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(f.Close)
	var transcript strings.Builder
	if err := scenarios.PlayFleet(t.Context(), f, server.Book, 3*time.Second, &transcript); err != nil {
		t.Errorf("%v\ntranscript:\n%s", err, &transcript)
	}
	t.Logf("transcript:\n%s", &transcript)
}
