// Package http1 reads and writes HTTP/1 as Envoy 1.40 does. net/http differs in what it takes, keeps no order of the lines, and corrects what is
// wrong. It knows bytes and messages, and no connection.
package http1

import (
	"bufio"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/callonce/callonce/hostsim/internal/header"
)

// maxFields bounds the lines of a head, as Envoy does by default.
const maxFields = 100

// lineReader reads a head of HTTP/1 as Envoy 1.40 does. net/http's parser differs in what it takes and keeps no order of the lines.
type lineReader struct {
	r    *bufio.Reader
	left int // bytes
}

// next returns a line without its end, which may be a bare line feed. An error of the connection is returned as it is.
func (l *lineReader) next() (string, error) {
	var b []byte
	for {
		part, err := l.r.ReadSlice('\n')
		b = append(b, part...)
		if l.left -= len(part); l.left < 0 {
			return "", fmt.Errorf("%w: %w", ErrMalformed, errHeadTooLarge)
		}
		if err == bufio.ErrBufferFull {
			continue
		}
		if err != nil {
			return "", err
		}
		return strings.TrimRight(string(b), "\r\n"), nil
	}
}

// fields adds lines to h up to and with the empty one.
func (l *lineReader) fields(h *header.Map) error {
	for n := 0; ; n++ {
		line, err := l.next()
		if err != nil || line == "" {
			return err
		}
		if n >= maxFields {
			return fmt.Errorf("%w: %w", ErrMalformed, errHeadTooLarge)
		}
		if strings.HasPrefix(line, " ") || strings.HasPrefix(line, "\t") {
			if n == 0 || !isFieldValue(line) {
				return fmt.Errorf("%w: header line %q", ErrMalformed, line)
			}
			last := &h.Lines[len(h.Lines)-1].Value
			*last = strings.Trim(*last+line, " \t")
			continue
		}
		name, value, ok := strings.Cut(line, ":")
		value = strings.Trim(value, " \t")
		if !strings.EqualFold(name, "content-length") && !strings.EqualFold(name, "transfer-encoding") {
			value = strings.ReplaceAll(value, "\r", "") // what ends no line vanishes
		}
		if !ok || !isToken(name) || !isFieldValue(value) {
			return fmt.Errorf("%w: header line %q", ErrMalformed, line)
		}
		h.Add(name, value)
	}
}

// isToken is RFC 9110's token: what a header's name or a method may be.
func isToken(s string) bool {
	for i := range len(s) {
		c := s[i]
		if !('0' <= c && c <= '9' || 'a' <= c|0x20 && c|0x20 <= 'z' || strings.IndexByte("!#$%&'*+-.^_`|~", c) >= 0) {
			return false
		}
	}
	return s != ""
}

// isFieldValue forbids control characters, but not what is beyond ASCII.
func isFieldValue(s string) bool {
	for i := range len(s) {
		if c := s[i]; c < ' ' && c != '\t' || c == 0x7f {
			return false
		}
	}
	return true
}

// isVersion takes any version; Envoy keeps connections alive for two of them only.
func isVersion(s string) bool {
	return len(s) == 8 && strings.HasPrefix(s, "HTTP/") && '0' <= s[5] && s[5] <= '9' && s[6] == '.' && '0' <= s[7] && s[7] <= '9'
}

// hasToken finds a token, which must be in lower case, in a list that commas part.
func hasToken(list, token string) bool {
	return slices.ContainsFunc(strings.Split(list, ","), func(s string) bool { return strings.EqualFold(strings.Trim(s, " \t"), token) })
}

// digits reads a number of digits alone, without a sign.
func digits(s string) (n int64, ok bool) {
	for i := range len(s) {
		c := int64(s[i]) - '0'
		if c < 0 || c > 9 || n > (math.MaxInt64-c)/10 {
			return 0, false
		}
		n = n*10 + c
	}
	return n, s != ""
}
