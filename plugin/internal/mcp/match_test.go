package mcp_test

import (
	"testing"

	"github.com/callonce/callonce/plugin/internal/mcp"
)

// A sign is in a result only where everybody reads it there.
func TestShows(t *testing.T) {
	status := []mcp.Sign{{Pointer: "/n", Equals: []byte("7")}, {Pointer: "/structuredContent/status", Equals: []byte(`"confirm"`)}}
	for result, want := range map[string]bool{
		`{"structuredContent":{"status":"confirm"}}`:      true,
		`{"structuredContent":{"status":"c\u006fnfirm"}}`: true,
		`{"structuredContent":{"st\u0061tus":"confirm"}}`: true,
		`{"n":7.0}`: true,
		`{"n":"7"}`: false,
		`{"n":[7]}`: false,
		`{"structuredContent":{"status":"confirmed"}}`:                      false,
		`{"structuredContent":{"status":["confirm"]}}`:                      false,
		`{"structuredContent":{"status":{"confirm":1}}}`:                    false,
		`{"structuredContent":{"status":"done"},"status":"confirm"}`:        false,
		`{"structuredContent":null}`:                                        false,
		`"confirm"`:                                                         false,
		`{}`:                                                                false,
		`{"structuredContent":{"status":"confirm","status":"done"}}`:        false, // two readers, two values
		`{"structuredContent":{"status":"confirm"},"pad":NaN}`:              false,
		`{"structuredContent":{"status":"confirm"},"pad":"\ud800"}`:         true,
		`{"structuredContent":{"status":"\ud800"}}`:                         false,
		`{"structuredContent":{"status":"confirm"},"structuredContent":{}}`: false,
	} {
		var r mcp.Response
		message := []byte(`{"id":1,"result":` + result + `}`)
		if a := r.Read(message, []byte("1")); a != mcp.Result {
			t.Fatalf("%s: read as %v", result, a)
		}
		if got := r.Shows(message, status); got != want {
			t.Errorf("%s: shows it: %v, expected %v", result, got, want)
		}
		if r.Shows(message, nil) {
			t.Errorf("%s shows a sign of none", result)
		}
	}
}
