package canonical

import (
	"math/bits"
	"unicode/utf8"
)

// readText goes on with a string at its first byte that is not plain, and returns what
// is behind its closing quote, and verbatim if its bytes are their own canonical form,
// escaped if it has escapes, lone if one of them is half of a surrogate pair alone;
// d.lone then is the offset of the first such.
func (d *Doc) readText(i int) (end int, f flags, reason Reason) {
	src := d.src
	f = verbatim
	d.lone = none
	for i < len(src) {
		switch c := src[i]; {
		case c == '"':
			return i + 1, f, NoReason
		case c == '\\':
			f |= escaped
			if i+1 < len(src) && isShort(src[i+1]) {
				i += 2
				break
			}
			r, next, reason := unescape(src, i)
			if reason != NoReason {
				return next, f, reason
			}
			if isSurrogate(r) {
				if d.lone == none {
					d.lone = i
				}
				f |= lone
			}
			if !isCanonical(src[i:next], r) {
				f &^= verbatim
			}
			i = next
		case c < ' ':
			return i, f, ControlCharacter
		default:
			if i = skipRunes(src, i); i < len(src) && src[i] >= 0x80 {
				return i, f, NotUTF8
			}
		}
		i = skipPlain(src, i)
	}
	return i, f, WantQuote
}

// isShort reports whether a backslash and c are the canonical form of what they stand
// for.
func isShort(c byte) bool {
	switch c {
	case '"', '\\', 'b', 'f', 'n', 'r', 't':
		return true
	}
	return false
}

// isCanonical reports whether an escape that is not short is the canonical form of r: it
// is that of a control character that has no short one, in lower case.
func isCanonical(escape []byte, r rune) bool {
	if r >= ' ' || '\b' <= r && r <= '\r' && r != '\v' {
		return false
	}
	last := escape[len(escape)-1]
	return last < 'A' || last > 'F'
}

// skipRunes returns the offset of the first byte at or behind i that is ASCII, or not
// well-formed UTF-8.
func skipRunes(src []byte, i int) int {
	for i < len(src) && src[i] >= 0x80 {
		// Most characters are two or three bytes, of which all but the first can be any.
		switch c := src[i]; {
		case c >= 0xe1 && c != 0xed && c <= 0xef && i+2 < len(src) && src[i+1]&0xc0 == 0x80 && src[i+2]&0xc0 == 0x80:
			i += 3
		case c >= 0xc2 && c <= 0xdf && i+1 < len(src) && src[i+1]&0xc0 == 0x80:
			i += 2
		default:
			r, size := utf8.DecodeRune(src[i:])
			if r == utf8.RuneError && size == 1 {
				return i
			}
			i += size
		}
	}
	return i
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

// appendDecoded appends the text of token, a string with its quotes that was read
// before.
func appendDecoded(dst, token []byte) []byte {
	start := 1
	for {
		i := skipCopied(token, start)
		dst = append(dst, token[start:i]...)
		if token[i] == '"' {
			return dst
		}
		var r rune
		if r, start, _ = unescape(token, i); isSurrogate(r) {
			dst = appendSurrogate(dst, r)
		} else {
			dst = utf8.AppendRune(dst, r)
		}
	}
}

// appendText appends the canonical form of token, a string with its quotes that was read
// before. Half of a surrogate pair alone is escaped in lower case, as ECMA-262's
// JSON.stringify does.
func appendText(dst, token []byte) []byte {
	const hex = "0123456789abcdef"
	start, i := 0, 1 // what is before start is written
	for {
		i = skipCopied(token, i)
		if token[i] == '"' {
			return append(dst, token[start:]...)
		}
		if isShort(token[i+1]) {
			i += 2
			continue
		}
		r, next, _ := unescape(token, i)
		dst = append(dst, token[start:i]...)
		switch start, i = next, next; {
		case isSurrogate(r):
			dst = append(dst, '\\', 'u', 'd', hex[r>>8&15], hex[r>>4&15], hex[r&15])
		case r < ' ' || r == '"' || r == '\\':
			dst = appendEscape(dst, byte(r))
		default:
			dst = utf8.AppendRune(dst, r)
		}
	}
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
