package mcp

import (
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

// compare compares a name with a pointer's reference token, exactly and but for case.
func compare(name []byte, token string) (exact, folded bool) {
	exact = true
	for len(token) > 0 {
		if len(name) > 0 && name[0] < utf8.RuneSelf && token[0] < utf8.RuneSelf && token[0] != '~' {
			// Both ASCII, as most are: without a call.
			if c := token[0]; name[0] != c {
				if exact = false; name[0]|0x20 != c|0x20 || c|0x20-'a' > 'z'-'a' {
					return false, false
				}
			}
			name, token = name[1:], token[1:]
			continue
		}
		want, size := tokenRune(token)
		token = token[size:]
		found, size := utf8.DecodeRune(name)
		if size == 0 || !sameBut(found, want) {
			return false, false
		}
		exact = exact && found == want
		name = name[size:]
	}
	return exact && len(name) == 0, len(name) == 0
}

// tokenRune gives the first character of what a reference token stands for (RFC 6901, section
// 4), and how many bytes of the token it takes.
func tokenRune(token string) (c rune, size int) {
	c, size = utf8.DecodeRuneInString(token)
	if c == '~' && len(token) > 1 {
		if size = 2; token[1] == '1' {
			c = '/'
		}
	}
	return c, size
}

// spelt reports whether a string somewhere in a text is a name, whatever the text is.
func spelt(body []byte, token string) bool {
	for i, c := range body {
		if c != '"' && c != '\'' {
			if (c == '{' || c == ',') && speltBare(body[i+1:], token) {
				return true
			}
			continue
		}
		rest := body[i+1:]
		if n := matches(rest, token); n >= 0 {
			if n = skipNoise(rest, n); n < len(rest) && rest[n] == c {
				return true
			}
		}
	}
	return false
}

// speltBare reports whether a text goes on with a name without quotes, as JavaScript has them.
func speltBare(rest []byte, token string) bool {
	rest = rest[skipSpace(rest, 0):]
	n := matches(rest, token)
	if n < 0 {
		return false
	}
	n = skipSpace(rest, n)
	return n < len(rest) && rest[n] == ':'
}

// matches gives how many bytes at the beginning of what stands between a string's quotes
// are a name, but for case; -1 if they are not. token is a pointer's reference token.
func matches(spelled []byte, token string) int {
	i := 0
	for len(token) > 0 {
		want, size := tokenRune(token)
		token = token[size:]
		i = skipNoise(spelled, i)
		found, size := character(spelled[i:])
		if size == 0 || !sameBut(found, want) {
			return -1
		}
		i += size
	}
	return i
}

// skipNoise skips what lenient readers drop: bytes that are no UTF-8, halves of surrogate
// pairs, control characters. So a name is found in UTF-16 and UTF-32 too.
func skipNoise(s []byte, i int) int {
	for i < len(s) {
		c, size := character(s[i:])
		if !isNoise(c, size, s[i]) {
			break
		}
		i += size
	}
	return i
}

func isNoise(c rune, size int, first byte) bool {
	return size == 1 && c == utf8.RuneError || first < ' ' || size > 0 && utf16.IsSurrogate(c)
}

// isClean reports whether there is no such thing in what stands between a string's quotes.
func isClean(s []byte) bool {
	for i := 0; i < len(s); {
		c, size := character(s[i:])
		if size == 0 || isNoise(c, size, s[i]) {
			return false
		}
		i += size
	}
	return true
}

// character reads one character of a string, escaped or not. size is 0 where none is.
func character(s []byte) (c rune, size int) {
	if len(s) < 2 || s[0] != '\\' {
		return utf8.DecodeRune(s)
	}
	if s[1] == 'x' && len(s) > 3 && hexDigit(s[2]) >= 0 && hexDigit(s[3]) >= 0 { // JavaScript's, no JSON
		return hexDigit(s[2])<<4 | hexDigit(s[3]), 4
	}
	if s[1] != 'u' {
		if i := strings.IndexByte(`bfnrt`, s[1]); i >= 0 {
			return rune("\b\f\n\r\t"[i]), 2
		}
		return rune(s[1]), 2
	}
	c = unit(s)
	if c < 0 {
		return 0, 0
	}
	if pair := utf16.DecodeRune(c, unit(s[6:])); pair != unicode.ReplacementChar {
		return pair, 12
	}
	return c, 6
}

// unit is the code unit that the escape at the beginning of s stands for, -1 if none does.
func unit(s []byte) (u rune) {
	if len(s) < 6 || s[0] != '\\' || s[1] != 'u' {
		return -1
	}
	for _, c := range s[2:6] {
		digit := hexDigit(c)
		if digit < 0 {
			return -1
		}
		u = u<<4 | digit
	}
	return u
}

// hexDigit is the value of a hexadecimal digit, -1 if c is none.
func hexDigit(c byte) rune {
	switch {
	case c-'0' <= 9:
		return rune(c - '0')
	case c|0x20-'a' <= 5:
		return rune(c | 0x20 - 'a' + 10)
	}
	return -1
}

// sameBut compares two characters but for case (Unicode simple folding).
func sameBut(a, b rune) bool {
	if a == b {
		return true
	}
	if a < 0x80 && b < 0x80 {
		return a|0x20 == b|0x20 && a|0x20 >= 'a' && a|0x20 <= 'z'
	}
	for f := unicode.SimpleFold(a); f != a; f = unicode.SimpleFold(f) {
		if f == b {
			return true
		}
	}
	return false
}
