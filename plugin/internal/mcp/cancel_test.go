package mcp_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/callonce/callonce/plugin/internal/mcp"
)

// A body that is not strict JSON and spells the notification cancels every request, besides
// those that stand before the defect.
func TestCancelledInABrokenBody(t *testing.T) {
	const notice = `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":7}}`
	for body, want := range map[string][]string{
		notice:            {"7"},
		notice + "}":      {"*", "7"},
		"\ufeff" + notice: {"*"},
		strings.Replace(notice, "7", `7,"x":NaN`, 1):                          {"*", "7"},
		strings.Replace(notice, "cancelled", "progress", 1) + "}":             nil,
		strings.Replace(notice, "notifications/", `notifications\/`, 1) + "}": {"*", "7"},
		"{": nil,
		"":  nil,
	} {
		var r mcp.Request
		r.Read([]byte(body), nil)
		var got []string
		r.EachCancelled(func(id []byte) {
			if id == nil {
				id = []byte("*")
			}
			got = append(got, string(id))
		})
		if !slices.Equal(got, want) || r.Cancels() != (len(want) > 0) {
			t.Errorf("%s: %v, expected %v", body, got, want)
		}
		if len(want) > 0 && !mcp.MayCancel([]byte(body)) {
			t.Errorf("%s: passes unread", body)
		}
	}
}

// Of a body that cannot be read for certain it is told whether the call was answered in it.
func TestAnsweredBeforeADefect(t *testing.T) {
	for body, ours := range map[string]bool{
		`{"id":7,"result":{},"result":{}}`:              true,
		`{"id":7,"result":{},"error":{"code":1}}`:       true,
		`{"id":7,"result":{}}x`:                         true,
		`{"id":7,"ID":8,"result":{}}`:                   true,
		`{"id":7,"result":{"isError":tru}}`:             true,
		`{"id":8,"result":{},"result":{}}`:              false,
		`{"id":7,"id":7,"result":{}}`:                   false,
		`{"id":7,"result":{"a":[1`:                      false,
		`{"id":7,"method":"x","result":{},"result":{}}`: false,
		`{"result":{},"result":{}}`:                     false,
		`<html>`:                                        false,
		``:                                              false,
	} {
		r := mcp.Response{Ours: !ours}
		if got := r.Read([]byte(body), []byte("7")); got != mcp.Malformed || r.Ours != ours {
			t.Errorf("%s: %d, ours %v, expected %v", body, got, r.Ours, ours)
		}
	}
}
