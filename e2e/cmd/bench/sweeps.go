package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	keyed "github.com/callonce/callonce/clients/go"
	"github.com/callonce/callonce/e2e/envoytest"
)

// What grows, and how far.
var (
	sweepSizes      = []int{400, 2 << 10, 8 << 10, 32 << 10, 128 << 10, 512 << 10}
	sweepEntries    = []int{32, 512, 4096, 16384, 65536}
	sweepPrincipals = []int{1, 10, 100, 1000, 10000}
	sweepWorkers    = []int{1, 2, 3, 4, 8}
	sweepStreams    = []int{1, 10, 100, 1000, 10000}
)

// plotted are the measurements that draw a plot. -of plots runs them all.
func plotted() []measurement {
	return []measurement{
		{"body", 2, 400, benchBody},
		{"reply", 2, 400, benchReply},
		{"entries", 1, 1000, benchEntries},
		{"principals", 2, 400, benchPrincipals},
		{"workers", 2, 400, benchWorkers},
		{"streams", 1, 500, benchStreams},
	}
}

// Answers of up to 512 KiB are kept; entries of fill and of a sample stay, those that warm up are soon gone.
const configSweeps = `{"policies":{"bench":{"server":"bench","principal":["header:X-User"],"anonymous":true,"ttl":"15s",
	"tools":[{"match":"fill","ttl":"24h"},{"match":"warm","ttl":"2s"}],"lease":"2s",
	"limits":{"entries":65536,"entries_per_principal":65536,"entries_per_scope":65536,"in_flight":16384,"in_flight_per_principal":16384,
	"in_flight_per_scope":16384,"tombstones_per_scope":65536,"reply_bytes":1048576}}},"default":"bench"}`

// sweep is one plot's measurement: waves, and what its lines are.
type sweep struct {
	chart  chart
	builds []build
	lines  []line
	stay   func([]running) error
	note   string
}

// line is one build's cases above those of another, place by place of the axis.
type line struct {
	name        string
	build, base place
}

// place says which case of which build stands at the i-th place of an axis.
type place func(i int) (build, kase int)

// inOne is a build that has a case for each place, from the given one on.
func inOne(build, from int) place { return func(i int) (int, int) { return build, from + i } }

// parted is a build for each place, the first and every so many after it, with the given case.
func parted(first, step, kase int) place {
	return func(i int) (int, int) { return first + i*step, kase }
}

// run measures, and reports.
func (s sweep) run(ctx context.Context, plan plan, files files, parts *parts, upstream string, stdout io.Writer) error {
	of, err := measureWaves(ctx, plan, s.builds, upstream, parts.processor, s.stay)
	if err != nil {
		return err
	}
	for _, l := range s.lines {
		out := series{name: l.name}
		for i := range s.chart.at {
			b, k := l.build(i)
			baseB, baseK := l.base(i)
			out.of = append(out.of, estimateOf(less(of.of(b, k, workersOf), of.of(baseB, baseK, workersOf))))
		}
		s.chart.series = append(s.chart.series, out)
	}
	fmt.Fprintf(stdout, "Envoy %s; %s; %d requests at a time; %d fresh processes of each build; seed %d\n", parts.version, s.note, plan.connections, plan.processes, plan.seed)
	fmt.Fprintf(stdout, "\n%s: CPU time of Envoy's workers above none, µs a request, median and standard error\n\n", s.chart.title)
	return s.chart.report(stdout, files.plots)
}

// withParts is a sweep's beginning and end.
func withParts(ctx context.Context, files files, stdout io.Writer, run func(*parts) error) error {
	parts, err := prepare(ctx, files, stdout)
	if err != nil {
		return err
	}
	defer parts.stop()
	return run(parts)
}

// callsOf is how many requests of a size a sample has: fewer of large ones, which say as much.
func callsOf(requests, size int) int { return max(min(requests, 24<<20/size), min(requests, 40)) }

// benchBody measures calls by the length of their body.
func benchBody(ctx context.Context, plan plan, files files, stdout io.Writer) error {
	return withParts(ctx, files, stdout, func(parts *parts) error {
		server := httptest.NewServer(http.HandlerFunc(answer))
		defer server.Close()
		with := func(keyed bool) (cases []waveCase) {
			for i, size := range sweepSizes {
				body := grown(call, size)
				cases = append(cases, waveCase{name: bytesText(size), requests: callsOf(plan.requests, size), warm: warmOf(plan, i, size), call: func(round, n int) request {
					r := request{body: body}
					if keyed {
						r.key = first(round, n).key + "-" + strconv.Itoa(size)
					}
					return r
				}})
			}
			return cases
		}
		s := sweep{
			chart:  chart{name: "body", title: "Cost by the length of the call", x: "length of the body", label: bytesText, at: sweepSizes, logY: true},
			builds: parts.peers(with(false)...),
			note:   fmt.Sprintf("1 worker; JSON answer of %d bytes", size),
		}
		for b, peer := range s.builds[1:] {
			s.lines = append(s.lines, line{peer.name, inOne(b+1, 0), inOne(0, 0)})
		}
		for _, m := range parts.modules {
			s.builds = append(s.builds, build{name: m.name, options: envoytest.Options{Plugin: m.file, Config: configSweeps}, cases: append(with(true), with(false)...)})
			b := len(s.builds) - 1
			s.lines = append(s.lines, line{m.name + ", first call", inOne(b, 0), inOne(0, 0)},
				line{m.name + ", without a key", inOne(b, len(sweepSizes)), inOne(0, 0)})
		}
		return s.run(ctx, plan, files, parts, server.URL, stdout)
	})
}

// warmOf is how many requests warm up the i-th of the cases by size: the first one for all.
func warmOf(plan plan, i, size int) int {
	if i == 0 {
		return plan.warm
	}
	return min(plan.warm, callsOf(plan.requests, size)/2)
}

// benchReply measures calls by the length of their answer.
func benchReply(ctx context.Context, plan plan, files files, stdout io.Writer) error {
	return withParts(ctx, files, stdout, func(parts *parts) error {
		texts := map[string]string{}
		for _, size := range sweepSizes {
			texts[strconv.Itoa(size)] = grown(result, size)
		}
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			text, ok := texts[r.URL.RawQuery]
			if !ok {
				text = result
			}
			answerWith(w, r, text)
		}))
		defer server.Close()
		with := func(what func(round, n int) request) (cases []waveCase) {
			for i, size := range sweepSizes {
				cases = append(cases, waveCase{name: bytesText(size), requests: callsOf(plan.requests, size), warm: warmOf(plan, i, size), call: func(round, n int) request {
					r := what(round, n)
					r.path = "/mcp?" + strconv.Itoa(size)
					if r.key != "" {
						r.key += "-" + strconv.Itoa(size)
					}
					return r
				}})
			}
			return cases
		}
		s := sweep{
			chart:  chart{name: "reply", title: "Cost by the length of the answer", x: "length of the answer", label: bytesText, at: sweepSizes, logY: true},
			builds: parts.peers(with(unkeyed)...),
			note:   fmt.Sprintf("1 worker; call of %d bytes, JSON answers. A replay is measured above a call without the filter, which carries the answer once more", size),
		}
		for b, peer := range s.builds[1:] {
			s.lines = append(s.lines, line{peer.name, inOne(b+1, 0), inOne(0, 0)})
		}
		for _, m := range parts.modules {
			s.builds = append(s.builds, build{name: m.name, options: envoytest.Options{Plugin: m.file, Config: configSweeps}, cases: append(with(first), with(repeat)...)})
			b := len(s.builds) - 1
			s.lines = append(s.lines, line{m.name + ", first call", inOne(b, 0), inOne(0, 0)}, line{m.name + ", replay", inOne(b, len(sweepSizes)), inOne(0, 0)})
		}
		return s.run(ctx, plan, files, parts, server.URL, stdout)
	})
}

// emptied is how long the calls that warm up are in the table: their ttl, and a pass of the sweep.
const emptied = 13 * time.Second

// benchEntries measures first calls by how many entries live. All calls of a sample stay; half of them stand for a number.
func benchEntries(ctx context.Context, plan plan, files files, stdout io.Writer) error {
	return withParts(ctx, files, stdout, func(parts *parts) error {
		server := httptest.NewServer(http.HandlerFunc(answer))
		defer server.Close()
		bare := waveCase{name: "call", call: unkeyed}
		s := sweep{
			chart:  chart{name: "entries", title: "Cost of a first call by live entries", x: "live entries", label: thousands, at: sweepEntries},
			builds: []build{{name: "none", cases: []waveCase{bare}}},
			note:   "1 worker, one principal; the last number is the most that a policy takes, of which the samples leave a little free",
		}
		for _, m := range parts.modules {
			var live atomic.Int64
			b := build{name: m.name, options: envoytest.Options{Plugin: m.file, Config: configSweeps}, ready: func(ctx context.Context, url string) error {
				live.Store(0)
				l := newLoad(url, plan.connections)
				defer l.close()
				if err := l.run(ctx, plan.warm, func(n int) request { return request{key: fmt.Sprintf("%s-warm-%d", started, n), tool: "warm"} }); err != nil {
					return err
				}
				return sleep(ctx, emptied)
			}}
			for _, entries := range sweepEntries {
				requests := min(plan.requests, 2*entries)
				b.cases = append(b.cases, waveCase{name: thousands(entries), requests: requests,
					call: func(_, n int) request {
						return request{key: fmt.Sprintf("%s-%d-%d", started, entries, n), tool: "fill"}
					},
					before: func(ctx context.Context, url string, calls int) error {
						want := min(entries-calls/2, sweepEntries[len(sweepEntries)-1]-2*calls)
						more := want - int(live.Load())
						live.Store(int64(want + calls))
						l := newLoad(url, 16)
						defer l.close()
						return l.run(ctx, more, func(n int) request {
							return request{key: fmt.Sprintf("%s-up-to-%d-%d", started, entries, n), tool: "fill"}
						})
					}})
			}
			s.builds = append(s.builds, b)
			s.lines = append(s.lines, line{m.name, inOne(len(s.builds)-1, 0), func(int) (int, int) { return 0, 0 }})
		}
		return s.run(ctx, plan, files, parts, server.URL, stdout)
	})
}

func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(d):
		return nil
	}
}

// benchPrincipals measures first calls by how many principals make them in turn; the table knows all of them before.
func benchPrincipals(ctx context.Context, plan plan, files files, stdout io.Writer) error {
	return withParts(ctx, files, stdout, func(parts *parts) error {
		server := httptest.NewServer(http.HandlerFunc(answer))
		defer server.Close()
		with := func(key bool) (cases []waveCase) {
			for i, principals := range sweepPrincipals {
				cases = append(cases, waveCase{name: thousands(principals), warm: max(plan.warm/(1+3*i), 1), call: func(round, n int) request {
					r := firstOf(principals)(round, n)
					r.key += "-" + strconv.Itoa(principals)
					// A sample has fewer calls than there are principals: it goes on where the one before it ended.
					r.user = userOf((n + (round+1)*plan.requests) % principals)
					if !key {
						r.key = ""
					}
					return r
				}})
			}
			return cases
		}
		most := sweepPrincipals[len(sweepPrincipals)-1]
		s := sweep{
			chart:  chart{name: "principals", title: "Cost of a first call by principals", x: "principals in turn", label: thousands, at: sweepPrincipals},
			builds: []build{{name: "none", cases: with(false)}},
			note:   fmt.Sprintf("1 worker; the table holds an entry of each of %s principals before", thousands(most)),
		}
		for _, m := range parts.modules {
			s.builds = append(s.builds, build{name: m.name, options: envoytest.Options{Plugin: m.file, Config: configSweeps}, cases: with(true),
				ready: func(ctx context.Context, url string) error { return fill(ctx, url, most, firstOf(most)) }})
			s.lines = append(s.lines, line{m.name, inOne(len(s.builds)-1, 0), inOne(0, 0)})
		}
		return s.run(ctx, plan, files, parts, server.URL, stdout)
	})
}

// benchWorkers measures first calls by workers. More than there are cores contend for them, and for the table.
func benchWorkers(ctx context.Context, plan plan, files files, stdout io.Writer) error {
	plan.connections = max(plan.connections, 2*sweepWorkers[len(sweepWorkers)-1])
	return withParts(ctx, files, stdout, func(parts *parts) error {
		server := httptest.NewServer(http.HandlerFunc(answer))
		defer server.Close()
		s := sweep{
			chart: chart{name: "workers", title: "Cost of a first call by workers", x: "workers", label: thousands, at: sweepWorkers},
			note:  "connections shared out evenly",
		}
		cases := func(plain bool) (out []waveCase) {
			for _, principals := range []int{1, many} {
				out = append(out, waveCase{name: counted(principals, "principal"), call: func(round, n int) request {
					r := firstOf(principals)(round, n)
					r.key += "-" + strconv.Itoa(principals)
					if plain {
						r.key = ""
					}
					return r
				}})
			}
			return out
		}
		step := 1 + len(parts.modules)
		for _, workers := range sweepWorkers {
			s.builds = append(s.builds, build{name: "none", workers: workers, cases: cases(true)})
			for _, m := range parts.modules {
				s.builds = append(s.builds, build{name: m.name, workers: workers, options: envoytest.Options{Plugin: m.file, Config: configSweeps}, cases: cases(false)})
			}
		}
		for i, m := range parts.modules {
			s.lines = append(s.lines, line{m.name + ", one principal", parted(1+i, step, 0), parted(0, step, 0)},
				line{fmt.Sprintf("%s, %s principals", m.name, thousands(many)), parted(1+i, step, 1), parted(0, step, 1)})
		}
		return s.run(ctx, plan, files, parts, server.URL, stdout)
	})
}

// benchStreams measures first calls while so many others wait for their answer.
func benchStreams(ctx context.Context, plan plan, files files, stdout io.Writer) error {
	return withParts(ctx, files, stdout, func(parts *parts) error {
		h := &holder{ended: make(chan struct{})}
		server := h.server()
		defer server.Close()
		defer h.release()
		cases := func(key bool) (out []waveCase) {
			for _, streams := range sweepStreams {
				out = append(out, waveCase{name: thousands(streams),
					call: func(_, n int) request {
						r := request{}
						if key {
							r.key = fmt.Sprintf("%s-%d-%d", started, streams, n)
						}
						return r
					},
					before: func(ctx context.Context, url string, _ int) error { return h.open(ctx, url, key, streams) }})
			}
			return out
		}
		ready := func(key bool) func(context.Context, string) error {
			return func(ctx context.Context, url string) error {
				l := newLoad(url, plan.connections)
				defer l.close()
				return l.run(ctx, plan.warm, func(n int) request {
					if !key {
						return request{}
					}
					return request{key: fmt.Sprintf("%s-warm-%d", started, n)}
				})
			}
		}
		options := func(m module) envoytest.Options {
			return envoytest.Options{Plugin: m.file, Config: configSweeps, Edit: manyStreams}
		}
		s := sweep{
			chart:  chart{name: "streams", title: "Cost of a first call by open streams", x: "calls that wait for their answer", label: thousands, at: sweepStreams},
			builds: []build{{name: "none", options: options(module{}), ready: ready(false), cases: cases(false)}},
			note:   "1 worker, HTTP/2 to the server; what waits are guarded calls, each on a stream of HTTP/2, and the same without a filter",
		}
		for _, m := range parts.modules {
			s.builds = append(s.builds, build{name: m.name, options: options(m), ready: ready(true), cases: cases(true)})
			s.lines = append(s.lines, line{m.name, inOne(len(s.builds)-1, 0), inOne(0, 0)})
		}
		resident := make([][]float64, len(s.builds))
		s.stay = func(all []running) error {
			for i, r := range all {
				bytes, err := r.envoy.Resident()
				if err != nil {
					return err
				}
				resident[i] = append(resident[i], float64(bytes)/(1<<20))
			}
			return h.close()
		}
		if err := s.run(ctx, plan, files, parts, server.URL, stdout); err != nil {
			return err
		}
		if len(resident[0]) == 0 {
			return nil // all waves are of a run before
		}
		fmt.Fprintf(stdout, "\nResident memory of Envoy with %s calls waiting, MiB\n\n", thousands(sweepStreams[len(sweepStreams)-1]))
		for i, b := range s.builds {
			fmt.Fprintf(stdout, "%s  %s\n", b.name, strings.ReplaceAll(estimateOf(resident[i]).text("%.0f"), "\t", " "))
		}
		return nil
	})
}

// manyStreams lets one Envoy have ten thousand calls under way.
func manyStreams(t *envoytest.Tree) {
	cluster := t.Object(envoytest.Clusters.To(0)...)
	options := t.Object(envoytest.Clusters.To(0, "typed_extension_protocol_options", "envoy.extensions.upstreams.http.v3.HttpProtocolOptions")...)
	options["explicit_http_config"] = map[string]any{"http2_protocol_options": map[string]any{}}
	cluster["circuit_breakers"] = map[string]any{"thresholds": []any{map[string]any{
		"max_connections": 100000, "max_pending_requests": 100000, "max_requests": 100000}}}
}

// holder keeps calls open, at their server and at those who wait for them.
type holder struct {
	ended chan struct{} // closed when all calls may end
	held  sync.Map      // by the address of an Envoy, as text: *atomic.Int64, how many calls wait at the server
	waits sync.Map      // the same: *waiting
}

// waiting are the calls that wait through one Envoy.
type waiting struct {
	client *http.Client
	cancel context.CancelFunc
	ctx    context.Context
	opened int
	all    sync.WaitGroup
	failed atomic.Pointer[error]
}

// server answers at once, or never: by the query.
func (h *holder) server() *httptest.Server {
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.RawQuery == "" {
			answer(w, r)
			return
		}
		_, _ = io.Copy(io.Discard, r.Body)
		n, _ := h.held.LoadOrStore(r.URL.RawQuery, new(atomic.Int64))
		n.(*atomic.Int64).Add(1)
		select {
		case <-r.Context().Done():
		case <-h.ended:
		}
	}))
	s.Config.Protocols = new(http.Protocols)
	s.Config.Protocols.SetHTTP1(true)
	s.Config.Protocols.SetUnencryptedHTTP2(true)
	s.Config.HTTP2 = &http.HTTP2Config{MaxConcurrentStreams: 1 << 16}
	s.Start()
	return s
}

// open makes calls through an Envoy until so many wait.
func (h *holder) open(ctx context.Context, url string, key bool, streams int) error {
	id := strings.TrimPrefix(url, "http://")
	v, ok := h.waits.Load(id)
	if !ok {
		w := &waiting{client: &http.Client{Transport: &http.Transport{Protocols: new(http.Protocols)}}}
		w.client.Transport.(*http.Transport).Protocols.SetUnencryptedHTTP2(true)
		w.ctx, w.cancel = context.WithCancel(context.WithoutCancel(ctx))
		h.waits.Store(id, w)
		v = w
	}
	w := v.(*waiting)
	n, _ := h.held.LoadOrStore(id, new(atomic.Int64))
	for deadline := time.Now().Add(time.Minute); ; {
		arrived := int(n.(*atomic.Int64).Load())
		// No more under way to the server than its queue of connections takes.
		for ; w.opened < min(streams, arrived+200); w.opened++ {
			req, err := http.NewRequestWithContext(w.ctx, "POST", url+"/mcp?"+id, strings.NewReader(call))
			if err != nil {
				return err
			}
			req.Header.Set("Content-Type", "application/json")
			req.Header.Set("Accept", "application/json, text/event-stream")
			if key {
				req.Header.Set(keyed.Header, fmt.Sprintf("%s-waits-%d", started, w.opened))
			}
			w.all.Go(func() {
				resp, err := w.client.Do(req)
				if err == nil {
					text, _ := io.ReadAll(io.LimitReader(resp.Body, 1<<10)) // as much as there is
					resp.Body.Close()
					err = fmt.Errorf("want a call to wait, it was answered with %s: %s", resp.Status, text)
				}
				w.failed.CompareAndSwap(nil, &err)
			})
		}
		switch {
		case arrived >= streams:
			return nil
		case w.failed.Load() != nil:
			return *w.failed.Load()
		case time.Now().After(deadline):
			return fmt.Errorf("want %d calls to wait, %d do", streams, arrived)
		}
		if err := sleep(ctx, 5*time.Millisecond); err != nil {
			return err
		}
	}
}

// close ends the calls of all Envoys. The error is that of a call that did not wait until then.
func (h *holder) close() (err error) {
	h.waits.Range(func(id, v any) bool {
		w := v.(*waiting)
		if failed := w.failed.Load(); failed != nil && err == nil {
			err = *failed
		}
		w.cancel()
		w.all.Wait()
		w.client.CloseIdleConnections()
		h.waits.Delete(id)
		return true
	})
	return err
}

// release lets the server end: a call that waits there would keep it.
func (h *holder) release() {
	_ = h.close() // told where it counts
	close(h.ended)
}
