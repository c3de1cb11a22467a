package mcp

import (
	"encoding/base64"
	"strings"
)

// IsJSON reports whether a Content-Type is application/json: any parameters, any
// case (RFC 9110 section 8.3.1).
func IsJSON(contentType string) bool { return isType(contentType, "application/json") }

// IsEventStream reports whether a Content-Type is text/event-stream.
func IsEventStream(contentType string) bool { return isType(contentType, "text/event-stream") }

func isType(contentType, want string) bool {
	if i := strings.IndexByte(contentType, ';'); i >= 0 {
		contentType = contentType[:i]
	}
	return strings.EqualFold(strings.Trim(contentType, " \t"), want)
}

// IsIdentity reports whether a Content-Encoding changes nothing.
func IsIdentity(encoding string) bool {
	for _, e := range strings.Split(encoding, ",") {
		if e = strings.Trim(e, " \t"); e != "" && !strings.EqualFold(e, "identity") {
			return false
		}
	}
	return true
}

// OnlyEvents reports whether a client takes event streams and no JSON.
func OnlyEvents(accept string) bool {
	events := false
	for _, a := range strings.Split(accept, ",") {
		if i := strings.IndexByte(a, ';'); i >= 0 {
			a = a[:i]
		}
		switch a = strings.ToLower(strings.Trim(a, " \t")); a {
		case "text/event-stream":
			events = true
		case "application/json", "application/*", "*/*":
			return false
		}
	}
	return events
}

// HeaderKey reads a key out of one header line: 1 to 255 visible ASCII characters,
// bare or as a quoted string of RFC 8941, which is the same key.
func HeaderKey(line string) (key string, ok bool) {
	line = strings.Trim(line, " \t")
	if strings.HasPrefix(line, `"`) {
		line, ok = unquote(line)
		if !ok {
			return "", false
		}
	}
	if len(line) < 1 || len(line) > MaxKey {
		return "", false
	}
	for i := 0; i < len(line); i++ {
		if line[i] <= ' ' || line[i] > '~' {
			return "", false
		}
	}
	return line, true
}

// unquote reads an sf-string of RFC 8941 section 3.3.3 without parameters.
func unquote(s string) (string, bool) {
	if len(s) < 2 || s[len(s)-1] != '"' {
		return "", false
	}
	s = s[1 : len(s)-1]
	if strings.IndexByte(s, '"') < 0 && strings.IndexByte(s, '\\') < 0 {
		return s, true
	}
	out := make([]byte, 0, len(s))
	for i := 0; i < len(s); i++ {
		switch s[i] {
		case '"':
			return "", false
		case '\\':
			i++
			if i == len(s) || s[i] != '"' && s[i] != '\\' {
				return "", false
			}
		}
		out = append(out, s[i])
	}
	return string(out), true
}

// RoutingName decodes an Mcp-Name header, which carries a name that does not fit a
// header as =?base64?…?= (MCP 2026-07-28). ok is false for a broken encoding.
func RoutingName(value string) (name string, ok bool) {
	inner, found := strings.CutPrefix(value, "=?base64?")
	if !found {
		return value, true
	}
	inner, found = strings.CutSuffix(inner, "?=")
	if !found {
		return "", false
	}
	b, err := base64.StdEncoding.DecodeString(inner)
	return string(b), err == nil
}
