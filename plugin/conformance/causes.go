package conformance

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"time"
)

// Causes shows that the first call's own line of the access log says how the call settled, and
// why, also where the client left, the server's connection broke or nothing moved any more.
func Causes(t *testing.T, f Front) {
	release := newGate()
	defer release.open()
	answers := map[string]struct {
		give           func(w http.ResponseWriter, s seen)
		settled, cause string
	}{
		"result":        {asJSON, "completed", "result"},
		"events":        {asEvents, "completed", "result"},
		"error":         {says(`"error":{"code":-32000,"message":"x"}`), "completed", "error"},
		"code":          {says(`"error":{"code":-32601,"message":"x"}`), "released", "error_code"},
		"chosen-code":   {says(`"error":{"code":-32050,"message":"x"}`), "released", "error_code"},
		"tool-error":    {says(`"result":{"isError":true,"content":[]}`), "completed", "tool_error"},
		"lenient":       {says(`"result":{"isError":true,"content":[]}`), "released", "tool_error"},
		"asks":          {says(`"result":{"resultType":"input_required"}`), "released", "input_required"},
		"task":          {says(`"result":{"resultType":"task"}`), "completed", "task"},
		"stopped":       {says(`"error":{"code":-32800,"message":"x"}`), "outcome_unknown", "cancelled"},
		"another-id":    {status(200, "application/json", `{"jsonrpc":"2.0","id":"another","result":{}}`), "outcome_unknown", "no_response"},
		"silent-events": {status(200, "text/event-stream", ": nothing\n\n"), "outcome_unknown", "no_response"},
		"broken":        {status(200, "application/json", `{"jsonrpc":"2.0","id":$ID,"result":{]}`), "not_replayable", "malformed"},
		"long":          {says(`"result":{"pad":"` + strings.Repeat("x", 3000) + `"}`), "not_replayable", "over_cap"},
		"packed": {func(w http.ResponseWriter, s seen) {
			w.Header().Set("Content-Encoding", "br")
			asJSON(w, s)
		}, "not_replayable", "content_encoding"},
		"html":     {status(200, "text/html", "<p>"), "outcome_unknown", "content_type"},
		"chosen":   {status(501, "", ""), "released", "released_status"},
		"redirect": {status(307, "", ""), "released", "redirect"},
		"found":    {status(302, "", ""), "outcome_unknown", "status_3xx"},
		"forbid":   {status(403, "", ""), "released", "status_4xx"},
		"slow-408": {status(408, "", ""), "outcome_unknown", "status_4xx"},
		"fails":    {status(503, "", ""), "outcome_unknown", "status_5xx"},
		"reset":    {func(w http.ResponseWriter, s seen) { hangUp(w) }, "outcome_unknown", "reset"},
		"cut": {func(w http.ResponseWriter, s seen) {
			event(w, `{"jsonrpc":"2.0","method":"notifications/x"}`)
			hangUp(w)
		}, "outcome_unknown", "reset"},
		"hangs": {func(w http.ResponseWriter, s seen) { release.wait(s) }, "outcome_unknown", "timeout"},
		"hangs-within": {func(w http.ResponseWriter, s seen) {
			event(w, `{"jsonrpc":"2.0","method":"notifications/x"}`)
			release.wait(s)
		}, "outcome_unknown", "timeout"},
	}
	u := newUpstream(t, func(w http.ResponseWriter, s seen) {
		switch s.Tool {
		case "left":
			release.wait(s)
		case "left-within":
			event(w, `{"jsonrpc":"2.0","method":"notifications/x"}`)
			release.wait(s)
		default:
			answers[s.Tool].give(w, s)
		}
	})
	p := f.Start(t, Setup{Upstream: u.URL, IdleTimeout: 4 * time.Second, Config: strings.Replace(plain, `"server":"s"`,
		`"server":"s","log":["tool","settled","settled_by"],"limits":{"reply_bytes":2000},"released_statuses":[501],"released_errors":[-32050],"tools":[{"match":"lenient","on_tool_error":"release"}]`, 1)})
	c := newClient(t, p)
	want := map[string][2]string{}
	lines := 0
	for tool, answer := range answers {
		if answer.give == nil {
			t.Fatal(tool)
		}
		c.call("1", tool, `{}`, tool, "X-User", "ada")
		want[tool] = [2]string{answer.settled, answer.cause}
		lines++
	}
	for _, tool := range []string{"left", "left-within"} {
		runs := u.Runs()
		ctx, leave := context.WithCancel(context.Background())
		gone := make(chan struct{})
		go func() {
			defer close(gone)
			res, err := c.open(ctx, "POST", strings.NewReader(toolCall("1", tool, `{}`)), headers{"Idempotency-Key", tool, "X-User", "ada"})
			if err == nil {
				readAll(res)
			}
		}()
		u.await(t, runs+1)
		if tool == "left-within" {
			// The answer must have begun to pass.
			time.Sleep(200 * time.Millisecond)
		}
		leave()
		<-gone
		want[tool] = [2]string{"outcome_unknown", "client_gone"}
		lines++
	}
	// A repeat settles nothing.
	wantReplay(t, c.call("2", "result", `{}`, "result", "X-User", "ada"))
	lines++
	var log []map[string]string
	eventually(t, "each request's line in the access log", func() bool {
		log = p.AccessLog(t)
		return len(log) >= lines
	})
	seen := map[string]bool{}
	for _, line := range log {
		tool := line["tool"]
		got := [2]string{line["settled"], line["settled_by"]}
		switch {
		case line["outcome"] == "replay":
			if got != [2]string{} {
				t.Errorf("a replay is said to have settled: %v", got)
			}
		case got != want[tool]:
			t.Errorf("%s: expected %v in the access log, found %v: %v", tool, want[tool], got, line)
		default:
			seen[tool] = true
		}
	}
	if len(seen) != len(want) {
		t.Errorf("lines of %d calls found, expected %d", len(seen), len(want))
	}
}

// says answers with one JSON message that has these members beside the id.
func says(members string) func(http.ResponseWriter, seen) {
	return func(w http.ResponseWriter, s seen) { writeJSON(w, answerTo(s, members)) }
}
