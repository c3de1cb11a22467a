package e2e_test

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/callonce/callonce/e2e/envoytest"
	"github.com/callonce/callonce/e2e/payments"
)

// shapes are those that "reply" gives refusals.
var shapes = []string{"http", "jsonrpc", "tool_result"}

// shapedPolicies has for each shape a policy of that name, and three more that refuse for
// their own reasons: nobody known, no room, keys that cannot travel.
func shapedPolicies() string {
	policies, routes := map[string]any{}, map[string]any{}
	for _, shape := range shapes {
		for name, more := range map[string]map[string]any{
			shape: {
				"anonymous": true, "stray_key": "refuse", "max_request_bytes": 4096, "limits": map[string]any{"reply_bytes": 1024},
				"tools": []any{map[string]any{"match": "refund", "guard": "required"}, map[string]any{"match": "list_*", "guard": "off"}},
			},
			shape + "-who":    {"principal": []any{"header:x-user"}},
			shape + "-full":   {"anonymous": true, "limits": map[string]any{"in_flight": 1}},
			shape + "-onward": {"anonymous": true, "forward_key": "X-Key"},
		} {
			more["server"], more["reply"] = name, shape
			policies[name], routes[name] = more, name
		}
	}
	text, err := json.Marshal(map[string]any{"policies": policies, "routes": routes})
	if err != nil {
		panic(err)
	}
	return string(text)
}

// never is how long a charge takes that is still in flight when it is repeated.
const never = 600_000

const slowCharge = `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"charge","arguments":{"customer":"c","amount_cents":1,"delay_ms":600000}}}`

// shaper is an Envoy with one path for each shape of refusals.
type shaper struct {
	*envoytest.Envoy
	t      *testing.T
	server *payments.Server
}

func startShaper(t *testing.T, noHold bool) shaper {
	// As JSON, lest a client leave an event stream as soon as it has its event: where the
	// answer is too long to be kept, the filter waits for the stream's end.
	server := startPayments(t, payments.Options{Stateless: true, JSON: true})
	e := startEnvoy(t, envoytest.Options{Plugin: must(t, buildPlugin), Config: shapedPolicies(), Upstream: server.URL(), NoHoldHeaders: noHold, Edit: func(e *envoytest.Tree) {
		paths := []string{"misnamed"}
		for _, shape := range shapes {
			paths = append(paths, shape, shape+"-who", shape+"-full", shape+"-onward")
		}
		for _, path := range paths {
			route := map[string]any{"name": path, "match": map[string]any{"path": "/" + path}, "route": map[string]any{"cluster": "mcp_server", "timeout": "0s"}}
			if path == "misnamed" {
				route["metadata"] = map[string]any{"filter_metadata": map[string]any{"callonce": map[string]any{"policy": "nobody"}}}
			}
			e.Insert([]any{route}, envoytest.Host.To("routes")...)
		}
	}})
	return shaper{e, t, server}
}

func charge(cents, delayMS int, key string) question {
	args := map[string]any{"customer": "c", "amount_cents": cents}
	if delayMS > 0 {
		args["delay_ms"] = delayMS
	}
	return question{Tool: "charge", Arguments: args, Key: key}
}

func (s shaper) request(ctx context.Context, path, key, body string) *http.Request {
	req, err := http.NewRequestWithContext(ctx, "POST", s.URL()+"/"+path, strings.NewReader(body))
	if err != nil {
		s.t.Fatal(err)
	}
	req.Header = http.Header{"Content-Type": {"application/json"}, "Accept": {"application/json, text/event-stream"}, "Idempotency-Key": {key}}
	req.GetBody = nil
	return req
}

// begin sends a charge that never ends, waits until it runs, and gives what ends its
// client's patience.
func (s shaper) begin(path, key string) (leave func()) {
	ctx, cancel := context.WithCancel(s.t.Context())
	req := s.request(ctx, path, key, slowCharge)
	ended := make(chan struct{})
	running := s.server.Book.Running()
	go func() {
		defer close(ended)
		if resp, err := http.DefaultTransport.RoundTrip(req); err == nil {
			<-ctx.Done()
			resp.Body.Close()
		}
	}()
	s.until(func() bool { return s.server.Book.Running() > running })
	return func() { cancel(); <-ended }
}

// lose loses a charge: it runs, and its client is gone.
func (s shaper) lose(path, key string) {
	s.begin(path, key)()
	s.until(func() bool { return strings.Contains(s.send(path, key, slowCharge), "idempotency_outcome_unknown") })
}

func (s shaper) send(path, key, body string) string {
	s.t.Helper()
	resp, err := http.DefaultTransport.RoundTrip(s.request(s.t.Context(), path, key, body))
	if err != nil {
		s.t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	return string(text)
}

func (s shaper) until(is func() bool) {
	s.t.Helper()
	for deadline := time.Now().Add(time.Minute); !is(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			s.t.Fatal("not so after a minute")
		}
	}
}

// key is a client's name as a key.
func key(client string) string { return strings.ReplaceAll(client, " ", "-") }

// What an official client shows of a refusal with an HTTP status of its own, by status:
// the JSON-RPC error that is in the body, an exception without it (TypeScript's holds
// the body's text), or that its connection is over. So it is with the versions pinned
// in go.mod and below tools/. At 200 all show the error.
var shown = map[string]map[string]string{
	"go":             {"400": "error", "409": "error", "413": "connection_lost", "429": "status", "503": "status"},
	"python 1.x":     {"400": "connection_lost", "409": "connection_lost", "413": "connection_lost", "429": "connection_lost", "503": "connection_lost"},
	"python 2.x":     {"400": "error", "409": "error", "413": "error", "429": "error", "503": "error"},
	"typescript 1.x": {"400": "status", "409": "status", "413": "status", "429": "status", "503": "status"},
	"typescript 2.x": {"400": "status", "409": "status", "413": "status", "429": "status", "503": "status"},
}

// refusalCase is a refusal, what it says, and how to get it at the path of a shape.
type refusalCase struct {
	refusal, why      string // why is "" where one row is enough
	status            string // of the shape http
	code              int
	mayHaveRun, retry string
	path              string                         // after the shape's name
	httpOnly          bool                           // whatever the shape
	before            func(client string) []question // make ready, with results
	ask               func(client string) question
}

// long is the note of a charge whose answer is not kept; a tooLong call is not read.
var long, tooLong = strings.Repeat("x", 1500), strings.Repeat("x", 5000)

func noted(note, key string) question {
	q := charge(1, 0, key)
	q.Arguments["note"] = note
	return q
}

var refusalCases = []refusalCase{
	{refusal: "idempotency_unsupported_request", status: "400", code: -31400, mayHaveRun: "no", retry: "after_fix",
		ask: func(string) question { return question{Tool: "list_charges", Key: "stray"} }},
	{refusal: "idempotency_unsupported_request", why: "too long to be read", status: "413", code: -31400, mayHaveRun: "no", retry: "after_fix", httpOnly: true,
		ask: func(string) question { return noted(tooLong, "k") }},
	{refusal: "idempotency_key_invalid", status: "400", code: -31401, mayHaveRun: "no", retry: "after_fix",
		ask: func(string) question { return charge(1, 0, "not a key") }},
	{refusal: "idempotency_key_required", status: "400", code: -31402, mayHaveRun: "no", retry: "after_fix",
		ask: func(string) question { return question{Tool: "refund", Arguments: map[string]any{"charge_id": "ch_1"}} }},
	{refusal: "idempotency_requires_verified_identity", status: "400", code: -31403, mayHaveRun: "no", retry: "after_fix", path: "-who",
		ask: func(string) question { return charge(1, 0, "k") }},
	{refusal: "idempotency_key_conflict", status: "409", code: -31409, mayHaveRun: "unknown", retry: "new_key_if_new_intent",
		before: func(client string) []question { return []question{charge(1, 0, "used-"+client)} },
		ask:    func(client string) question { return charge(2, 0, "used-"+client) }},
	{refusal: "idempotency_in_flight", status: "409", code: -31410, mayHaveRun: "running", retry: "same_key_later",
		ask: func(string) question { return charge(1, never, "flight") }},
	{refusal: "idempotency_outcome_unknown", status: "409", code: -31411, mayHaveRun: "unknown", retry: "reconcile_first",
		ask: func(string) question { return charge(1, never, "lost") }},
	{refusal: "idempotency_response_not_replayable", status: "409", code: -31412, mayHaveRun: "yes", retry: "reconcile_first",
		before: func(client string) []question { return []question{noted(long, "long-"+client)} },
		ask:    func(client string) question { return noted(long, "long-"+client) }},
	{refusal: "idempotency_capacity", status: "429", code: -31429, mayHaveRun: "unknown", retry: "same_key_later", path: "-full",
		ask: func(client string) question { return charge(1, 0, client) }},
	{refusal: "idempotency_unavailable", why: "keys cannot travel in a header", status: "503", code: -31503, mayHaveRun: "unknown", retry: "never", path: "-onward",
		ask: func(client string) question { return charge(1, 0, client) }},
}

// Every official client shows a refusal as an error of that call, which it can read
// where the shape lets it, and its connection goes on. docs/agents.md has what is seen.
func TestRefusalsAtClients(t *testing.T) {
	held, unheld := startShaper(t, false), startShaper(t, true)
	seen := table{}
	for _, shape := range shapes {
		t.Run(shape, func(t *testing.T) {
			s := held
			s.t = t
			defer s.begin(shape, "flight")()
			defer s.begin(shape+"-full", "flight")()
			s.lose(shape, "lost")
			for _, path := range []string{"", "-who", "-full", "-onward"} {
				t.Run(shape+path, func(t *testing.T) {
					host := s
					if path == "-onward" {
						host = unheld
					}
					host.t = t
					host.refusals(shape, path, seen)
				})
			}
		})
	}
	t.Run("misnamed", func(t *testing.T) {
		misnamed := refusalCase{refusal: "idempotency_unavailable", status: "503", code: -31503, mayHaveRun: "unknown", retry: "never"}
		askAll(t, held.URL()+"/misnamed", func(client string) []question {
			return []question{charge(1, 0, key(client)), charge(1, 0, key(client))}
		}, func(t *testing.T, client string, answers answersSeen) {
			for _, a := range answers.Calls { // the second shows that the connection went on
				misnamed.check(t, "http", client, a)
			}
		})
	})
	if !t.Failed() {
		checkDocument(t, "refusals at clients", seen.text())
		checkDocument(t, "what to do", whatToDo())
	}
}

// refusals asks every client for each refusal that the path has, then shows that its
// connection goes on.
func (s shaper) refusals(shape, path string, seen table) {
	s.t.Helper()
	var cases []refusalCase
	for _, c := range refusalCases {
		if c.path == path {
			cases = append(cases, c)
		}
	}
	askAll(s.t, s.URL()+"/"+shape+path, func(client string) (all []question) {
		for _, c := range cases {
			if c.before != nil {
				all = append(all, c.before(key(client))...)
			}
			all = append(all, c.ask(key(client)))
		}
		if path == "" {
			all = append(all, charge(1, 0, "used-"+key(client)), charge(1, 0, "fresh-"+key(client)))
		}
		return all
	}, func(t *testing.T, client string, answers answersSeen) {
		left := answers.Calls
		result := func(what string) answerSeen {
			got := left[0]
			if left = left[1:]; got.Kind != "result" || got.Structured["charge_id"] == nil {
				t.Errorf("%s: want a result, got %+v", what, got)
			}
			return got
		}
		var first answerSeen
		for _, c := range cases {
			if c.before != nil {
				got := result("before " + c.refusal)
				if c.refusal == "idempotency_key_conflict" {
					first = got
				}
			}
			c.check(t, shape, client, left[0])
			seen.note(shape, client, c, left[0])
			left = left[1:]
		}
		if path == "" {
			if again := result("after the refusals"); again.Structured["charge_id"] != first.Structured["charge_id"] {
				t.Errorf("the first call again: want its answer %v, got %v", first.Structured, again.Structured)
			}
			result("a new call after the refusals")
		}
	})
}

func (c refusalCase) check(t *testing.T, shape, client string, got answerSeen) {
	t.Helper()
	t.Logf("%s, %s: %s %d %q", shape, c.refusal, got.Kind, got.Code, got.Text)
	if c.httpOnly {
		shape = "http"
	}
	how := "error"
	if shape == "http" {
		how = shown[client][c.status]
	}
	if got.Data != nil && (got.Data["type"] != c.refusal || got.Data["may_have_run"] != c.mayHaveRun || got.Data["retry"] != c.retry) {
		t.Errorf("%s: want may_have_run %s, retry %s, got %v", c.refusal, c.mayHaveRun, c.retry, got.Data)
	}
	switch {
	case shape == "tool_result":
		if got.Kind != "tool_error" || got.Data["type"] != c.refusal || !strings.Contains(got.Text, "This call") && c.code != -31400 || got.Text == "" || got.Structured != nil {
			t.Errorf("%s: want a tool's error that says so, got %+v", c.refusal, got)
		}
	case how == "error":
		if got.Kind != "error" || got.Code != c.code || got.Data["type"] != c.refusal || !strings.Contains(got.Text, "This ") {
			t.Errorf("%s: want the JSON-RPC error %d, got %+v", c.refusal, c.code, got)
		}
	case how == "connection_lost":
		// Go has the status in words.
		code, err := strconv.Atoi(c.status)
		if err != nil || got.Kind != how || !strings.Contains(got.Text, c.status) && !strings.Contains(got.Text, http.StatusText(code)) {
			t.Errorf("%s: want the connection lost with %s, got %+v", c.refusal, c.status, got)
		}
	default:
		if got.Kind != "error" && got.Kind != "exception" || got.Data != nil || got.Text == "" {
			t.Errorf("%s: want an error without data, got %+v", c.refusal, got)
		}
	}
}
