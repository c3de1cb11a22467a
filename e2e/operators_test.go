package e2e_test

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/callonce/callonce/e2e/envoytest"
	"github.com/callonce/callonce/e2e/tools"
	"github.com/callonce/callonce/plugin/conformance"
)

const operated = `{"namespace":"ops","policies":{
	"pay":{"server":"pay","anonymous":true,"log_unkeyed":true,"log":["tool","duplicate_source","settled","settled_by","arguments_hash","request_id","session_hash","attempt"],"tools":[
		{"match":"get_*","guard":"off"},{"match":"must","guard":"required"},{"match":"char*","result_id":"/structuredContent/write_id"}],
		"limits":{"reply_bytes":2000}},
	"small":{"server":"small","anonymous":true,"trust_hints":true,"limits":{"entries":2,"in_flight":1,"stored_bytes":8192,"on_full":"evict"}},
	"shed":{"server":"shed","anonymous":true,"limits":{"stored_bytes":8192}}},
	"routes":{"small":"small","shed":"shed"},"default":"pay"}`

// What the three secrets below are told to a server must not be told to an operator.
const secretKey, secretArgument, secretCaller = "raw-key-7261", "raw-argument-2883", "raw-caller-9154"

// operator is an Envoy under the configuration above, and those who call through it.
type operator struct {
	t      *testing.T
	envoy  *envoytest.Envoy
	server *recorder
}

func startOperated(t *testing.T) operator {
	server := startRecorder(t)
	e := startEnvoy(t, envoytest.Options{Plugin: must(t, buildPlugin), Config: operated, Upstream: server.URL, Edit: func(e *envoytest.Tree) {
		addRoute(e, conformance.Route{When: "small"})
		addRoute(e, conformance.Route{When: "shed"})
		addRoute(e, conformance.Route{When: "misnamed", Policy: "nobody"})
	}})
	return operator{t, e, server}
}

// call calls a tool through a route, "" for the default one.
func (o operator) call(route, id, tool, key string, headers ...string) string {
	o.t.Helper()
	if route != "" {
		headers = append(headers, "X-Route", route)
	}
	if key != "" {
		headers = append(headers, "Idempotency-Key", key)
	}
	resp, body := send(o.t, "POST", o.envoy.URL(), toolCall(id, tool, `{"a":"`+secretArgument+`"}`), append(headers, "Authorization", "Bearer "+secretCaller)...)
	return outcome(resp, body)
}

func (o operator) want(want, got string) {
	o.t.Helper()
	if want != got {
		o.t.Errorf("want %s, got %s", want, got)
	}
}

func (o operator) counted(want int64, name string, labels ...string) {
	o.t.Helper()
	set := map[string]string{}
	for i := 0; i < len(labels); i += 2 {
		set[labels[i]] = labels[i+1]
	}
	// Told at a tick of the worker.
	var got int64
	var err error
	for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(50 * time.Millisecond) {
		if got, err = o.envoy.Counter(name, set); err == nil && got == want {
			return
		}
		if time.Now().After(deadline) {
			o.t.Errorf("%s%v: want %d, got %d, %v", name, set, want, got, err)
			return
		}
	}
}

// Operators see each decision, by what it was, in the metrics and in the access log.
func TestOperatorsSee(t *testing.T) {
	o := startOperated(t)
	o.everyOutcome()
	o.counters()
	o.gauges()
	o.exported()
	o.accessLog()
	o.sources()
	o.repeats()
	o.nothingSecret()
}

// everyOutcome makes each of the decisions happen that can on a sound store.
func (o operator) everyOutcome() {
	o.t.Helper()
	o.want("first", o.call("", `"r1"`, "charge", secretKey, "Mcp-Session-Id", "s1"))
	o.want("replay", o.call("", `"r2"`, "charge", secretKey, "Mcp-Session-Id", "s1"))
	o.want("idempotency_key_conflict", o.call("", "3", "chart", secretKey))
	o.want("first", o.call("", "4", "charge", ""))
	o.want("first", o.call("", "5", "get_charge", "k5"))
	o.want("idempotency_key_required", o.call("", "6", "must", ""))
	o.want("503", o.call("", "7", "lost", "k7"))
	o.want("idempotency_outcome_unknown", o.call("", "8", "lost", "k7"))
	o.want("first", o.call("", "9", "long", "k9"))
	o.want("idempotency_response_not_replayable", o.call("", "10", "long", "k9"))
	o.want("403", o.call("", "11", "declined", "k11"))
	o.want("idempotency_unavailable", o.call("misnamed", "12", "charge", "k12"))
	resp, _ := send(o.t, "POST", o.envoy.URL(), `{"jsonrpc":"2.0","id":13,"method":"tools/list"}`, "Idempotency-Key", "k13")
	o.want("200", fmt.Sprint(resp.StatusCode))
	resp, _ = send(o.t, "POST", o.envoy.URL(), `{"jsonrpc":"2.0","id":20,"method":"tools/list"}`, "X-Route", "small")
	o.want("200", fmt.Sprint(resp.StatusCode))

	done := make(chan string)
	go func() { done <- o.call("small", "14", "slow", "k14") }()
	o.until("the slow call runs", func() bool { return o.server.Runs("slow") == 1 })
	o.want("idempotency_in_flight", o.call("small", "15", "slow", "k14"))
	o.want("idempotency_capacity", o.call("small", "16", "charge", "k16"))
	o.server.end()
	o.want("first", <-done)
	for i := range 3 { // with k14 four entries where two may be
		o.want("first", o.call("small", "17", "charge", fmt.Sprint("e", i)))
	}
	for i := range 3 { // three pieces of the ring of replies where two are
		o.want("first", o.call("shed", "18", "charge", fmt.Sprint("s", i)))
	}
	o.want("idempotency_response_not_replayable", o.call("shed", "19", "charge", "s0"))
}

func (o operator) until(what string, is func() bool) {
	o.t.Helper()
	for deadline := time.Now().Add(time.Minute); !is(); time.Sleep(50 * time.Millisecond) {
		if time.Now().After(deadline) {
			o.t.Fatalf("want that %s, it has not come so after a minute", what)
		}
	}
}

func (o operator) counters() {
	o.t.Helper()
	const decisions, calls = "mcp_gateway_idempotency_total", "callonce_tool_calls_total"
	for outcome, n := range map[string]int64{"first": 4, "replay": 1, "conflict": 1, "unknown_outcome": 1, "not_replayable": 1, "rejected": 1} {
		o.counted(n, decisions, "namespace", "ops", "server", "pay", "outcome", outcome)
	}
	for outcome, n := range map[string]int64{"first": 4, "in_flight": 1, "capacity": 1} {
		o.counted(n, decisions, "namespace", "ops", "server", "small", "outcome", outcome)
	}
	o.counted(1, decisions, "namespace", "ops", "server", "shed", "outcome", "not_replayable")
	o.counted(1, decisions, "namespace", "ops", "server", "(unknown)", "outcome", "unavailable")
	o.counted(1, calls, "server", "pay", "tool", "char*", "outcome", "first")
	o.counted(1, calls, "server", "pay", "tool", "char*", "outcome", "replay")
	o.counted(1, calls, "server", "pay", "tool", "must", "outcome", "rejected")
	o.counted(3, calls, "server", "pay", "tool", "*", "outcome", "first")
	for how, n := range map[string]int64{"completed": 1, "outcome_unknown": 1, "not_replayable": 1, "released": 1} {
		o.counted(n, "callonce_settled_total", "server", "pay", "how", how)
	}
	o.counted(1, "callonce_stray_keys_total", "server", "pay")
	o.counted(4, "callonce_mesh_retries_off_total", "server", "pay")
	o.counted(2, "callonce_evicted_total", "server", "small")
	o.counted(0, "callonce_headers_not_held_total")
}

// gauges, and what the sweep finds, come with its next whole pass.
func (o operator) gauges() {
	o.t.Helper()
	gauge := func(name string, labels map[string]string) int64 {
		n, err := o.envoy.Counter(name, labels)
		if err != nil {
			o.t.Fatal(err)
		}
		return n
	}
	for state, want := range map[string]int64{"completed": 1, "outcome_unknown": 1, "not_replayable": 1, "in_flight": 0} {
		o.until(fmt.Sprintf("%d entries of pay are %s", want, state), func() bool {
			return gauge("callonce_entries", map[string]string{"server": "pay", "state": state}) == want
		})
	}
	if n := gauge("callonce_build_info", map[string]string{"namespace": "ops"}); n != 1 {
		o.t.Errorf("the build is told %d times", n)
	}
	text, err := o.envoy.Admin("GET", "/stats/prometheus")
	if err != nil {
		o.t.Fatal(err)
	}
	if !regexp.MustCompile(`(?m)^callonce_build_info\{[^}]*version="[^"]+"[^}]*\} 1$`).MatchString(text) || !strings.Contains(text, `revision="`) {
		o.t.Error("callonce_build_info says nothing of the version")
	}
	o.until("one reply of pay is kept, and its bytes counted", func() bool {
		n := gauge("callonce_reply_bytes", map[string]string{"server": "pay"})
		return n > 80 && n < 200
	})
	o.until("the reply that was shed is counted", func() bool {
		return gauge("callonce_replies_shed_total", map[string]string{"server": "shed"}) == 1
	})
	if n := gauge("callonce_youngest_evicted_seconds", map[string]string{"server": "small"}); n < 1 {
		o.t.Errorf("the youngest entry given up: want a second or more, got %d", n)
	}
}

// accessLog checks the records of the first four calls and of those that were not
// guarded.
func (o operator) accessLog() {
	o.t.Helper()
	records, err := o.envoy.AccessLog()
	if err != nil || len(records) < 6 {
		o.t.Fatalf("want records, got %d, %v", len(records), err)
	}
	for i, want := range []map[string]string{
		{"outcome": "first", "tool": "charge", "request_id": `"r1"`, "attempt": "1", "duplicate_source": "", "result_id": "w-1"},
		{"outcome": "replay", "tool": "charge", "request_id": `"r2"`, "attempt": "1", "result_id": ""},
		{"outcome": "conflict", "tool": "chart", "request_id": "3", "duplicate_source": "", "session_hash": ""},
		{"outcome": "", "key_hash": "", "tool": "charge", "request_id": "4", "attempt": "", "result_id": ""},
		{"outcome": "", "key_hash": "", "tool": "get_charge", "request_id": "5"},
		{"outcome": "rejected", "key_hash": "", "tool": "must", "request_id": "6"},
	} {
		for field, value := range want {
			if got := records[i][field]; got != value {
				o.t.Errorf("record %d, %s: want %q, got %q", i, field, value, got)
			}
		}
	}
	hash := regexp.MustCompile(`^[0-9a-f]{16}$`)
	for _, field := range []string{"key_hash", "arguments_hash", "session_hash"} {
		if a, b := records[0][field], records[1][field]; !hash.MatchString(a) || a != b {
			o.t.Errorf("%s of a call and its repeat: want the same 16 hex digits, got %q, %q", field, a, b)
		}
	}
	if records[0]["key_hash"] != records[2]["key_hash"] || records[0]["arguments_hash"] == records[2]["arguments_hash"] {
		o.t.Errorf("a conflict: want the key's hash and other arguments, got %v", records[2])
	}
	if records[3]["arguments_hash"] != records[0]["arguments_hash"] {
		o.t.Errorf("a call without a key: want its arguments' hash, got %v", records[3])
	}
	if !hash.MatchString(records[5]["arguments_hash"]) {
		o.t.Errorf("a call refused for want of a key: want its arguments' hash, got %v", records[5])
	}
}

// sources makes repeats of every kind. Whether one comes within a second is up to the
// machine, so that kind is tried until it does.
func (o operator) sources() {
	o.t.Helper()
	sourceOf := func(session string, wait time.Duration, repeatID, repeatSession string) string {
		key := fmt.Sprint("source-", time.Now().UnixNano())
		header := func(s string) []string {
			if s == "" {
				return nil
			}
			return []string{"Mcp-Session-Id", s}
		}
		o.want("first", o.call("", "1", "charge", key, header(session)...))
		time.Sleep(wait)
		o.want("replay", o.call("", repeatID, "charge", key, header(repeatSession)...))
		records, err := o.envoy.AccessLog()
		if err != nil {
			o.t.Fatal(err)
		}
		return records[len(records)-1]["duplicate_source"]
	}
	const later = 1100 * time.Millisecond
	o.want("transport", sourceOf("s", 0, "1", "s"))
	o.want("transport", sourceOf("", later, "1", ""))
	o.want("model", sourceOf("s", later, "2", "s"))
	o.want("reconnect", sourceOf("s", 0, "2", "z"))
	o.want("unknown", sourceOf("", later, "2", ""))
	o.until("a repeat within a second is the harness's", func() bool { return sourceOf("s", 0, "2", "s") == "harness" })
	for _, source := range []string{"transport", "model", "reconnect", "unknown", "harness"} {
		o.until("repeats by "+source+" are counted", func() bool {
			n, err := o.envoy.Counter("callonce_duplicates_total", map[string]string{"server": "pay", "source": source})
			return err == nil && n > 0
		})
	}
}

// nothingSecret looks for raw keys, arguments and callers, and for labels that came
// with a request, in all that an operator can read.
func (o operator) nothingSecret() {
	o.t.Helper()
	metrics, err := o.envoy.Admin("GET", "/stats/prometheus")
	if err != nil {
		o.t.Fatal(err)
	}
	records, err := o.envoy.AccessLog()
	if err != nil {
		o.t.Fatal(err)
	}
	for name, text := range map[string]string{"metrics": metrics, "access log": fmt.Sprint(records), "log": o.envoy.Logs()} {
		for _, secret := range []string{secretKey, secretArgument, secretCaller} {
			if strings.Contains(text, secret) {
				o.t.Errorf("the %s tells %s", name, secret)
			}
		}
	}
	ours := regexp.MustCompile(`(?m)^(callonce_|mcp_gateway_).*$`)
	for _, series := range ours.FindAllString(metrics, -1) {
		for _, word := range []string{"charge", "chart", "get_charge", "lost", "long", "declined", "slow"} {
			if strings.Contains(series, `"`+word+`"`) {
				o.t.Errorf("a label with what a request said: %s", series)
			}
		}
	}
}

// The tracing that envoy/README.md shows tags spans with what was decided.
func TestTraces(t *testing.T) {
	root, err := tools.Root()
	if err != nil {
		t.Fatal(err)
	}
	readme, err := os.ReadFile(filepath.Join(root, "envoy", "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, rest, found := strings.Cut(string(readme), "```yaml\ntracing:")
	snippet, _, closed := strings.Cut(rest, "```")
	if !found || !closed {
		t.Fatal("want a yaml block that begins with tracing: in envoy/README.md")
	}
	collector := startCollector(t)
	server := startRecorder(t)
	e := startEnvoy(t, envoytest.Options{Plugin: must(t, buildPlugin), Upstream: server.URL, Edit: func(e *envoytest.Tree) {
		addTracing(t, e, "tracing:"+snippet, collector.url)
	}})
	for range 2 {
		send(t, "POST", e.URL(), toolCall("1", "charge", `{}`), "Idempotency-Key", "k")
	}
	collector.want(t, "callonce.outcome", "replay", "callonce.key_hash", "gen_ai.tool.name", "charge", "jsonrpc.request.id", "callonce.arguments_hash", "callonce.attempt", "callonce.settled_by", "result", "callonce.duplicate_source", "transport")
}

// collector takes spans as an OpenTelemetry collector does over HTTP.
type collector struct {
	url    string
	bodies chan string
}

func startCollector(t *testing.T) collector {
	c := collector{bodies: make(chan string, 64)}
	c.url = serveFunc(t, func(w http.ResponseWriter, r *http.Request) {
		if body, err := io.ReadAll(r.Body); err == nil {
			c.bodies <- string(body)
		}
	})
	return c
}

// want waits for spans that hold all the texts. Protocol buffers keep strings as they
// are.
func (c collector) want(t *testing.T, texts ...string) {
	t.Helper()
	all := ""
	for timeout := time.After(time.Minute); ; {
		select {
		case body := <-c.bodies:
			all += body
		case <-timeout:
			t.Fatalf("want spans with %q, got %q", texts, all)
		}
		if !slices.ContainsFunc(texts, func(s string) bool { return !strings.Contains(all, s) }) {
			return
		}
	}
}
