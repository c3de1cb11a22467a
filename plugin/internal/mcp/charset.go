package mcp

import "strings"

// Charset is what a Content-Type says of how a body's bytes are to be read.
type Charset uint8

const (
	// UTF8: it names no charset, or UTF-8.
	UTF8 Charset = iota
	// LikeASCII: it names one in which the bytes below 0x80 are ASCII's. A body of such bytes
	// alone is the same text as in UTF-8.
	LikeASCII
	// OtherCharset: any other, also one of which nobody knows.
	OtherCharset
)

// likeASCII are charsets in which each byte below 0x80, where none above precedes it,
// stands for the ASCII character of that number, by every decoder that is in use: the
// families that end in a star, and others by their names in the IANA registry and the
// WHATWG's Encoding standard. Not among them, although they look alike: UTF-7, HZ and
// ISO-2022-* (ASCII bytes that stand for other characters), UTF-16, UTF-32 and EBCDIC (no
// ASCII at all), and Shift_JIS, Johab and ISO-646-*, where some decoders make a currency
// sign of the backslash, and so other strings of JSON's escapes.
var likeASCII = []string{
	"us-ascii", "ascii", "ansi_x3.4-1968", "iso646-us", "iso-8859-*", "iso8859-*", "iso_8859-*", "latin1", "l1",
	"windows-125*", "cp125*", "windows-874", "tis-620", "koi8-r", "koi8-u", "ibm866", "cp866", "macintosh", "x-mac-cyrillic",
	"gbk", "gb2312", "gb18030", "big5", "euc-jp", "euc-kr",
}

// CharsetOf reads a Content-Type. Servers exist that decode a JSON body by its charset
// (UTF-7 among them) and so read another text than its bytes show. Parameters are taken
// apart at every semicolon, also a quoted one: that finds each charset that any reader
// could find, and the worst of them counts.
func CharsetOf(contentType string) (worst Charset) {
	_, rest, more := strings.Cut(contentType, ";")
	for more {
		var p string
		p, rest, more = strings.Cut(rest, ";")
		name, value, _ := strings.Cut(trim(p), "=")
		if len(name) < len("charset") || !equalFold(name[:len("charset")], "charset") {
			continue
		}
		value = trim(value)
		if len(value) > 1 && value[0] == '"' && value[len(value)-1] == '"' {
			value = value[1 : len(value)-1]
		}
		switch {
		case !equalFold(trim(name), "charset"):
			return OtherCharset
		case equalFold(value, "utf-8") || equalFold(value, "utf8"):
		case isLikeASCII(value):
			worst = LikeASCII
		default:
			return OtherCharset
		}
	}
	return worst
}

func isLikeASCII(charset string) bool {
	for _, known := range likeASCII {
		family, open := strings.CutSuffix(known, "*")
		if !open && equalFold(charset, known) {
			return true
		}
		// What follows a family's name is its number: iso-8859-8-i and -e differ in the order of
		// writing only.
		if open && len(charset) > len(family) && equalFold(charset[:len(family)], family) && isDigits(charset[len(family):]) {
			return true
		}
	}
	return false
}

func isDigits(s string) bool { return len(s) <= 2 && strings.Trim(s, "0123456789") == "" }

// IsASCII reports whether a body has no byte above 0x7f.
func IsASCII(body []byte) bool {
	for _, c := range body {
		if c >= 0x80 {
			return false
		}
	}
	return true
}
