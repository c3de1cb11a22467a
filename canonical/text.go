package canonical

import (
	"math/bits"
	"unicode/utf8"
)

// readQuoted reads the string whose opening quote is at i. If it has escapes, text
// is where its decoded text begins in d.text, which then ends with it; else it is none.
// d.lone then is the offset of the first escape in it that is half of a surrogate pair
// alone, or none.
func (d *Doc) readQuoted(i int) (end, text int, reason Reason) {
	end = skipPlain(d.src, i+1)
	if end < len(d.src) && d.src[end] == '"' {
		return end + 1, none, NoReason
	}
	return d.readQuotedFrom(i+1, end)
}

// readQuotedFrom goes on at the first byte that is not plain.
func (d *Doc) readQuotedFrom(start, i int) (end, text int, reason Reason) {
	src := d.src
	text = none
	for i < len(src) {
		switch c := src[i]; {
		case c == '"':
			if text != none {
				d.text = append(d.text, src[start:i]...)
			}
			return i + 1, text, NoReason
		case c == '\\':
			if text == none {
				text = len(d.text)
			}
			d.text = append(d.text, src[start:i]...)
			r, next, reason := unescape(src, i)
			if reason != NoReason {
				return next, text, reason
			}
			if isSurrogate(r) {
				if d.lone == none {
					d.lone = i
				}
				d.text = appendSurrogate(d.text, r)
			} else {
				d.text = utf8.AppendRune(d.text, r)
			}
			start, i = next, next
		case c < ' ':
			return i, text, ControlCharacter
		default:
			r, size := utf8.DecodeRune(src[i:])
			if r == utf8.RuneError && size == 1 {
				return i, text, NotUTF8
			}
			i += size
			continue
		}
		i = skipPlain(src, i)
	}
	return i, text, WantQuote
}

// unescape reads the escape whose backslash is at i, with both halves of a
// surrogate pair; one half alone is r itself.
func unescape(src []byte, i int) (r rune, end int, reason Reason) {
	if i+1 == len(src) {
		return 0, i + 1, WantEscape
	}
	switch c := src[i+1]; c {
	case '"', '\\', '/':
		return rune(c), i + 2, NoReason
	case 'n':
		return '\n', i + 2, NoReason
	case 't':
		return '\t', i + 2, NoReason
	case 'r':
		return '\r', i + 2, NoReason
	case 'b':
		return '\b', i + 2, NoReason
	case 'f':
		return '\f', i + 2, NoReason
	case 'u':
	default:
		return 0, i + 1, WantEscape
	}
	r, end, reason = readHex(src, i+2)
	if reason == NoReason && r >= 0xd800 && r < 0xdc00 && end+1 < len(src) && src[end] == '\\' && src[end+1] == 'u' {
		low, lowEnd, lowReason := readHex(src, end+2)
		if lowReason == NoReason && low >= 0xdc00 && low <= 0xdfff {
			return 0x10000 + (r-0xd800)<<10 + (low - 0xdc00), lowEnd, NoReason
		}
	}
	return r, end, reason
}

func isSurrogate(r rune) bool { return r >= 0xd800 && r <= 0xdfff }

// appendSurrogate appends half of a surrogate pair in the three bytes that UTF-8 would
// have for it if it allowed it (known as WTF-8). No other text has them: read from
// bytes they are ill-formed, and the two halves of a pair never come one by one.
func appendSurrogate(dst []byte, r rune) []byte {
	return append(dst, 0xed, byte(0x80|r>>6&0x3f), byte(0x80|r&0x3f))
}

func readHex(src []byte, i int) (r rune, end int, reason Reason) {
	for end = i; end < i+4; end++ {
		if end == len(src) {
			return 0, end, WantHex
		}
		switch c := src[end]; {
		case c-'0' <= 9:
			r = r<<4 | rune(c-'0')
		case c|0x20-'a' <= 5:
			r = r<<4 | rune(c|0x20-'a'+10)
		default:
			return 0, end, WantHex
		}
	}
	return r, end, NoReason
}

// Eight bytes are looked at in one step. For each test below, the lowest byte that
// is marked (in its top bit) is one that passes the test; marks above it may be
// wrong, since a subtraction borrows only from bytes above one that passes.
const (
	ones  = 0x0101010101010101
	tops  = 0x80 * ones
	space = ' ' * ones
	quote = '"' * ones
	slash = '\\' * ones
)

func load(b []byte) uint64 {
	_ = b[7]
	return uint64(b[0]) | uint64(b[1])<<8 | uint64(b[2])<<16 | uint64(b[3])<<24 |
		uint64(b[4])<<32 | uint64(b[5])<<40 | uint64(b[6])<<48 | uint64(b[7])<<56
}

// skipPlain returns the offset of the first byte at or behind i that is a quote, a
// backslash, a control character, or not ASCII.
func skipPlain(src []byte, i int) int {
	for i+8 <= len(src) {
		x := load(src[i : i+8])
		marks := (x | (x - space) | ((x ^ quote) - ones) | ((x ^ slash) - ones)) & tops
		if marks != 0 {
			return i + bits.TrailingZeros64(marks)>>3
		}
		i += 8
	}
	for i < len(src) {
		if c := src[i]; c < ' ' || c == '"' || c == '\\' || c >= 0x80 {
			break
		}
		i++
	}
	return i
}

// skipCopied returns the offset of the first byte at or behind i that RFC 8785
// escapes: a quote, a backslash or a control character.
func skipCopied(s []byte, i int) int {
	for i+8 <= len(s) {
		x := load(s[i : i+8])
		q, b := x^quote, x^slash
		marks := ((x-space)&^x | (q-ones)&^q | (b-ones)&^b) & tops
		if marks != 0 {
			return i + bits.TrailingZeros64(marks)>>3
		}
		i += 8
	}
	for i < len(s) && s[i] >= ' ' && s[i] != '"' && s[i] != '\\' {
		i++
	}
	return i
}

// appendLone is AppendString for a text that holds halves of surrogate pairs alone: they
// are escaped in lower case, as ECMA-262's JSON.stringify does. A backslash in s is
// written as two, so no other text gives the same.
func appendLone(dst, s []byte) []byte {
	const hex = "0123456789abcdef"
	dst = append(dst, '"')
	for i := 0; i < len(s); i++ {
		switch c := s[i]; {
		case c == 0xed && s[i+1] >= 0xa0:
			dst = append(dst, '\\', 'u', 'd', hex[s[i+1]>>2&15], hex[s[i+1]<<2&12|s[i+2]>>4&3], hex[s[i+2]&15])
			i += 2
		case c < ' ', c == '"', c == '\\':
			dst = appendEscape(dst, c)
		default:
			dst = append(dst, c)
		}
	}
	return append(dst, '"')
}

// AppendString appends s, which must be well-formed UTF-8, as a JSON string with
// the escapes of RFC 8785 section 3.2.2.2, and returns the extended buffer. Bytes
// that are not UTF-8 are copied as they are.
func AppendString(dst, s []byte) []byte {
	dst = append(dst, '"')
	start := 0
	for {
		i := skipCopied(s, start)
		dst = append(dst, s[start:i]...)
		if i == len(s) {
			return append(dst, '"')
		}
		dst = appendEscape(dst, s[i])
		start = i + 1
	}
}

func appendEscape(dst []byte, c byte) []byte {
	const hex = "0123456789abcdef"
	switch c {
	case '"', '\\':
		return append(dst, '\\', c)
	case '\b':
		return append(dst, '\\', 'b')
	case '\t':
		return append(dst, '\\', 't')
	case '\n':
		return append(dst, '\\', 'n')
	case '\f':
		return append(dst, '\\', 'f')
	case '\r':
		return append(dst, '\\', 'r')
	}
	return append(dst, '\\', 'u', '0', '0', hex[c>>4], hex[c&15])
}
