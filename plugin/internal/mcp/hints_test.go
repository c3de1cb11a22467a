package mcp

import (
	"fmt"
	"testing"
)

func TestHints(t *testing.T) {
	for annotations, want := range map[string]Hint{
		`{"readOnlyHint":true}`:   ReadOnlyHint,
		`{"idempotentHint":true}`: IdempotentHint,
		`{"readOnlyHint":true,"idempotentHint":true,"destructiveHint":false}`: ReadOnlyHint,
		`{"readOnlyHint":true,"title":"x","openWorldHint":true}`:              ReadOnlyHint,
		`{"readOnlyHint":true,"destructiveHint":true}`:                        NoHint,
		`{"idempotentHint":true,"destructiveHint":true}`:                      NoHint,
		`{"destructiveHint":false}`:                                           NoHint,
		`{"destructiveHint":true}`:                                            NoHint,
		`{"readOnlyHint":"true"}`:                                             NoHint,
		`{"readOnlyHint":true,"destructiveHint":null}`:                        NoHint,
		`{"readOnlyHint":true,"idempotentHint":1}`:                            NoHint,
		`{"readOnlyHint":false,"idempotentHint":false}`:                       NoHint,
		`{}`: NoHint, `null`: NoHint, `[]`: NoHint, `true`: NoHint,
		`{"ReadOnlyHint":true}`: NoHint,
	} {
		var r Response
		got := map[string]Hint{}
		ok := r.Hints([]byte(`{"jsonrpc":"2.0","id":7,"result":{"tools":[{"name":"a","annotations":`+annotations+`},{"name":"b"}]}}`), []byte("7"),
			func(name []byte, hint Hint) { got[string(name)] = hint })
		if !ok || fmt.Sprint(got) != fmt.Sprint(map[string]Hint{"a": want, "b": NoHint}) {
			t.Errorf("%s: %v %v, want %v", annotations, ok, got, want)
		}
	}
	const tool = `{"name":"a","annotations":{"readOnlyHint":true}}`
	for _, message := range []string{
		`{"id":8,"result":{"tools":[` + tool + `]}}`,
		`{"id":"7","result":{"tools":[` + tool + `]}}`,
		`{"result":{"tools":[` + tool + `]}}`,
		`{"id":7,"method":"x","result":{"tools":[` + tool + `]}}`,
		`{"id":7,"result":{"tools":[` + tool + `]}`,
		`{"id":7,"result":{"tools":[` + tool + `],"tools":[]}}`,
		`{"id":7,"result":{"tools":[{"name":"a","annotations":{"readOnlyHint":true,"readOnlyHint":false}}]}}`,
		`{"id":7,"result":{"tools":[{"name":"\ud800"}]}}`,
		`{"id":7,"result":{"tools":[` + tool + `,{"name":1}]}}`,
		`{"id":7,"result":{"tools":[` + tool + `,"b"]}}`,
		`{"id":7,"result":{"tools":{"a":` + tool + `}}}`,
		`{"id":7,"error":{"code":1}}`,
		`[{"id":7,"result":{"tools":[` + tool + `]}}]`,
		`7`, ``,
	} {
		var r Response
		if r.Hints([]byte(message), []byte("7"), func([]byte, Hint) {}) {
			t.Errorf("%s: is an answer", message)
		}
	}
}

func TestCursor(t *testing.T) {
	for body, want := range map[string]string{
		`{"method":"tools/list"}`:                             "",
		`{"method":"tools/list","params":{"cursor":null}}`:    "",
		`{"method":"tools/list","params":{"cursor":"a b"}}`:   `"a b"`,
		`{"method":"tools/list","params":{"cursor":{"a":1}}}`: `{"a":1}`,
	} {
		var r Request
		r.Read([]byte(body), nil)
		if got := string(r.Cursor()); got != want {
			t.Errorf("%s: %q, want %q", body, got, want)
		}
	}
}
