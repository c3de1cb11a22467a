package mcp_test

import (
	"encoding/base64"
	"strings"
	"testing"

	"github.com/callonce/callonce/plugin/internal/mcp"
)

func TestContentType(t *testing.T) {
	for _, c := range []struct {
		value        string
		json, events bool
	}{
		{"application/json", true, false},
		{"Application/JSON", true, false},
		{"application/json; charset=utf-8", true, false},
		{"application/json;charset=\"utf-8\";x=y", true, false},
		{"\t application/json \t; a=b", true, false},
		{"application/json;", true, false},
		{"text/event-stream", false, true},
		{"TEXT/Event-Stream;charset=utf-8", false, true},
		{"", false, false},
		{";application/json", false, false},
		{"application/jsonx", false, false},
		{"application/json-rpc", false, false},
		{"application/problem+json", false, false},
		{"application/json, text/plain", false, false},
		{"application/json text/event-stream", false, false},
		{"text/json", false, false},
		{"text/plain", false, false},
		{"text/plain; a=application/json", false, false},
		{"application /json", false, false},
		{"\"application/json\"", false, false},
		// Types are compared as ASCII: Unicode would fold the long s.
		{"application/j\u017fon", false, false},
		{"text/event-\u017ftream", false, false},
	} {
		if got := mcp.IsJSON(c.value); got != c.json {
			t.Errorf("IsJSON(%q) = %v", c.value, got)
		}
		if got := mcp.IsEventStream(c.value); got != c.events {
			t.Errorf("IsEventStream(%q) = %v", c.value, got)
		}
	}
}

func TestContentEncoding(t *testing.T) {
	for value, want := range map[string]bool{
		"":                   true,
		" ":                  true,
		"identity":           true,
		"Identity":           true,
		"identity, IDENTITY": true,
		", identity ,\t":     true,
		"gzip":               false,
		"identity, gzip":     false,
		"gzip, identity":     false,
		"br":                 false,
		"identity;q=1":       false,
		"x-identity":         false,
		"\u0131dentity":      false,
	} {
		if got := mcp.IsIdentity(value); got != want {
			t.Errorf("IsIdentity(%q) = %v", value, got)
		}
	}
}

func TestAccept(t *testing.T) {
	for value, want := range map[string]bool{
		"text/event-stream":                            true,
		"Text/Event-Stream":                            true,
		"text/event-stream;q=0.5":                      true,
		"text/event-stream, text/html":                 true,
		" ,text/event-stream\t,":                       true,
		"text/*":                                       true,
		"text/*;q=0.1, image/png":                      true,
		"application/json;q=0, text/event-stream":      true,
		"text/event-stream, application/json; Q=0.000": true,
		"application/json;q=0, */*":                    true,
		"application/*;q=0, */*":                       true,
		"application/j\u017fon, text/event-stream":     true,
		"":                                    false,
		"*/*":                                 false,
		"application/json":                    false,
		"application/json, text/event-stream": false,
		"text/event-stream, application/json": false,
		"text/event-stream, APPLICATION/JSON": false,
		"text/event-stream;q=1, application/json;q=0.001":   false,
		"text/event-stream, application/*":                  false,
		"text/event-stream, */*;q=0.1":                      false,
		"*/*;q=0, application/json":                         false,
		"application/*;q=0, application/json;q=0.5, text/*": false,
		"text/html":                                              false,
		"text/event-stream;q=0":                                  false,
		"text/event-stream;q=0, text/*":                          false,
		"application/json;q=0, text/event-stream;q=0":            false,
		"application/json;charset=utf-8;q=0.9,text/event-stream": false,
		"application/json;q, text/event-stream":                  false,
	} {
		if got := mcp.OnlyEvents(value); got != want {
			t.Errorf("OnlyEvents(%q) = %v", value, got)
		}
	}
}

// Case 20, and RFC 8941 section 3.3.3.
func TestHeaderKey(t *testing.T) {
	long := strings.Repeat("k", 255)
	for _, c := range []struct {
		line, key string // key "" = refused
	}{
		{`abc`, `abc`},
		{`"abc"`, `abc`},
		{` abc`, `abc`},
		{"\t\"abc\" ", `abc`},
		{`8e03978e-40d5-43dd-bc93-6894a57f9324`, `8e03978e-40d5-43dd-bc93-6894a57f9324`},
		{`!~`, `!~`},
		{`a,b;c=d`, `a,b;c=d`},
		{`a"b`, `a"b`},
		{`"a\"b"`, `a"b`},
		{`abc"`, `abc"`},
		{`a\b`, `a\b`},
		{`"a\\b"`, `a\b`},
		{`"\""`, `"`},
		{`"\\"`, `\`},
		{`'abc'`, `'abc'`},
		{long, long},
		{`"` + long + `"`, long},
		{`"\"` + long[1:] + `"`, `"` + long[1:]},

		{``, ``},
		{` `, ``},
		{`""`, ``},
		{`"`, ``},
		{long + "k", ``},
		{`"` + long + `k"`, ``},
		{"a\tb", ``},
		{"a b", ``},
		{`"a b"`, ``},
		{"\"a\tb\"", ``},
		{"a\nb", ``},
		{"a\x00b", ``},
		{"a\x7fb", ``},
		{"é", ``},
		{"\xe9", ``},
		{`"é"`, ``},
		{`"abc`, ``},
		{`"a"b"`, ``},
		{`"abc\"`, ``},
		{`"a\bc"`, ``},
		{`"\`, ``},
		// Parameters behind the string (section 3.1.2).
		{`"abc";p=1`, `abc`},
		{`"abc";p="x"`, `abc`},
		{`"abc";p`, `abc`},
		{`"abc"; p;  q=?0;*r=-1.125`, `abc`},
		{`"abc";a-b.c_d*=t/o:k!en;e=*`, `abc`},
		{`"abc";b=:aGk=:;c=::`, `abc`},
		{`"abc";p="a\"b;c=\\"`, `abc`},
		{`"a;b";p=1`, `a;b`},
		{`"abc";p=999999999999999;q=999999999999.999`, `abc`},
		{`"abc";`, ``},
		{`"abc" ;p=1`, ``},
		{`"abc";p =1`, ``},
		{`"abc";p= 1`, ``},
		{`"abc";p=`, ``},
		{`"abc";P=1`, ``},
		{`"abc";1=1`, ``},
		{`"abc";p=1.`, ``},
		{`"abc";p=1.1234`, ``},
		{`"abc";p=1e3`, ``},
		{`"abc";p=-`, ``},
		{`"abc";p=1000000000000000`, ``},
		{`"abc";p=1000000000000.5`, ``},
		{`"abc";p="x`, ``},
		{`"abc";p="\a"`, ``},
		{`"abc";p=?2`, ``},
		{`"abc";p=?`, ``},
		{`"abc";p=:aGk=`, ``},
		{`"abc";p=:a k:`, ``},
		{`"abc";p=(1 2)`, ``},
		{`"abc";p=a b`, ``},
		{`"abc";p=1, "abc"`, ``},
		{`"abc";p="é"`, ``},
		{`"abc"p=1`, ``},
		{`"abc" "def"`, ``},
		{`"abc", "abc"`, ``},
		{`abc, abc`, ``},
	} {
		key, ok := mcp.HeaderKey(c.line)
		if ok != (c.key != "") || key != c.key {
			t.Errorf("HeaderKey(%q) = %q, %v, want %q", c.line, key, ok, c.key)
		}
	}
}

// Every key that a header can carry is the same key bare and quoted; every byte that is
// not visible ASCII is refused.
func TestHeaderKeyEveryByte(t *testing.T) {
	quote := strings.NewReplacer(`"`, `\"`, `\`, `\\`)
	for c := range 256 {
		want := "k" + string([]byte{byte(c)}) + "k"
		bare, ok := mcp.HeaderKey(want)
		quoted, quotedOK := mcp.HeaderKey(`"` + quote.Replace(want) + `"`)
		visible := c > 0x20 && c < 0x7f
		if ok != visible || quotedOK != visible || visible && (bare != want || quoted != want) {
			t.Errorf("%q: %q %v bare, %q %v quoted", want, bare, ok, quoted, quotedOK)
		}
	}
}

// The encoding of MCP 2026-07-28: the markers are exact, what is not wholly wrapped is
// literal, and one name has one encoding.
func TestRoutingName(t *testing.T) {
	for _, c := range []struct {
		value, name string
		ok          bool
	}{
		{"pay", "pay", true},
		{"", "", true},
		{" pay", " pay", true},
		{"=?base64?cGF5?=", "pay", true},
		{"=?base64?5pel5pys6Kqe?=", "日本語", true},
		{"=?base64?IHBheQ==?=", " pay", true},
		{"=?base64??=", "", true},
		{"=?base64?" + base64.StdEncoding.EncodeToString([]byte("=?base64?x?=")) + "?=", "=?base64?x?=", true},
		{"=?BASE64?cGF5?=", "=?BASE64?cGF5?=", true},
		{"=?Base64?cGF5?=", "=?Base64?cGF5?=", true},
		{"=?base64?cGF5", "=?base64?cGF5", true},
		{"=?base64?cGF5?", "=?base64?cGF5?", true},
		{"cGF5?=", "cGF5?=", true},
		{"=?base64?", "=?base64?", true},
		{"=?base64?=", "=?base64?=", true},
		{"=?utf-8?B?cGF5?=", "=?utf-8?B?cGF5?=", true},

		{"=?base64?cGF5IQ?=", "", false},   // padding missing
		{"=?base64?cGF5IR==?=", "", false}, // bits behind the last byte
		{"=?base64?cG!5?=", "", false},
		{"=?base64?cG F5?=", "", false},
		{"=?base64?cG\nF5?=", "", false},
		{"=?base64?-_-_?=", "", false}, // another alphabet
		{"=?base64?gA==?=", "", false}, // not UTF-8
		{"=?base64?cGF5?=?=", "", false},
	} {
		name, ok := mcp.RoutingName(c.value)
		if ok != c.ok || ok && name != c.name {
			t.Errorf("RoutingName(%q) = %q, %v, want %q, %v", c.value, name, ok, c.name, c.ok)
		}
	}
}
