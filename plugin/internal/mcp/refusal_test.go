package mcp_test

import (
	"bytes"
	"cmp"
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"github.com/callonce/callonce/canonical"
	"github.com/callonce/callonce/plugin/internal/mcp"
)

// table is the contract's table of refusals (section 4).
var table = []struct {
	refusal    mcp.Refusal
	kind       string
	status     int
	code       int
	mayHaveRun string
	retry      string
	retryAfter bool
	also       []string
}{
	{mcp.Unsupported, "idempotency_unsupported_request", 400, -31400, "no", "after_fix", false, nil},
	{mcp.TooLarge, "idempotency_unsupported_request", 413, -31400, "no", "after_fix", false, nil},
	{mcp.KeyInvalid, "idempotency_key_invalid", 400, -31401, "no", "after_fix", false, nil},
	{mcp.KeyRequired, "idempotency_key_required", 400, -31402, "no", "after_fix", false, nil},
	{mcp.IdentityRequired, "idempotency_requires_verified_identity", 400, -31403, "no", "after_fix", false, nil},
	{mcp.Conflict, "idempotency_key_conflict", 409, -31409, "unknown", "new_key_if_new_intent", false, nil},
	{mcp.InFlight, "idempotency_in_flight", 409, -31410, "running", "same_key_later", true, []string{"idempotency_key_in_progress"}},
	{mcp.OutcomeUnknown, "idempotency_outcome_unknown", 409, -31411, "unknown", "reconcile_first", false, nil},
	{mcp.NotReplayable, "idempotency_response_not_replayable", 409, -31412, "yes", "reconcile_first", false, nil},
	{mcp.Capacity, "idempotency_capacity", 429, -31429, "unknown", "same_key_later", true, nil},
	{mcp.Unavailable, "idempotency_unavailable", 503, -31503, "unknown", "same_key_later", true, nil},
	{mcp.NeverBuffered, "idempotency_unavailable", 503, -31503, "unknown", "never", false, nil},
}

// reply is a refusal as a client decodes it.
type reply struct {
	JSONRPC string          `json:"jsonrpc"`
	ID      json.RawMessage `json:"id"`
	Error   struct {
		Code    int    `json:"code"`
		Message string `json:"message"`
		Data    *data  `json:"data"`
	} `json:"error"`
}

// toolResult is a refusal in the shape of a tool's result.
type toolResult struct {
	JSONRPC string          `json:"jsonrpc"`
	ID      json.RawMessage `json:"id"`
	Result  struct {
		ResultType string `json:"resultType"`
		IsError    bool   `json:"isError"`
		Content    []struct {
			Type string `json:"type"`
			Text string `json:"text"`
		} `json:"content"`
		Meta map[string]*data `json:"_meta"`
	} `json:"result"`
}

type data struct {
	Type       string   `json:"type"`
	MayHaveRun string   `json:"may_have_run"`
	Retry      string   `json:"retry"`
	Operation  *string  `json:"operation"`
	Also       []string `json:"also"`
	RetryAfter int      `json:"retry_after_ms"`
}

// strict decodes a refusal as strictly as we read others: no member that is not known.
func strict(t *testing.T, text []byte, into any) {
	t.Helper()
	if _, err := canonical.Append(nil, text); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(into); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
}

func decode(t *testing.T, text []byte) reply {
	t.Helper()
	var r reply
	strict(t, text, &r)
	if r.JSONRPC != "2.0" || r.Error.Message == "" {
		t.Errorf("%s: jsonrpc %q, message %q", text, r.JSONRPC, r.Error.Message)
	}
	return r
}

func TestRefusals(t *testing.T) {
	for _, c := range table {
		t.Run(c.kind, func(t *testing.T) {
			if c.refusal.Status != c.status || c.refusal.RetryAfter > 0 != c.retryAfter {
				t.Errorf("status %d, Retry-After %d", c.refusal.Status, c.refusal.RetryAfter)
			}
			text := c.refusal.AppendError([]byte("before"), []byte("7"), "0123456789abcdef", "", "")
			r := decode(t, []byte(strings.TrimPrefix(string(text), "before")))
			d := r.Error.Data
			if string(r.ID) != "7" || r.Error.Code != c.code || d == nil || d.Type != c.kind || d.MayHaveRun != c.mayHaveRun || d.Retry != c.retry {
				t.Errorf("%s", text)
			}
			if d != nil && d.RetryAfter != 1000*c.refusal.RetryAfter {
				t.Errorf("Retry-After is %d s, retry_after_ms in %s", c.refusal.RetryAfter, text)
			}
			if d.Operation == nil || *d.Operation != "0123456789abcdef" || strings.Join(d.Also, " ") != strings.Join(c.also, " ") {
				t.Errorf("%s", text)
			}
			if r := decode(t, c.refusal.AppendError(nil, []byte("7"), "", "", "")); r.Error.Data.Operation != nil {
				t.Errorf("an operation where none is known: %s", *r.Error.Data.Operation)
			}
		})
	}
}

// Whatever the shape, a refusal that says when to come back says it in its data too, and no
// other does.
func TestRetryAfterInEveryShape(t *testing.T) {
	for _, c := range table {
		for _, seconds := range []int{0, 1, 86400} {
			f := c.refusal
			f.RetryAfter = seconds
			var result toolResult
			strict(t, f.AppendToolResult(nil, []byte("7"), "", "", ""), &result)
			for shape, d := range map[string]*data{
				"error": decode(t, f.AppendError(nil, []byte("7"), "", "", "")).Error.Data, "result": result.Result.Meta["callonce.dev/refusal"],
			} {
				if d == nil || d.RetryAfter != 1000*seconds {
					t.Errorf("%s as %s: %d s became %+v", c.kind, shape, seconds, d)
				}
			}
			if text := string(f.AppendError(nil, nil, "", "", "")); seconds == 0 && strings.Contains(text, "retry_after") {
				t.Errorf("nothing to wait for: %s", text)
			}
		}
	}
}

func TestRetryAfterInFlight(t *testing.T) {
	if mcp.InFlight.RetryAfter != 1 {
		t.Errorf("Retry-After %d, want 1 (contract section 4)", mcp.InFlight.RetryAfter)
	}
}

// The whole text of the contract's example.
func TestRefusalBytes(t *testing.T) {
	got := string(mcp.Conflict.AppendError(nil, []byte("7"), "0123456789abcdef", "get_charge", ""))
	want := `{"jsonrpc":"2.0","id":7,"error":{"code":-31409,"message":"` +
		`This call was not run: its idempotency key was already used for another call. If you mean a new call, use a new key. If you mean to repeat the first call, send it exactly as it was.` +
		`","data":{"type":"idempotency_key_conflict","may_have_run":"unknown","retry":"new_key_if_new_intent","operation":"0123456789abcdef"}}}`
	if got != want {
		t.Errorf("\n got %s\nwant %s", got, want)
	}
}

func TestInFlightMessage(t *testing.T) {
	for statusTool, want := range map[string]string{
		"get_charge": "This call is still running. Do not start it again under another key; call get_charge to see its state. The same request with the same key will return the result once it is there.",
		"":           "This call is still running. Do not start it again under another key. The same request with the same key will return the result once it is there.",
	} {
		if got := decode(t, mcp.InFlight.AppendError(nil, nil, "", statusTool, "")).Error.Message; got != want {
			t.Errorf("\n got %s\nwant %s", got, want)
		}
	}
}

// The message says what to do next, in whole sentences, and names the tool that tells
// the state where somebody can still ask for it.
func TestRefusalMessages(t *testing.T) {
	const detail, tool = "a batch that holds a tools/call", "get_charge"
	for _, c := range table {
		for _, d := range []string{"", detail} {
			for _, s := range []string{"", tool} {
				m := decode(t, c.refusal.AppendError(nil, nil, "", s, d)).Error.Message
				for _, bad := range []string{"..", ".:", ":.", ".;", ";;", ":;", "  ", "%", " .", "\n"} {
					if strings.Contains(m, bad) {
						t.Errorf("%s: %q in %q", c.kind, bad, m)
					}
				}
				if !strings.HasSuffix(m, ".") || strings.Count(m, detail) != strings.Count(d, detail) {
					t.Errorf("%s with %q: %q", c.kind, d, m)
				}
				running := c.mayHaveRun == "running" || c.retry == "reconcile_first"
				if strings.Contains(m, tool) != (running && s != "") {
					t.Errorf("%s with status tool %q: %q", c.kind, s, m)
				}
			}
		}
		m := decode(t, c.refusal.AppendError(nil, nil, "", "", "")).Error.Message
		if notRun := c.mayHaveRun == "no"; notRun && !strings.Contains(m, "not run") {
			t.Errorf("%s does not say that nothing ran: %q", c.kind, m)
		}
		if again := c.retry == "same_key_later"; again != strings.Contains(strings.ToLower(m), "the same request with the same key") {
			t.Errorf("%s, to be tried again: %v: %q", c.kind, again, m)
		}
	}
}

// Ids go back as they came, byte for byte, whatever they are; and whatever a status
// tool or a detail is, what we write is strict JSON.
func TestRefusalOfHostileInput(t *testing.T) {
	ids := []string{`null`, `0`, `-0`, `7`, `123456789012345678901234567890`, `""`, `"\""`, `"\\"`, `"\u0000\u001f"`, `"\ud83d\ude00"`, `"</script>"`, `"%s%d%!"`, `"},\"error\":{"`, `"` + strings.Repeat("x", 5000) + `"`}
	tools := []string{"", `"`, `\`, "a\nb\x00c", "%s", "100%", `","data":{}`, "工具", "\u2028", "</script>", strings.Repeat("x", 128)}
	for _, c := range table {
		for _, id := range ids {
			for _, tool := range tools {
				for _, detail := range []string{"", "a\"b\\c\x01%s", "byte 7"} {
					r := decode(t, c.refusal.AppendError(nil, []byte(id), "0123456789abcdef", tool, detail))
					if string(r.ID) != id {
						t.Fatalf("id %s came back as %s", id, r.ID)
					}
					if c.mayHaveRun == "running" && !strings.Contains(r.Error.Message, tool) {
						t.Fatalf("status tool %q is not in %q", tool, r.Error.Message)
					}
					checkToolResult(t, r, c.refusal.AppendToolResult(nil, []byte(id), "0123456789abcdef", tool, detail))
				}
			}
		}
		for _, unread := range [][]byte{nil, {}} {
			if r := decode(t, c.refusal.AppendError(nil, unread, "", "", "")); string(r.ID) != "null" {
				t.Errorf("an id that was not read came back as %s", r.ID)
			}
			checkToolResult(t, decode(t, c.refusal.AppendError(nil, unread, "", "", "")), c.refusal.AppendToolResult(nil, unread, "", "", ""))
		}
	}
}

// checkToolResult wants a tool's result that says what the error says.
func checkToolResult(t *testing.T, want reply, text []byte) {
	t.Helper()
	var r toolResult
	strict(t, text, &r)
	if r.JSONRPC != "2.0" || string(r.ID) != string(want.ID) || r.Result.ResultType != "complete" || !r.Result.IsError ||
		len(r.Result.Content) != 1 || r.Result.Content[0].Type != "text" || r.Result.Content[0].Text != want.Error.Message ||
		len(r.Result.Meta) != 1 || !reflect.DeepEqual(r.Result.Meta["callonce.dev/refusal"], want.Error.Data) {
		t.Fatalf("%s does not say what %+v says", text, want)
	}
}

// A dialect changes the names of what it has a name for, and nothing else.
func TestDialectsChangeNamesOnly(t *testing.T) {
	for _, c := range table {
		for _, d := range []mcp.Dialect{mcp.Own, mcp.SEP3182, mcp.KeyReused} {
			want := c.refusal
			switch {
			case d == mcp.SEP3182 && c.kind == "idempotency_in_flight":
				want.Type, want.Also = "idempotency_key_in_progress", "idempotency_in_flight"
			case d == mcp.KeyReused && c.kind == "idempotency_key_conflict":
				want.Also = "IDEMPOTENCY_KEY_REUSED"
			}
			got := c.refusal.In(d)
			if got != want {
				t.Errorf("%s in dialect %d: %+v", c.kind, d, got)
			}
			if a, b := decode(t, got.AppendError(nil, nil, "", "x", "")), decode(t, c.refusal.AppendError(nil, nil, "", "x", "")); a.Error.Message != b.Error.Message {
				t.Errorf("%s in dialect %d says %q", c.kind, d, a.Error.Message)
			}
		}
	}
}

// Nothing that the caller sent but its id is in what it gets back.
func TestRefusalQuotesNothing(t *testing.T) {
	const secret = "s3cr3t"
	body := `{"id":7,"method":"tools/call","s3cr3t":1,"params":{"name":"s3cr3t","idempotencyKey":"s3cr3t","s3cr3t":["s3cr3t"],"arguments":["s3cr3t"]}}`
	for _, b := range []string{body, body[:len(body)-1], "[" + body + "]", strings.Replace(body, `"id"`, `"Id"`, 1), strings.Replace(body, `"params"`, `"params":1,"params"`, 1)} {
		r := read(b)
		if r.Kind != mcp.Ambiguous {
			t.Fatalf("%s: kind %d", b, r.Kind)
		}
		if text := mcp.Unsupported.AppendError(nil, r.ID, "", "", r.Defect); strings.Contains(string(text), secret) {
			t.Errorf("%s", text)
		}
	}
}

// The protocol's own code for routing headers that differ from the body.
func TestHeaderMismatch(t *testing.T) {
	for _, id := range []string{"", "7", `"a\"b"`} {
		for _, header := range []string{"Mcp-Method", "Mcp-Name"} {
			r := decode(t, mcp.AppendHeaderMismatch(nil, []byte(id), header))
			if want := cmp.Or(id, "null"); string(r.ID) != want {
				t.Errorf("id %s, want %s", r.ID, want)
			}
			if r.Error.Code != -32020 || r.Error.Data != nil || !strings.Contains(r.Error.Message, header) {
				t.Errorf("%+v", r.Error)
			}
		}
	}
}
