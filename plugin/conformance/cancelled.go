package conformance

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
)

// cancelledBehindADefect: a server may read a notification that we cannot, or under another
// type, and stop; what it then answers is no outcome.
func cancelledBehindADefect(t *testing.T, f Front) {
	for name, members := range map[string]string{"keys anywhere": "", "keys in headers only": `"keys":["header:Idempotency-Key"],`} {
		config := strings.Replace(plain, `"server":"s"`, `"server":"s",`+members+`"tools":[{"match":"*","on_tool_error":"release"}]`, 1)
		told := make(chan struct{})
		c, u, p := serveWith(t, f, config, func(w http.ResponseWriter, s seen) {
			if s.Tool == "" {
				w.WriteHeader(202)
				return
			}
			if !strings.HasPrefix(s.ID, `"again`) {
				select {
				case <-told:
				case <-s.Gone:
					return
				}
			}
			writeJSON(w, answerTo(s, contextCanceled))
		})
		notice := `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"reason":"x","requestId":$ID}}`
		for i, n := range []struct {
			body, contentType string
			touches           bool
		}{
			{"\ufeff" + notice, "application/json", true},
			{strings.Replace(notice, `"x"`, "NaN", 1), "application/json", true},
			{strings.Replace(notice, `"x"`, "\"\xfc\"", 1), "application/json; charset=ISO-8859-1", true},
			{strings.Join(strings.Split(notice, ""), "\x00") + "\x00", "application/json", true},
			{notice, "application/json, application/json", true},
			{notice, "text/plain", true},
			{strings.Replace(notice, "cancelled", "progress", 1) + "}", "application/json", false},
		} {
			id, key, before := fmt.Sprint(70+i), fmt.Sprint("k", i), u.Runs()
			call := c.begin(toolCall(id, "charge", `{}`), "Idempotency-Key", key, "Mcp-Session-Id", key)
			u.await(t, before+1)
			body := strings.Replace(strings.Replace(n.body, "$ID", id, 1), "$\x00I\x00D", strings.Join(strings.Split(id, ""), "\x00"), 1)
			if r := newClient(t, p).post(body, "Content-Type", n.contentType, "Mcp-Session-Id", key); r.Status != 202 {
				t.Fatalf("%s: the notification got %d %v %s", name, r.Status, r.Err, r.Body)
			}
			told <- struct{}{}
			if first := call.wait(t); !strings.Contains(first.Body, "context canceled") {
				t.Fatalf("%s: the first caller got %d %v %s", name, first.Status, first.Err, first.Body)
			}
			again := c.call(`"again"`, "charge", `{}`, key, "Mcp-Session-Id", key)
			if refused := again.isRefusal() == unknownOutcome; refused != n.touches || !refused && u.Runs() != before+2 {
				t.Errorf("%s, %q under %s: expected an unknown outcome: %v, found %d %s", name, body, n.contentType, n.touches, again.Status, again.Body)
			}
		}
	}
}
