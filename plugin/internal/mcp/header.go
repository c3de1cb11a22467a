package mcp

import (
	"encoding/base64"
	"strings"
	"unicode/utf8"
)

const (
	typeJSON   = "application/json"
	typeEvents = "text/event-stream"
)

// IsJSON reports whether a Content-Type is application/json: any parameters, any
// case (RFC 9110 section 8.3.1).
func IsJSON(contentType string) bool { return isType(contentType, typeJSON) }

// MayHoldJSON reports whether a Content-Type that is not application/json is one under which
// callers send JSON all the same and some servers read it: any that speaks of JSON, a list in
// which it stands, plain text, the form that curl says by itself, or none.
func MayHoldJSON(contentType string) bool {
	const form = "application/x-www-form-urlencoded"
	if trim(contentType) == "" || isType(contentType, "text/plain") || isType(contentType, form) {
		return true
	}
	for i := 0; i+len("json") <= len(contentType); i++ {
		if equalFold(contentType[i:i+len("json")], "json") {
			return true
		}
	}
	return false
}

// BeginsLikeJSON looks at the beginning of a body, in whatever encoding. known is false where
// nothing but white space has come.
func BeginsLikeJSON(body []byte) (is, known bool) {
	for _, c := range body {
		switch c {
		case ' ', '\t', '\n', '\r', 0: // 0: of UTF-16 and UTF-32
			continue
		}
		return c == '{' || c == '[' || c == byteOrderMark[0] || c == 0xFE || c == 0xFF, true
	}
	return false, false
}

// IsEventStream reports whether a Content-Type is text/event-stream.
func IsEventStream(contentType string) bool { return isType(contentType, typeEvents) }

func isType(contentType, want string) bool {
	if contentType == want {
		return true
	}
	name, _, _ := strings.Cut(contentType, ";")
	return equalFold(trim(name), want)
}

// trim removes the optional white space of RFC 9110 section 5.6.3.
func trim(s string) string {
	for len(s) > 0 && (s[0] == ' ' || s[0] == '\t') {
		s = s[1:]
	}
	for len(s) > 0 && (s[len(s)-1] == ' ' || s[len(s)-1] == '\t') {
		s = s[:len(s)-1]
	}
	return s
}

// equalFold compares with an ASCII word but for case. What Unicode folds to an ASCII
// letter takes more bytes than the letter.
func equalFold(s, word string) bool {
	return len(s) == len(word) && (s == word || strings.EqualFold(s, word))
}

// IsIdentity reports whether a Content-Encoding changes nothing.
func IsIdentity(encoding string) bool {
	for more := encoding != ""; more; {
		var e string
		e, encoding, more = strings.Cut(encoding, ",")
		if e = trim(e); e != "" && !equalFold(e, "identity") {
			return false
		}
	}
	return true
}

// OnlyEvents reports whether a client takes event streams and no JSON (RFC 9110
// section 12.5.1). A client that says nothing takes either.
func OnlyEvents(accept string) bool {
	if accept == usualAccept {
		return false
	}
	return takes(accept, typeEvents) && !takes(accept, typeJSON)
}

// usualAccept is what the protocol tells clients to send.
const usualAccept = typeJSON + ", " + typeEvents

// takes reports whether one of the ranges of an Accept header fits a type; the most
// specific one decides, and weight 0 means that it is not wanted.
func takes(accept, want string) bool {
	family, _, _ := strings.Cut(want, "/")
	best, taken := 0, false
	for more := true; more; {
		var a string
		a, accept, more = strings.Cut(accept, ",")
		fit := 0
		switch {
		case isType(a, want):
			fit = 3
		case isFamily(a, family):
			fit = 2
		case isType(a, "*/*"):
			fit = 1
		}
		if fit > best {
			best, taken = fit, !unwanted(a)
		}
	}
	return taken
}

// isFamily reports whether a media range is family/*.
func isFamily(mediaRange, family string) bool {
	name, _, _ := strings.Cut(mediaRange, ";")
	name, all := strings.CutSuffix(trim(name), "/*")
	return all && equalFold(name, family)
}

// unwanted reports whether a media range has the weight 0.
func unwanted(mediaRange string) bool {
	for more := true; more; {
		var p string
		p, mediaRange, more = strings.Cut(mediaRange, ";")
		name, weight, _ := strings.Cut(trim(p), "=")
		if equalFold(name, "q") && weight != "" && strings.Trim(weight, "0.") == "" {
			return true
		}
	}
	return false
}

// RoutingName decodes an Mcp-Name header, which carries a name that does not fit a
// header as =?base64?…?= (MCP 2026-07-28, value encoding). The markers are exact; a
// value that lacks one of them is literal. ok is false for an encoding that is not the
// one of its name: no base64, no padding, bits behind the last byte, not UTF-8.
func RoutingName(value string) (name string, ok bool) {
	inner, found := strings.CutPrefix(value, "=?base64?")
	if !found {
		return value, true
	}
	inner, found = strings.CutSuffix(inner, "?=")
	if !found {
		return value, true
	}
	b, err := base64.StdEncoding.DecodeString(inner)
	if err != nil || !utf8.Valid(b) || base64.StdEncoding.EncodeToString(b) != inner {
		return "", false
	}
	return string(b), true
}
