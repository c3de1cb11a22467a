package mesh_test

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"text/tabwriter"
	"time"

	"github.com/callonce/callonce/e2e/child"
)

var cost = flag.Int("cost", 0, "measure what a call costs in the meshes' listeners, in so many rounds (TestIstioCost, TestGatewayCost)")

const (
	costRequests    = 600
	costConnections = 4
)

// envoyBelow is the Envoy that a program started.
func envoyBelow(t *testing.T, parent int) int {
	t.Helper()
	above, names := map[int]int{}, map[int]string{}
	entries, err := os.ReadDir("/proc")
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if err != nil {
			continue // it ended
		}
		name, rest, _ := strings.Cut(string(text), ") ")
		var state string
		var ppid int
		if _, err := fmt.Sscan(rest, &state, &ppid); err != nil {
			t.Fatal(err)
		}
		above[pid] = ppid
		_, names[pid], _ = strings.Cut(name, "(")
	}
	for pid, name := range names {
		for at := pid; name == "envoy" && at > 1; at = above[at] {
			if at == parent {
				return pid
			}
		}
	}
	t.Fatalf("no Envoy below process %d", parent)
	return 0
}

// burst sends calls over a few connections, and gives Envoy's CPU time for each. A refusal, and an answer that is not as replayed as it should
// be, is an error: it costs less than what is measured.
func (m *mesh) burst(t *testing.T, pid, n int, call func(n int) (key string, replayed bool)) time.Duration {
	t.Helper()
	client := &http.Client{Transport: &http.Transport{MaxConnsPerHost: costConnections, MaxIdleConnsPerHost: costConnections,
		DialContext: func(context.Context, string, string) (net.Conn, error) { return m.dial() }}}
	defer client.CloseIdleConnections()
	send := func(n int, key string, replayed bool) error {
		body := strings.Replace(toolCall("charge", "unguarded-cost"), `"arguments":{`, `"arguments":{"text":"`+strings.Repeat("x", 270)+`",`, 1)
		req, err := http.NewRequest("POST", "http://mcp.example.com/mcp", strings.NewReader(body))
		if err != nil {
			return err
		}
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("Accept", "application/json, text/event-stream")
		req.Header.Set("Authorization", fmt.Sprint("Bearer ", n%100)) // the limits are each caller's
		if key != "" {
			req.Header.Set("Idempotency-Key", key)
		}
		resp, err := client.Do(req)
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		text, err := io.ReadAll(resp.Body)
		if err == nil && (!bytes.Contains(text, []byte(" of unguarded-cost")) || (resp.Header.Get("Idempotency-Replayed") == "true") != replayed) {
			err = fmt.Errorf("want a result, replayed %v, got %s %s", replayed, resp.Status, text)
		}
		return err
	}
	run := func(n int, call func(n int) (string, bool)) {
		var all sync.WaitGroup
		failed := make([]error, costConnections)
		for c := range costConnections {
			all.Go(func() {
				for i := c; i < n && failed[c] == nil; i += costConnections {
					key, replayed := call(i)
					failed[c] = send(i, key, replayed)
				}
			})
		}
		all.Wait()
		if err := errors.Join(failed...); err != nil {
			t.Fatal(err)
		}
	}
	run(costConnections, func(int) (string, bool) { return "", false }) // opens the connections
	if _, replayed := call(0); replayed {
		run(100, func(n int) (string, bool) { key, _ := call(n); return key, false }) // each caller's own
	}
	before, err := child.CPU(pid)
	if err != nil {
		t.Fatal(err)
	}
	run(n, call)
	after, err := child.CPU(pid)
	if err != nil {
		t.Fatal(err)
	}
	return (after - before) / time.Duration(n)
}

// costs measures each kind of call without the filter and with it, in turn, and prints medians and quartiles. What puts the filter there and
// takes it away returns when it has.
func (m *mesh) costs(t *testing.T, pid int, what string, put, take func()) {
	t.Helper()
	cases := []struct {
		name string
		with bool
		call func(round, n int) (string, bool)
	}{
		{"no filter", false, func(int, int) (string, bool) { return "", false }},
		{"no filter, with a key", false, func(round, n int) (string, bool) { return fmt.Sprintf("cost-%d-%d", round, n), false }},
		{"call without a key, read", true, func(int, int) (string, bool) { return "", false }},
		{"guarded call, the first", true, func(round, n int) (string, bool) { return fmt.Sprintf("cost-%d-%d", round, n), false }},
		{"replay", true, func(round, n int) (string, bool) { return fmt.Sprintf("cost-%d", round), true }},
	}
	samples := make([][]float64, len(cases))
	for round := range *cost + 1 { // the first warms up
		for _, with := range []bool{round%2 == 0, round%2 != 0} {
			if with {
				put()
			} else {
				take()
			}
			for i, c := range cases {
				if c.with != with {
					continue
				}
				took := m.burst(t, pid, costRequests, func(n int) (string, bool) { return c.call(round, n) })
				if round > 0 {
					samples[i] = append(samples[i], float64(took.Nanoseconds())/1000)
				}
			}
		}
	}
	var out strings.Builder
	table := tabwriter.NewWriter(&out, 0, 0, 3, ' ', 0)
	fmt.Fprint(table, "case\tsamples\tmedian\tquartiles\tabove no filter\tquartiles\n")
	quartiles := func(of []float64, verb string) string {
		s := slices.Sorted(slices.Values(of))
		q := func(k int) float64 { return s[k*(len(s)-1)/4] }
		return fmt.Sprintf(verb+"\t"+verb+"–"+verb, (s[(len(s)-1)/2]+s[len(s)/2])/2, q(1), q(3))
	}
	for i, c := range cases {
		fmt.Fprintf(table, "%s\t%d × %d\t%s", c.name, len(samples[i]), costRequests, quartiles(samples[i], "%.0f"))
		if i > 0 {
			above := make([]float64, len(samples[i]))
			for round := range above {
				above[round] = samples[i][round] - samples[0][round]
			}
			fmt.Fprintf(table, "\t%s", quartiles(above, "%+.0f"))
		}
		fmt.Fprintln(table)
	}
	table.Flush()
	t.Logf("%s: CPU time of Envoy per request, µs\n\n%s", what, out.String())
}

// What a call costs in the listeners that istiod makes, by the whole filter and by a WasmPlugin.
func TestIstioCost(t *testing.T) {
	if *cost == 0 {
		t.Skip("asked for by -cost")
	}
	i := startIstio(t, meshConfig(t), without(manifests(t, "istio/wasmplugin"), "WasmPlugin")...)
	eventually(t, "the way to the server", i.unguarded)
	pid := envoyBelow(t, i.agent.PID())
	filter, plugin := find(t, manifests(t, "istio/gateway"), "EnvoyFilter"), find(t, manifests(t, "istio/wasmplugin"), "WasmPlugin")
	// Without the filter all else of the manifest stays, such as the mapper of local replies.
	bare := find(t, manifests(t, "istio/gateway"), "EnvoyFilter")
	patches := bare["spec"].(object)["configPatches"].([]any)
	bare["spec"].(object)["configPatches"] = slices.DeleteFunc(slices.Clone(patches), func(p any) bool {
		return in(p, "applyTo") == "EXTENSION_CONFIG" || in(p, "applyTo") == "HTTP_FILTER"
	})
	i.costs(t, pid, "Istio, gateway", func() {
		i.change(t, filter)
		eventually(t, "a guard", i.back)
	}, func() {
		i.change(t, bare)
		eventually(t, "no guard", i.unguarded)
	})
	i.api.Delete(filter)
	eventually(t, "no guard", i.unguarded)
	i.costs(t, pid, "Istio, WasmPlugin", func() {
		i.change(t, plugin)
		eventually(t, "a guard", i.back)
	}, func() {
		i.api.Delete(plugin)
		eventually(t, "no guard", i.unguarded)
	})
}

// The same in Envoy Gateway's.
func TestGatewayCost(t *testing.T) {
	if *cost == 0 {
		t.Skip("asked for by -cost")
	}
	all := manifests(t, "gateway/base")
	bare := without(without(all, "EnvoyExtensionPolicy"), "EnvoyPatchPolicy")
	g := startGateway(t, all)
	eventually(t, "a guard", g.back)
	pid := envoyBelow(t, g.process.PID())
	g.costs(t, pid, "Envoy Gateway, base", func() {
		g.apply(t, all)
		eventually(t, "a guard, and buffered headers", func() error {
			if in(g.plugin(t), "allow_on_headers_stop_iteration") != true {
				return errors.New("not yet")
			}
			return g.back()
		})
	}, func() {
		g.apply(t, bare)
		eventually(t, "no guard", g.unguarded)
	})
}
