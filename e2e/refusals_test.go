package e2e_test

import (
	"context"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/callonce/callonce/e2e/envoytest"
	"github.com/callonce/callonce/e2e/payments"
)

const shapedRefusals = `{"policies":{
	"http":{"server":"http","anonymous":true},
	"jsonrpc":{"server":"jsonrpc","anonymous":true,"reply":"jsonrpc"},
	"tool_result":{"server":"tool_result","anonymous":true,"reply":"tool_result"},
	"full":{"server":"full","anonymous":true,"limits":{"in_flight":1}}},
	"routes":{"http":"http","jsonrpc":"jsonrpc","tool_result":"tool_result","full":"full"}}`

// never is how long a charge takes that is still in flight when it is repeated.
const never = 600_000

const slowCharge = `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"charge","arguments":{"customer":"c","amount_cents":1,"delay_ms":600000}}}`

// shaper is an Envoy with one path for each shape of refusals.
type shaper struct {
	*envoytest.Envoy
	t      *testing.T
	server *payments.Server
}

func startShaper(t *testing.T) shaper {
	server := startPayments(t, payments.Options{Stateless: true})
	e := startEnvoy(t, envoytest.Options{Plugin: must(t, buildPlugin), Config: shapedRefusals, Upstream: server.URL(), Edit: func(e *envoytest.Tree) {
		for _, path := range []string{"http", "jsonrpc", "tool_result", "full", "misnamed"} {
			route := map[string]any{"name": path, "match": map[string]any{"prefix": "/" + path}, "route": map[string]any{"cluster": "mcp_server", "timeout": "0s"}}
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

var refusalCodes = map[string]int{
	"idempotency_in_flight": -31410, "idempotency_key_conflict": -31409, "idempotency_outcome_unknown": -31411,
	"idempotency_key_invalid": -31401, "idempotency_capacity": -31429, "idempotency_unavailable": -31503,
}

// What an official client shows of a refusal with an HTTP status of its own, by status:
// the JSON-RPC error that is in the body, an error or exception without it (TypeScript's
// holds the body's text), or that its connection is over. So it is with the versions
// pinned in go.mod and below tools/.
var shown = map[string]map[string]string{
	"go":         {"400": "error", "409": "error", "429": "status", "503": "status"},
	"python 1.x": {"400": "connection_lost", "409": "connection_lost", "429": "connection_lost", "503": "connection_lost"},
	"python 2.x": {"400": "error", "409": "error", "429": "error", "503": "error"},
	"typescript": {"400": "status", "409": "status", "429": "status", "503": "status"},
}

// Every official client shows a refusal as an error of that call, which it can read
// where the shape lets it, and its connection goes on.
func TestRefusalsAtClients(t *testing.T) {
	s := startShaper(t)
	for _, shape := range []string{"http", "jsonrpc", "tool_result"} {
		t.Run(shape, func(t *testing.T) {
			s := s
			s.t = t
			defer s.begin(shape, "flight")()
			s.lose(shape, "lost")
			refusals := []string{"", "idempotency_in_flight", "idempotency_key_conflict", "idempotency_outcome_unknown", "idempotency_key_invalid", "", ""}
			askAll(t, s.URL()+"/"+shape, func(client string) []question {
				used, fresh := "used-"+key(client), "fresh-"+key(client)
				return []question{
					charge(1, 0, used), charge(1, never, "flight"), charge(2, 0, used), charge(1, never, "lost"), charge(1, 0, "not a key"),
					charge(1, 0, used), charge(1, 0, fresh),
				}
			}, func(t *testing.T, client string, seen answersSeen) {
				for i, refusal := range refusals {
					status := "409"
					switch refusal {
					case "":
						if got := seen.Calls[i]; got.Kind != "result" || got.Structured["charge_id"] == nil {
							t.Errorf("call %d, before or after the refusals: want a result, got %+v", i+1, got)
						}
						continue
					case "idempotency_key_invalid":
						status = "400"
					}
					checkRefusal(t, shape, client, status, refusal, seen.Calls[i])
				}
				if a, b := seen.Calls[0].Structured["charge_id"], seen.Calls[5].Structured["charge_id"]; a != b {
					t.Errorf("the first call again: want its answer %v, got %v", a, b)
				}
			})
		})
	}
	for path, c := range map[string]struct{ status, refusal string }{
		"full":     {"429", "idempotency_capacity"},
		"misnamed": {"503", "idempotency_unavailable"},
	} {
		t.Run(path, func(t *testing.T) {
			s := s
			s.t = t
			if path == "full" {
				defer s.begin(path, "flight")()
			}
			askAll(t, s.URL()+"/"+path, func(client string) []question {
				return []question{charge(1, 0, key(client)), charge(1, 0, key(client))}
			}, func(t *testing.T, client string, seen answersSeen) {
				for _, a := range seen.Calls { // the second shows that the connection went on
					checkRefusal(t, "http", client, c.status, c.refusal, a)
				}
			})
		})
	}
}

func checkRefusal(t *testing.T, shape, client, status, refusal string, got answerSeen) {
	t.Helper()
	t.Logf("%s, %s: %s %d %q", shape, refusal, got.Kind, got.Code, got.Text)
	how := "error"
	if shape == "http" {
		how = shown[client][status]
	}
	switch {
	case shape == "tool_result":
		if got.Kind != "tool_error" || got.Data["type"] != refusal || !strings.Contains(got.Text, "This call") || got.Structured != nil {
			t.Errorf("%s: want a tool's error that says so, got %+v", refusal, got)
		}
	case how == "error":
		if got.Kind != "error" || got.Code != refusalCodes[refusal] || got.Data["type"] != refusal || !strings.Contains(got.Text, "This call") {
			t.Errorf("%s: want the JSON-RPC error %d, got %+v", refusal, refusalCodes[refusal], got)
		}
	case how == "connection_lost":
		if got.Kind != how || !strings.Contains(got.Text, status) {
			t.Errorf("%s: want the connection lost with %s, got %+v", refusal, status, got)
		}
	default:
		if got.Kind != "error" && got.Kind != "exception" || got.Data != nil || got.Text == "" {
			t.Errorf("%s: want an error without data, got %+v", refusal, got)
		}
	}
}
