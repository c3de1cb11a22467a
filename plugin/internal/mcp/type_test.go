package mcp_test

import (
	"testing"

	"github.com/callonce/callonce/plugin/internal/mcp"
)

func TestMayHoldJSON(t *testing.T) {
	for contentType, want := range map[string]bool{
		"": true, " ": true, "text/plain": true, "Text/Plain; charset=utf-8": true, "application/x-www-form-urlencoded": true,
		"application/json-rpc": true, "text/JSON": true, "application/json, application/json": true, "application/json charset=utf-8": true,
		"application/vnd.api+json": true, `"application/json"`: true, "application/json/": true, "text/plain, application/json": true,
		"text/html": false, "application/octet-stream": false, "multipart/form-data; boundary=x": false, "application/jso": false, "js on": false,
	} {
		if got := mcp.MayHoldJSON(contentType); got != want {
			t.Errorf("%q: %v", contentType, got)
		}
	}
}

func TestBeginsLikeJSON(t *testing.T) {
	for body, want := range map[string]string{
		"": "unknown", " \r\n\t": "unknown", "\x00": "unknown",
		"{": "yes", " \n[": "yes", "\xef\xbb\xbf": "yes", "\xff\xfe{\x00": "yes", "\xfe\xff\x00{": "yes", "\x00{": "yes",
		"grant_type=x": "no", "--x": "no", `"a"`: "no", "<": "no", "7": "no", "\x1f\x8b": "no",
	} {
		got := "unknown"
		if is, known := mcp.BeginsLikeJSON([]byte(body)); known {
			got = map[bool]string{true: "yes", false: "no"}[is]
		}
		if got != want {
			t.Errorf("%q: %s, expected %s", body, got, want)
		}
	}
}
