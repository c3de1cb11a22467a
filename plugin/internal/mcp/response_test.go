package mcp_test

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/callonce/callonce/canonical"
	"github.com/callonce/callonce/plugin/internal/mcp"
)

// answers are messages that come back for the call with the given id.
var answers = []struct {
	name, message, id string
	want              mcp.Answer
}{
	{"result", `{"jsonrpc":"2.0","id":7,"result":{"content":[]}}`, `7`, mcp.Result},
	{"error", `{"jsonrpc":"2.0","id":7,"error":{"code":-32603,"message":"x"}}`, `7`, mcp.Failed},
	{"id last", `{"result":{},"jsonrpc":"2.0","id":7}`, `7`, mcp.Result},
	{"white space", " {\n\"id\" :\t7 , \"result\" : { } }\r\n", `7`, mcp.Result},
	{"members in escapes", `{"\u0069d":7,"r\u0065sult":{}}`, `7`, mcp.Result},
	{"result no object", `{"id":7,"result":[1]}`, `7`, mcp.Result},
	{"result null", `{"id":7,"result":null}`, `7`, mcp.Result},
	{"complete", `{"id":7,"result":{"resultType":"complete","content":[]}}`, `7`, mcp.Result},
	{"unknown result type", `{"id":7,"result":{"resultType":"other"}}`, `7`, mcp.Result},
	{"isError", `{"id":7,"result":{"isError":true,"content":[]}}`, `7`, mcp.ToolError},
	{"isError false", `{"id":7,"result":{"isError":false}}`, `7`, mcp.Result},
	{"isError no boolean", `{"id":7,"result":{"isError":"true"}}`, `7`, mcp.Result},
	{"isError deeper", `{"id":7,"result":{"structuredContent":{"isError":true,"resultType":"task"}}}`, `7`, mcp.Result},
	{"isError in an error", `{"id":7,"error":{"isError":true,"resultType":"task"}}`, `7`, mcp.Failed},
	{"input_required", `{"id":7,"result":{"resultType":"input_required","requestState":"s"}}`, `7`, mcp.InputRequired},
	{"input_required in escapes", `{"id":7,"result":{"resultType":"input\u005frequired"}}`, `7`, mcp.InputRequired},
	{"input_required with isError", `{"id":7,"result":{"isError":true,"resultType":"input_required"}}`, `7`, mcp.InputRequired},
	{"task", `{"id":7,"result":{"resultType":"task","task":{"taskId":"t"}}}`, `7`, mcp.Task},
	{"resultType no string", `{"id":7,"result":{"resultType":["task"],"isError":true}}`, `7`, mcp.ToolError},

	// Ids are equal by value and kind.
	{"7.0 for 7", `{"id":7.0,"result":{}}`, `7`, mcp.Result},
	{"70e-1 for 7", `{"id":70e-1,"result":{}}`, `7`, mcp.Result},
	{"0 for -0", `{"id":0,"result":{}}`, `-0`, mcp.Result},
	{`"7" for 7`, `{"id":"7","result":{}}`, `7`, mcp.NotOurs},
	{`7 for "7"`, `{"id":7,"result":{}}`, `"7"`, mcp.NotOurs},
	{"8 for 7", `{"id":8,"result":{}}`, `7`, mcp.NotOurs},
	{"70 for 7", `{"id":70,"result":{}}`, `7`, mcp.NotOurs},
	{"7.5 for 7", `{"id":7.5,"result":{}}`, `7`, mcp.NotOurs},
	{"a neighbour beyond a double", `{"id":9007199254740992,"result":{}}`, `9007199254740993`, mcp.NotOurs},
	{"the same beyond a double", `{"id":9007199254740993,"result":{}}`, `9007199254740993`, mcp.Result},
	{"an id that a double cannot hold, with an exponent", `{"id":1e+21,"result":{}}`, `1000000000000000000000`, mcp.Result},
	{"string", `{"id":"a-1","result":{}}`, `"a-1"`, mcp.Result},
	{"string in other escapes", `{"id":"\u0061/\ud83d\ude00","result":{}}`, `"a\/😀"`, mcp.Result},
	{"string in another case", `{"id":"A","result":{}}`, `"a"`, mcp.NotOurs},
	{"string not normalised", `{"id":"e\u0301","result":{}}`, `"é"`, mcp.NotOurs},
	{"empty string", `{"id":"","result":{}}`, `""`, mcp.Result},
	{"id null", `{"id":null,"error":{"code":-32603,"message":"x"}}`, `7`, mcp.Unnamed},
	{"id of Python's", `{"id":"server-error","error":{"code":-32603,"message":"x"}}`, `7`, mcp.Unnamed},
	{"id of Python's, ours", `{"id":"server-error","error":{"code":-32603,"message":"x"}}`, `"server-error"`, mcp.Failed},
	{"id null, with a result", `{"id":null,"result":{}}`, `7`, mcp.NotOurs},
	{"id absent", `{"result":{}}`, `7`, mcp.NotOurs},
	{"id a list", `{"id":[7],"result":{}}`, `7`, mcp.NotOurs},
	{"id in another case", `{"ID":7,"result":{}}`, `7`, mcp.NotOurs},
	{"id deeper", `{"result":{"id":7}}`, `7`, mcp.NotOurs},
	{"our id was not read", `{"id":null,"result":{}}`, ``, mcp.NotOurs},
	{"our id is null", `{"id":null,"result":{}}`, `null`, mcp.NotOurs},

	// No responses to us.
	{"a server's request with our id (case 47)", `{"jsonrpc":"2.0","id":7,"method":"sampling/createMessage","params":{}}`, `7`, mcp.NotOurs},
	{"a request with a result", `{"id":7,"method":"ping","result":{}}`, `7`, mcp.NotOurs},
	{"a request, method last", `{"id":7,"result":{},"method":"ping"}`, `7`, mcp.NotOurs},
	{"method null", `{"id":7,"method":null,"result":{}}`, `7`, mcp.NotOurs},
	{"a notification", `{"jsonrpc":"2.0","method":"notifications/progress","params":{"id":7}}`, `7`, mcp.NotOurs},
	{"neither result nor error", `{"jsonrpc":"2.0","id":7}`, `7`, mcp.NotOurs},
	{"both result and error", `{"id":7,"result":{},"error":{"code":1,"message":"x"}}`, `7`, mcp.Malformed},
	{"both, error first", `{"id":7,"error":{"code":1,"message":"x"},"result":{}}`, `7`, mcp.Malformed},
	{"result in another case", `{"id":7,"Result":{}}`, `7`, mcp.NotOurs},
	{"an empty batch", `[]`, `7`, mcp.NotOurs},
	{"a batch of a number", `[7]`, `7`, mcp.NotOurs},
	{"a batch of one, not ours", `[{"id":8,"result":{}}]`, `7`, mcp.NotOurs},
	{"a string", `"x"`, `7`, mcp.NotOurs},
	{"null", `null`, `7`, mcp.NotOurs},

	// Serialisers that write every member of a class write null for what is not there.
	{"result, error null", `{"id":7,"result":{},"error":null}`, `7`, mcp.Result},
	{"isError, error null", `{"id":7,"error":null,"result":{"isError":true}}`, `7`, mcp.ToolError},
	{"error, result null", `{"id":7,"result":null,"error":{"code":1,"message":"x"}}`, `7`, mcp.Failed},
	{"error null alone", `{"id":7,"error":null}`, `7`, mcp.NotOurs},
	{"both null", `{"id":7,"result":null,"error":null}`, `7`, mcp.Result},

	// What the strict reader refuses.
	{"nothing", ``, `7`, mcp.Malformed},
	{"cut short", `{"id":7,"result":{}`, `7`, mcp.Malformed},
	{"text behind", `{"id":7,"result":{}}x`, `7`, mcp.Malformed},
	{"duplicate id", `{"id":8,"id":7,"result":{}}`, `7`, mcp.Malformed},
	{"duplicate id in escapes", `{"id":7,"\u0069d":7,"result":{}}`, `7`, mcp.Malformed},
	{"duplicate result", `{"id":7,"result":{},"result":{"isError":true}}`, `7`, mcp.Malformed},
	{"duplicate error", `{"id":7,"error":{},"error":null}`, `7`, mcp.Malformed},
	{"duplicate method", `{"id":7,"method":"a","method":"b"}`, `7`, mcp.Malformed},
	{"duplicate isError", `{"id":7,"result":{"isError":true,"isError":false}}`, `7`, mcp.Malformed},
	{"duplicate resultType", `{"id":7,"result":{"resultType":"task","resultType":"complete"}}`, `7`, mcp.Malformed},
	{"duplicate code", `{"id":7,"error":{"code":-32700,"code":1}}`, `7`, mcp.Malformed},
	{"id and its case variant", `{"id":7,"ID":8,"result":{}}`, `7`, mcp.Malformed},
	{"result and its case variant", `{"id":7,"Result":{"isError":true},"result":{}}`, `7`, mcp.Malformed},
	{"isError and its case variant", `{"id":7,"result":{"isError":false,"iſerror":true}}`, `7`, mcp.Malformed},
	{"an id that is no text", `{"id":"\ud800","result":{}}`, `"a"`, mcp.Malformed},
	{"an id of broken UTF-8", "{\"id\":\"\xff\",\"result\":{}}", `"a"`, mcp.Malformed},
	{"an id with a leading zero", `{"id":07,"result":{}}`, `7`, mcp.Malformed},
	{"a name that is no text", `{"id":7,"result":{},"i\ud800d":8}`, `7`, mcp.Malformed},
	{"a name of broken UTF-8", "{\"id\":7,\"result\":{},\"i\xffd\":8}", `7`, mcp.Malformed},
	{"isError as Python says it", `{"id":7,"result":{"isError":True}}`, `7`, mcp.Malformed},
	{"resultType that is no text", `{"id":7,"result":{"resultType":"ta\ud800sk"}}`, `7`, mcp.Malformed},
	{"a code that is no number", `{"id":7,"error":{"code":-32700x}}`, `7`, mcp.Malformed},
	{"a batch of two", `[{"id":7,"result":{}},{"jsonrpc":"2.0","method":"n"}]`, `7`, mcp.Malformed},
	{"a batch in a batch", `[[{"id":7,"result":{}}]]`, `7`, mcp.NotOurs},
	{"a batch cut short", `[{"id":7,"result":{}}`, `7`, mcp.Malformed},
	{"brackets that do not fit", `{"id":7,"result":[{]}}`, `7`, mcp.Malformed},
	{"a comma too many", `{"id":7,"result":{"a":1,}}`, `7`, mcp.Malformed},
	{"a member without a name", `{"id":7,"result":{1}}`, `7`, mcp.Malformed},
	{"a comment", `{"id":7,"result":{"a":1/*,"isError":true*/}}`, `7`, mcp.Malformed},
	{"single quotes", `{"id":7,"result":['"',2]}`, `7`, mcp.Malformed},
	{"a return in a string", "{\"id\":7,\"result\":\"a\rb\"}", `7`, mcp.Malformed},

	// What lies beyond the members that count is bytes.
	{"a name twice, deep", `{"id":7,"result":{"a":1,"a":2}}`, `7`, mcp.Result},
	{"lone surrogate", `{"id":7,"result":{"text":"\ud800"}}`, `7`, mcp.Result},
	{"lone surrogate in an error", `{"id":7,"error":{"code":-32700,"message":"\ud800"}}`, `7`, mcp.Failed},
	{"lone surrogate in a name", `{"id":7,"result":{"\ud800":1,"isError":true}}`, `7`, mcp.ToolError},
	{"not UTF-8", "{\"id\":7,\"result\":{\"text\":\"\xff\"}}", `7`, mcp.Result},
	{"NaN and the like", `{"id":7,"result":{"a":[NaN,-Infinity,1_000,0x1F,01,None]}}`, `7`, mcp.Result},
	{"NaN alone", `{"id":7,"result":NaN}`, `7`, mcp.Result},
	{"a line end in a string", "{\"id\":7,\"result\":{\"a\":\"x\ny\"}}", `7`, mcp.Result},
	{"byte order mark", "\xEF\xBB\xBF{\"id\":7,\"result\":{}}", `7`, mcp.Result},
	{"a batch of one", " [ {\"id\":7,\"result\":{\"isError\":true}} ]\n", `7`, mcp.ToolError},
	{"a batch of one error", `[{"id":7,"error":{"code":1}}]`, `7`, mcp.Failed},
	{"the deepest (case 27)", `{"id":7,"result":` + nest(127) + `}`, `7`, mcp.Result},
	{"one deeper", `{"id":7,"result":` + nest(128) + `}`, `7`, mcp.Malformed},
	{"depth (case 27)", `{"id":7,"result":` + nest(500_000) + `}`, `7`, mcp.Malformed},
	{"a page", `<!DOCTYPE html>`, `7`, mcp.Malformed},
}

func TestResponse(t *testing.T) {
	var reused mcp.Response
	for _, c := range answers {
		t.Run(c.name, func(t *testing.T) {
			var r mcp.Response
			if got := r.Read([]byte(c.message), []byte(c.id)); got != c.want {
				t.Errorf("%.200s for %s: %d, want %d", c.message, c.id, got, c.want)
			}
			if got := reused.Read([]byte(c.message), []byte(c.id)); got != c.want {
				t.Errorf("%.200s for %s, reused: %d, want %d", c.message, c.id, got, c.want)
			}
			if c.want == mcp.NotOurs || c.want == mcp.Unnamed || c.want == mcp.Malformed {
				return
			}
			if trimmed := mcp.Trim([]byte(c.message)); r.Read(trimmed, []byte(c.id)) != c.want {
				t.Errorf("%q is something else than %q", trimmed, c.message)
			}
			r.Read([]byte(c.message), []byte(c.id))
			token, err := canonical.Append(nil, []byte(c.message[r.IDStart:r.IDEnd]))
			id, _ := canonical.Append(nil, []byte(c.id))
			if err != nil || !bytes.Equal(token, id) || !strings.HasSuffix(strings.TrimSpace(c.message[:r.IDStart]), ":") {
				t.Errorf("%s: the id at [%d, %d) is %s", c.message, r.IDStart, r.IDEnd, token)
			}
		})
	}
}

// What an error says of whether the tool ran is its code; a server that could not read
// the request cannot name it.
func TestErrorCodes(t *testing.T) {
	for message, want := range map[string]int{
		`{"id":7,"error":{"code":-32042,"message":"consent"}}`:                -32042,
		`{"id":7,"error":{"message":"x","code":-3.26e4}}`:                     -32600,
		`{"id":7,"error":{"co\u0064e":-32601.0}}`:                             -32601,
		`{"id":7,"error":{"code":12345678901234567890}}`:                      0,
		`{"id":7,"error":{"code":1.5}}`:                                       0,
		`{"id":7,"error":{"code":"-32700"}}`:                                  0,
		`{"id":7,"error":{"data":{"code":-32700}}}`:                           0,
		`{"id":7,"error":"-32700"}`:                                           0,
		`{"id":null,"error":{"code":-32700,"message":"Parse error"}}`:         -32700,
		`{"error":{"code":-32600,"message":"Invalid Request"},"result":null}`: -32600,
		`[{"id":null,"error":{"code":-32600}}]`:                               -32600,
	} {
		r := mcp.Response{Code: 5}
		kind := mcp.Failed
		if !strings.Contains(message, `"id":7`) {
			kind = mcp.Unnamed
		}
		if got := r.Read([]byte(message), []byte("7")); got != kind || r.Code != want {
			t.Errorf("%s: %d with code %d, expected code %d", message, got, r.Code, want)
		}
	}
}

// Of a message that is too long its beginning says whether it is the response.
func TestBegins(t *testing.T) {
	for prefix, want := range map[string]mcp.Answer{
		`{"jsonrpc":"2.0","id":7,"result":{"content":[{"text":"xx`: mcp.Result,
		`{"result":{"content":[{"text":"xx`:                        mcp.Result,
		`{"result":"xx`:                                            mcp.Result,
		`[{"id":7,"error":{"code":1,"message":"xx`:                 mcp.Failed,
		`{"error":{"code":1,"message":"xx`:                         mcp.Unnamed,
		`{"id":null,"error":{"message":"xx`:                        mcp.Unnamed,
		`{"id":8,"error":{"code":1,"message":"xx`:                  mcp.NotOurs,
		`{"id":7,"error":{"code":-32800,"message":"xx`:             mcp.Cancelled,
		`{"id":7,"result":null,"error":{"code":1,"message":"xx`:    mcp.Failed,
		`{"id":7,"error":{"code":1},"result":{"xx`:                 mcp.Result,
		`{"id":7,"result":{"resultType":"input_required","x":"xx`:  mcp.InputRequired,
		`{"id":7,"result":{"isError":true,"content":"xx`:           mcp.ToolError,
		`{"id":7,"result":{"isError":"x","content":"xx`:            mcp.Result,
		`{"jsonrpc":"2.0","id":8,"result":{"con`:                   mcp.NotOurs,
		`{"jsonrpc":"2.0","id":"7","result":{"con`:                 mcp.NotOurs,
		`{"jsonrpc":"2.0","method":"n","params":{"xx`:              mcp.NotOurs,
		`{"jsonrpc":"2.0","id":7,"method":"n","params":{"xx`:       mcp.NotOurs,
		`{"id":7,"x":{"result":1`:                                  mcp.Malformed,
		`{"id":null,"x":{"result":1`:                               mcp.Malformed,
		`{"params":{"xx`:                                           mcp.Malformed,
		`"xx`:                                                      mcp.Malformed,
		``:                                                         mcp.Malformed,
	} {
		var r mcp.Response
		if got := r.Begins([]byte(prefix), []byte("7")); got != want {
			t.Errorf("%s: %d, want %d", prefix, got, want)
		}
	}
}

// A replay is the first answer with the asking request's id in it, and nothing else
// changed (cases 4 and 36).
func TestReplay(t *testing.T) {
	ids := []string{`7`, `8`, `-0`, `0`, `123456789012345678901234567890`, `""`, `"a"`, `"\u0061\"\\\/"`, `"😀"`, `"` + strings.Repeat("long", 500) + `"`}
	bodies := []string{
		`{"jsonrpc":"2.0","id":%s,"result":{"id":7,"content":[{"type":"text","text":"\"id\":7"}]}}`,
		`{"result":{"id":%[2]s,"a":[{"id":%[2]s}]},"x":{"id":%[2]s},"id":%[1]s}`,
		" \n{ \"id\" : %s , \"error\" : { \"code\" : -1, \"message\" : \"no\", \"data\" : { \"id\" : 7 } } }\r\n",
		`{"\u0069d":%s,"result":{"isError":true}}`,
	}
	for _, body := range bodies {
		if !strings.Contains(body, "[2]") {
			body = strings.ReplaceAll(body, "%s", "%[1]s") + "%.0[2]s"
		}
		for _, first := range ids {
			message := []byte(fmt.Sprintf(body, first, first))
			var r mcp.Response
			kind := r.Read(message, []byte(first))
			if kind != mcp.Result && kind != mcp.ToolError && kind != mcp.Failed {
				t.Fatalf("%s: %d", message, kind)
			}
			start, end := r.IDStart, r.IDEnd
			for _, asking := range ids {
				got := mcp.AppendReplay([]byte("before"), message, start, end, []byte(asking))
				if want := "before" + fmt.Sprintf(body, asking, first); string(got) != want {
					t.Errorf("replay to %s\n got %s\nwant %s", asking, got, want)
				}
				if again := r.Read(got[len("before"):], []byte(asking)); again != kind {
					t.Errorf("%s is %d for %s, the first answer was %d", got, again, asking, kind)
				}
			}
			if !bytes.Equal(message, []byte(fmt.Sprintf(body, first, first))) {
				t.Errorf("the stored message became %s", message)
			}
		}
	}
}

// AppendEvent says in one event what the message says, line ends and all.
func TestEventOfMessage(t *testing.T) {
	for _, c := range []struct{ message, event, data string }{
		{`{"id":7}`, "event: message\ndata: {\"id\":7}\n\n", `{"id":7}`},
		{"{\n\"id\":7}", "event: message\ndata: {\ndata: \"id\":7}\n\n", "{\n\"id\":7}"},
		{"{\r\n\"id\":\r7}\n", "event: message\ndata: {\ndata: \"id\":7}\ndata: \n\n", "{\n\"id\":7}\n"},
		{" {}", "event: message\ndata:  {}\n\n", " {}"},
		{":{}", "event: message\ndata: :{}\n\n", ":{}"},
		{"\n\n[\n]", "event: message\ndata: \ndata: \ndata: [\ndata: ]\n\n", "\n\n[\n]"},
	} {
		event := mcp.AppendEvent([]byte("before"), []byte(c.message))
		if string(event) != "before"+c.event {
			t.Errorf("%q gave %q, want %q", c.message, event, "before"+c.event)
		}
		if got := strings.Join(parseEvents(event[len("before"):]), "|"); got != c.data {
			t.Errorf("%q is read as %q, want %q", event, got, c.data)
		}
		events := mcp.Events{Cap: len(c.data)}
		var got [][]byte
		events.Feed(event[len("before"):], func(data []byte) bool {
			got = append(got, bytes.Clone(data))
			return false
		})
		if len(got) != 1 || string(got[0]) != c.data || events.Oversize {
			t.Errorf("%q came back as %q (oversize %v), want %q", event, got, events.Oversize, c.data)
		}
	}
}

// A server says in two ways that it was told to stop. Other errors are outcomes.
func TestCancelledErrors(t *testing.T) {
	for error, want := range map[string]mcp.Answer{
		`{"code":-32800,"message":"x"}`:                  mcp.Cancelled,
		`{"code":-32800.0}`:                              mcp.Cancelled,
		`{"code":0,"message":"Request cancelled"}`:       mcp.Cancelled,
		`{"message":"Request c\u0061ncelled","code":0}`:  mcp.Cancelled,
		`{"code":1,"message":"Request cancelled"}`:       mcp.Failed,
		`{"code":0,"message":"Request cancelled again"}`: mcp.Failed,
		`{"code":-32801,"message":"Request cancelled"}`:  mcp.Failed,
	} {
		var r mcp.Response
		if got := r.Read([]byte(`{"jsonrpc":"2.0","id":7,"error":`+error+`}`), []byte("7")); got != want {
			t.Errorf("%s: %d, want %d", error, got, want)
		}
	}
}
