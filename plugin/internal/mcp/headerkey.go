package mcp

import "strings"

// HeaderKey reads a key out of one header line: 1 to 255 visible ASCII characters,
// bare or as a quoted string of RFC 8941, which is the same key. The parameters that may
// stand behind a quoted string say nothing of the key; behind a bare one they are a part
// of it, since nobody says that it is not.
func HeaderKey(line string) (key string, ok bool) {
	line = trim(line)
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

// unquote reads an item of RFC 8941 section 3.3 that is a string, and gives the string.
func unquote(s string) (string, bool) {
	end := quotedEnd(s)
	if end < 0 || !areParameters(s[end:]) {
		return "", false
	}
	s = s[1 : end-1]
	if strings.IndexByte(s, '\\') < 0 {
		return s, true
	}
	out := make([]byte, 0, len(s))
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' {
			i++
		}
		out = append(out, s[i])
	}
	return string(out), true
}

// quotedEnd is the offset behind the sf-string (section 3.3.3) that s begins with, -1 for
// none.
func quotedEnd(s string) int {
	for i := 1; i < len(s); i++ {
		switch c := s[i]; {
		case c == '"':
			return i + 1
		case c < ' ' || c > '~':
			return -1
		case c == '\\':
			if i++; i == len(s) || s[i] != '"' && s[i] != '\\' {
				return -1
			}
		}
	}
	return -1
}

// areParameters reports whether a text is the parameters of an item (section 3.1.2),
// perhaps none.
func areParameters(s string) bool {
	for s != "" {
		if s[0] != ';' {
			return false
		}
		s = strings.TrimLeft(s[1:], " ")
		n := leading(s, isKeyCharacter)
		if n == 0 || s[0] != '*' && (s[0] < 'a' || s[0] > 'z') {
			return false
		}
		if s = s[n:]; s == "" || s[0] != '=' {
			continue // the value is true
		}
		if n = bareItemEnd(s[1:]); n <= 0 {
			return false
		}
		s = s[1+n:]
	}
	return true
}

// bareItemEnd is the offset behind the bare item (section 3.3) that s begins with, 0 or -1
// for none.
func bareItemEnd(s string) int {
	if s == "" {
		return 0
	}
	switch c := s[0]; {
	case c == '"':
		return quotedEnd(s)
	case c == ':':
		n := leading(s[1:], func(c byte) bool { return isAlphanumeric(c) || c == '+' || c == '/' || c == '=' })
		if n+1 == len(s) || s[n+1] != ':' {
			return -1
		}
		return n + 2
	case c == '?':
		if len(s) < 2 || s[1] != '0' && s[1] != '1' {
			return -1
		}
		return 2
	case c == '-' || isDigit(c):
		return numberEnd(s)
	case c == '*' || isAlphanumeric(c):
		return leading(s, func(c byte) bool { return isAlphanumeric(c) || strings.IndexByte("!#$%&'*+-.^_`|~:/", c) >= 0 })
	}
	return -1
}

// numberEnd is bareItemEnd for an integer of up to 15 digits, or a decimal of up to 12 and
// 3 (sections 3.3.1 and 3.3.2).
func numberEnd(s string) int {
	i := 0
	if s[0] == '-' {
		i++
	}
	whole := leading(s[i:], isDigit)
	i += whole
	if i == len(s) || s[i] != '.' {
		if whole < 1 || whole > 15 {
			return -1
		}
		return i
	}
	fraction := leading(s[i+1:], isDigit)
	if whole < 1 || whole > 12 || fraction < 1 || fraction > 3 {
		return -1
	}
	return i + 1 + fraction
}

// leading is how many bytes at the beginning of s are of a kind.
func leading(s string, is func(byte) bool) int {
	for i := range len(s) {
		if !is(s[i]) {
			return i
		}
	}
	return len(s)
}

func isDigit(c byte) bool { return c >= '0' && c <= '9' }

func isAlphanumeric(c byte) bool { return isDigit(c) || c|0x20 >= 'a' && c|0x20 <= 'z' }

func isKeyCharacter(c byte) bool {
	return c >= 'a' && c <= 'z' || isDigit(c) || strings.IndexByte("_-.*", c) >= 0
}
