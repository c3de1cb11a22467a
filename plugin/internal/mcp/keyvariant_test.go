package mcp_test

import (
	"strings"
	"testing"

	"github.com/callonce/callonce/plugin/internal/mcp"
)

// Where a member equals one of the key sources' but for case, some servers find the key in it.
func TestKeyUnderAnotherCase(t *testing.T) {
	all := append(append([]string(nil), pointers...), "/arguments/meta/idempotency-key")
	call := func(members string) string {
		return `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"pay"` + members + `}}`
	}
	for members, want := range map[string]struct {
		kind  mcp.Kind
		keyed bool
	}{
		`,"idempotencykey":"k"`:                           {mcp.Ambiguous, true},
		`,"IdempotencyKey":"k"`:                           {mcp.Ambiguous, true},
		`,"idempotencyKey":"k","IDEMPOTENCYKEY":"k"`:      {mcp.Ambiguous, true},
		`,"\u0049dempotencyKey":"k"`:                      {mcp.Ambiguous, true},
		`,"idempotencyKey":"k"`:                           {mcp.Ambiguous, true},
		`,"_META":{"callonce.dev/idempotency-key":"k"}`:   {mcp.Ambiguous, true},
		`,"_meta":{"Callonce.dev/Idempotency-Key":"k"}`:   {mcp.Ambiguous, true},
		`,"_META":{}`:                                     {mcp.ToolCall, false},
		`,"arguments":{"Idempotency_Key":"k"}`:            {mcp.Ambiguous, true},
		`,"arguments":{"meta":{"Idempotency-Key":"k"}}`:   {mcp.Ambiguous, true},
		`,"idempotencykey":null`:                          {mcp.ToolCall, false},
		`,"arguments":{"Idempotency_Key":""}`:             {mcp.ToolCall, false},
		`,"arguments":{"Meta":{"idempotency-key":"k"}}`:   {mcp.ToolCall, false},
		`,"arguments":{"a":{"Idempotency_Key":"k"}}`:      {mcp.ToolCall, false},
		`,"arguments":{"IdempotencyKey":"k"}`:             {mcp.ToolCall, false},
		`,"_meta":{"callonce.dev~1idempotency-key":"k"}`:  {mcp.ToolCall, false},
		`,"_meta":{"callonce.dev/idempotency-key-2":"k"}`: {mcp.ToolCall, false},
		`,"idempotencyKe":"k","idempotencyKeys":"k"`:      {mcp.ToolCall, false},
		`,"idempotencyKey":"k"`:                           {mcp.ToolCall, true},
	} {
		var r mcp.Request
		if r.Read([]byte(call(members)), all); r.Kind != want.kind || r.Keyed != want.keyed {
			t.Errorf("%s: kind %d, keyed %v, expected %d, %v", members, r.Kind, r.Keyed, want.kind, want.keyed)
		}
		var none mcp.Request
		if none.Read([]byte(call(members)), nil); none.Kind != mcp.ToolCall {
			t.Errorf("%s, where keys stand in headers: kind %d", members, none.Kind)
		}
	}
}

// A key in what only a lenient reader takes is spelled all the same, and so is one in a batch
// within a batch.
func TestKeySpelledLeniently(t *testing.T) {
	call := `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"pay","arguments":{"idempotency_key":"k"}}}`
	for body, keyed := range map[string]bool{
		strings.Replace(call, `"idempotency_key"`, `idempotency_key`, 1):         true,
		strings.Replace(call, `"idempotency_key"`, `"a":1, idempotency_key `, 1): true,
		strings.Replace(call, `"idempotency_key"`, `idempotency_keys`, 1):        false,
		strings.Replace(call, `"idempotency_key"`, `"\x69dempotency_key"`, 1):    true,
		strings.Replace(call, `"idempotency_key"`, `"\x6adempotency_key"`, 1):    false,
		`[[` + call + `]]`:          true,
		`[[{"id":1}],` + call + `]`: true,
		`[[[]],[[` + call + `]]]`:   true,
		`[[` + strings.Replace(call, "idempotency_key", "order", 1) + `]]`:                                    false,
		`[` + strings.Replace(call, "params", "x", 1) + `,[` + strings.Replace(call, "params", "y", 1) + `]]`: false,
	} {
		var r mcp.Request
		if r.Read([]byte(body), pointers); r.Kind != mcp.Ambiguous || r.Keyed != keyed {
			t.Errorf("%s: kind %d, keyed %v, expected %v", body, r.Kind, r.Keyed, keyed)
		}
	}
}
