package mcp_test

import (
	"testing"

	"github.com/callonce/callonce/plugin/internal/mcp"
)

// A server that honours a charset reads another text than we do. Only UTF-8 leaves one
// reading, and what is like ASCII where the body is, however the parameter is written.
func TestCharset(t *testing.T) {
	for contentType, want := range map[string]mcp.Charset{
		"":                                       mcp.UTF8,
		"application/json":                       mcp.UTF8,
		"application/json;":                      mcp.UTF8,
		"application/json; charset=utf-8":        mcp.UTF8,
		"application/json;CharSet = UTF-8 ":      mcp.UTF8,
		`application/json; charset="utf-8"; x=y`: mcp.UTF8,
		"application/json; charset=utf8":         mcp.UTF8,
		"application/json; x=utf-7":              mcp.UTF8,
		"application/json;charset=utf-8;q=1;charset=\"utf-8\"": mcp.UTF8,

		"application/json; charset=us-ascii":                      mcp.LikeASCII,
		"application/json; charset=ISO-8859-1":                    mcp.LikeASCII,
		`application/json; charset="iso-8859-15"`:                 mcp.LikeASCII,
		"application/json; charset=Windows-1252":                  mcp.LikeASCII,
		"application/json; charset=latin1":                        mcp.LikeASCII,
		"application/json; charset=cp1251":                        mcp.LikeASCII,
		"application/json; charset=gb18030":                       mcp.LikeASCII,
		"application/json; charset=euc-jp":                        mcp.LikeASCII,
		"application/json; charset=utf-8; charset=iso-8859-1":     mcp.LikeASCII,
		"application/json; charset=iso-8859-1; charset=\"utf-8\"": mcp.LikeASCII,

		"application/json; charset=utf-7":                     mcp.OtherCharset,
		"application/json; charset=utf-16":                    mcp.OtherCharset,
		"application/json; charset=utf-16le":                  mcp.OtherCharset,
		"application/json; charset=utf-32":                    mcp.OtherCharset,
		"application/json; charset=cp037":                     mcp.OtherCharset,
		"application/json; charset=ibm037":                    mcp.OtherCharset,
		"application/json; charset=cp1026":                    mcp.OtherCharset,
		"application/json; charset=iso-2022-jp":               mcp.OtherCharset,
		"application/json; charset=hz-gb-2312":                mcp.OtherCharset,
		"application/json; charset=shift_jis":                 mcp.OtherCharset,
		"application/json; charset=johab":                     mcp.OtherCharset,
		"application/json; charset=iso-646-gb":                mcp.OtherCharset,
		"application/json; charset=iso-8859-":                 mcp.OtherCharset,
		"application/json; charset=iso-8859-1x":               mcp.OtherCharset,
		"application/json; charset=x-unknown":                 mcp.OtherCharset,
		"application/json; charset=":                          mcp.OtherCharset,
		"application/json; charset":                           mcp.OtherCharset,
		"application/json; charset=utf-8; charset=utf-7":      mcp.OtherCharset,
		"application/json; charset=iso-8859-1; charset=utf-7": mcp.OtherCharset,
		"application/json; charset=utf-7; charset=utf-8":      mcp.OtherCharset,
		`application/json; charset="utf\-7"`:                  mcp.OtherCharset,
		`application/json; charset="utf-8;"`:                  mcp.OtherCharset,
		`application/json; x="; charset=utf-7`:                mcp.OtherCharset,
		"application/json; charset*=utf-8''utf-7":             mcp.OtherCharset,
		"application/json;\tcharset=utf-7":                    mcp.OtherCharset,
		"application/json; charset=\"utf-8":                   mcp.OtherCharset,
		"application/json; charset=utf-8, application/json":   mcp.OtherCharset,
		"application/json; charset=utf-8 charset=utf-7":       mcp.OtherCharset,
	} {
		if got := mcp.CharsetOf(contentType); got != want {
			t.Errorf("CharsetOf(%q) = %v, want %v", contentType, got, want)
		}
	}
}

func TestIsASCII(t *testing.T) {
	for body, want := range map[string]bool{"": true, "{}\x00\x7f": true, "\x80": false, `{"a":"é"}`: false} {
		if got := mcp.IsASCII([]byte(body)); got != want {
			t.Errorf("IsASCII(%q) = %v", body, got)
		}
	}
}
