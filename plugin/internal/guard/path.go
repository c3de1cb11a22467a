package guard

import (
	"strings"

	"github.com/callonce/callonce/plugin/internal/policy"
)

// pathOf is what a request's path, without its query, counts as in the scope of keys.
func pathOf(path string, as policy.Path) string {
	switch as {
	case policy.PathExact:
		return path
	case policy.PathIgnored:
		return ""
	}
	return normalized(path)
}

// normalized gives the path as Envoy's normalize_path and merge_slashes have it (RFC 3986,
// sections 6.2.2.2 and 6.2.2.3): characters that need no escape come out of one, a backslash
// is a slash, dot segments are gone, slashes that follow one another are one. Unlike Envoy
// it has no slash at its end. Case stays, also in the escapes that stay, and so does an
// escaped slash: servers tell such paths apart. A text that is no path is given as it is.
func normalized(path string) string {
	if path == "" || path[0] != '/' || isNormal(path) {
		return path
	}
	b := unescaped(path)
	out := make([]byte, 0, len(b))
	for len(b) > 0 {
		// b begins with a slash.
		end := 1
		for end < len(b) && b[end] != '/' {
			end++
		}
		segment := b[1:end]
		switch b = b[end:]; string(segment) {
		case ".":
		case "..":
			// As Envoy does it: before slashes are merged, so that it takes back an empty
			// segment where one stands before it.
			for i := len(out) - 1; i >= 0; i-- {
				if out[i] == '/' {
					out = out[:i]
					break
				}
			}
		default:
			out = append(append(out, '/'), segment...)
		}
	}
	merged := out[:0]
	for _, c := range out {
		if c == '/' && len(merged) > 0 && merged[len(merged)-1] == '/' {
			continue
		}
		merged = append(merged, c)
	}
	for len(merged) > 1 && merged[len(merged)-1] == '/' {
		merged = merged[:len(merged)-1]
	}
	if len(merged) == 0 {
		return "/"
	}
	return string(merged)
}

// isNormal reports whether normalized would change nothing, as of nearly all paths.
func isNormal(path string) bool {
	for i := 0; i < len(path); i++ {
		switch path[i] {
		case '\\', '%':
			return false
		case '/':
			if i+1 == len(path) {
				return i == 0
			}
			if next := path[i+1]; next == '/' || next == '.' {
				return false
			}
		}
	}
	return true
}

// unescaped takes unreserved characters out of their escapes, once, and makes slashes of
// backslashes.
func unescaped(path string) []byte {
	b := make([]byte, 0, len(path))
	for i := 0; i < len(path); i++ {
		c := path[i]
		switch {
		case c == '\\':
			c = '/'
		case c == '%' && i+2 < len(path):
			if v, ok := hexByte(path[i+1], path[i+2]); ok && isUnreserved(v) {
				c = v
				i += 2
			}
		}
		b = append(b, c)
	}
	return b
}

func hexByte(high, low byte) (byte, bool) {
	h, ok := hexDigit(high)
	l, also := hexDigit(low)
	return h<<4 | l, ok && also
}

func hexDigit(c byte) (byte, bool) {
	switch {
	case c >= '0' && c <= '9':
		return c - '0', true
	case c|0x20 >= 'a' && c|0x20 <= 'f':
		return c | 0x20 - 'a' + 10, true
	}
	return 0, false
}

// isUnreserved reports a character of RFC 3986, section 2.3.
func isUnreserved(c byte) bool {
	return c >= '0' && c <= '9' || c|0x20 >= 'a' && c|0x20 <= 'z' || strings.IndexByte("-._~", c) >= 0
}
