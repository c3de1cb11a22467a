package conformance

import (
	"io"
	"net/http"
	"strings"
	"testing"
)

// Ends shows that an answer arrives whole, and settles its call, however it ends: by
// trailers that nothing announced, too. Lists gain an advert on the way.
func Ends(t *testing.T, f Front) {
	const list = `{"jsonrpc":"2.0","id":1,"result":{"tools":[{"name":"charge","inputSchema":{}}]}}`
	const event = "event: message\ndata: " + list + "\n\n"
	answers := map[string]struct {
		content, body string
		gains         bool
	}{
		"a list":              {"application/json", list, true},
		"a long list":         {"application/json", strings.Replace(list, `"name"`, `"description":"`+strings.Repeat("x", 100_000)+`","name"`, 1), true},
		"cut short":           {"application/json", list[:25], false},
		"a string":            {"application/json", `"{no object"`, false},
		"events":              {"text/event-stream", event, true},
		"an event not ended":  {"text/event-stream", event[:len(event)-1], false},
		"events, one begun":   {"text/event-stream", event + event[:30], true},
		"a line not ended":    {"text/event-stream", event[:40], false},
		"fields and no event": {"text/event-stream", "retry: 5\nid: 7", false},
	}
	config := strings.Replace(plain, `"server":"s"`, `"server":"s","advertise":true,"strip":true`, 1)
	for _, trailers := range []bool{true, false} {
		t.Run(map[bool]string{true: "trailers", false: "end"}[trailers], func(t *testing.T) {
			u := newUpstream(t, func(w http.ResponseWriter, s seen) {
				named := s.Header.Get("X-Answer")
				content, body := answers[named].content, answers[named].body
				switch named {
				case "result":
					content, body = "application/json", result(s)
				case "result as event":
					content, body = "text/event-stream", "data: "+result(s)+"\n\n"
				}
				w.Header().Set("Content-Type", content)
				for len(body) > 0 {
					n := max(min(len(body)/2, 30_000), 1)
					_, _ = io.WriteString(w, body[:n])
					body = body[n:]
					w.(http.Flusher).Flush()
				}
				if trailers {
					w.Header().Set(http.TrailerPrefix+"X-Sum", "1")
				}
			})
			p := f.Start(t, Setup{Config: config, Upstream: u.URL, HTTP2: true, Workers: 1})
			c := newClient(t, p)
			for name, answer := range answers {
				got := c.post(`{"jsonrpc":"2.0","id":1,"method":"tools/list"}`, "X-Answer", name)
				before, after, _ := strings.Cut(answer.body, `"inputSchema":{`)
				switch {
				case got.Err != nil || got.Status != 200:
					t.Errorf("%s: %d %v", name, got.Status, got.Err)
				case !answer.gains && got.Body != answer.body:
					t.Errorf("%s: expected %q, found %q", name, answer.body, got.Body)
				case answer.gains && !(strings.HasPrefix(got.Body, before) && strings.Contains(got.Body, `"properties":{"idempotency_key":`) && strings.HasSuffix(got.Body, after)):
					t.Errorf("%s: expected it with an advert, found %.300q", name, got.Body)
				}
			}
			call := func(id, answer, key string) reply {
				return c.post(toolCall(id, "charge", `{}`), "Idempotency-Key", key, "X-Answer", answer)
			}
			wantFirst(t, call("1", "result", "json"))
			wantReplay(t, call("2", "result", "json"))
			if r := call("1", "result as event", "sse"); !strings.Contains(r.Body, "run 2") {
				t.Errorf("expected the second run, found %v", r)
			}
			wantReplay(t, call("2", "result", "sse"))
			call("1", "cut short", "cut")
			wantRefusal(t, call("2", "result", "cut"), 409, "idempotency_outcome_unknown")
			call("1", "an event not ended", "begun")
			wantRefusal(t, call("2", "result", "begun"), 409, "idempotency_outcome_unknown")
			wantRuns(t, u, 4)
		})
	}
}
