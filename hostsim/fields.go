package hostsim

import (
	"bufio"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
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
			return "", fmt.Errorf("%w: %w", errMalformed, errHeadTooLarge)
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
func (l *lineReader) fields(h *headerMap) error {
	for n := 0; ; n++ {
		line, err := l.next()
		if err != nil || line == "" {
			return err
		}
		if n >= maxFields {
			return fmt.Errorf("%w: %w", errMalformed, errHeadTooLarge)
		}
		if strings.HasPrefix(line, " ") || strings.HasPrefix(line, "\t") {
			if n == 0 || !isFieldValue(line) {
				return fmt.Errorf("%w: header line %q", errMalformed, line)
			}
			last := &h.lines[len(h.lines)-1].Value
			*last = strings.Trim(*last+line, " \t")
			continue
		}
		name, value, ok := strings.Cut(line, ":")
		value = strings.Trim(value, " \t")
		if !strings.EqualFold(name, "content-length") && !strings.EqualFold(name, "transfer-encoding") {
			value = strings.ReplaceAll(value, "\r", "") // what ends no line vanishes
		}
		if !ok || !isToken(name) || !isFieldValue(value) {
			return fmt.Errorf("%w: header line %q", errMalformed, line)
		}
		h.add(name, value)
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

// chunkedReader reads a chunked body to its last chunk, whose trailers are left. net/http's reader refuses a space before an extension, and
// hands out a chunk before it has looked at what follows it.
type chunkedReader struct {
	r    *bufio.Reader
	left int64 // of the chunk
	open bool  // the line end behind the chunk is still due
	err  error
}

// maxChunkLine bounds a chunk's size and extension.
const maxChunkLine = 60 << 10

func (c *chunkedReader) Read(b []byte) (n int, err error) {
	for n < len(b) && c.err == nil {
		if c.left == 0 {
			if n > 0 && !c.lineBuffered() {
				break // what is there goes on; the rest is waited for by the next call
			}
			c.err = c.begin()
			continue
		}
		var m int
		m, c.err = c.r.Read(b[n:min(int64(len(b)), int64(n)+c.left)])
		n += m
		c.left -= int64(m)
		if c.err == io.EOF {
			c.err = io.ErrUnexpectedEOF
		}
		if c.left == 0 && c.open && c.r.Buffered() >= 2 {
			// A chunk that goes on behind its end has been read in one piece with it: none of it counts.
			if e := c.close(); e != nil && c.err == nil {
				return n - m, c.fail(e)
			}
		}
		if c.r.Buffered() == 0 {
			break
		}
	}
	if n > 0 {
		return n, nil
	}
	return 0, c.err
}

func (c *chunkedReader) fail(err error) error { c.err = err; return err }

// lineBuffered says whether reading the next chunk's size needs no waiting.
func (c *chunkedReader) lineBuffered() bool {
	b, _ := c.r.Peek(c.r.Buffered())
	if c.open {
		if len(b) < 2 {
			return false
		}
		b = b[2:]
	}
	return slices.Contains(b, '\n')
}

// close reads the line end behind a chunk.
func (c *chunkedReader) close() error {
	b, err := c.r.Peek(2)
	if err != nil {
		return cutShort(err)
	}
	if string(b) != "\r\n" {
		return fmt.Errorf("%w: %q behind a chunk", errMalformed, b)
	}
	c.r.Discard(2)
	c.open = false
	return nil
}

// begin reads the size of the next chunk. It is io.EOF at the last.
func (c *chunkedReader) begin() error {
	if c.open {
		if err := c.close(); err != nil {
			return err
		}
	}
	var line []byte
	for {
		part, err := c.r.ReadSlice('\n')
		line = append(line, part...)
		if len(line) > maxChunkLine {
			return fmt.Errorf("%w: chunk line larger than %d bytes", errMalformed, maxChunkLine)
		}
		if err == bufio.ErrBufferFull {
			continue
		}
		if err != nil {
			return cutShort(err)
		}
		break
	}
	text, ok := strings.CutSuffix(string(line), "\r\n")
	size, _, _ := strings.Cut(text, ";")
	size = strings.TrimRight(size, " \t")
	n, hex := hexDigits(size)
	if !ok || !hex || strings.Contains(text, "\r") {
		return fmt.Errorf("%w: chunk size %q", errMalformed, line)
	}
	if n == 0 {
		return io.EOF
	}
	c.left, c.open = n, true
	return nil
}

// cutShort makes the end of a connection an unexpected one.
func cutShort(err error) error {
	if err == io.EOF {
		return io.ErrUnexpectedEOF
	}
	return err
}

func hexDigits(s string) (n int64, ok bool) {
	for i := range len(s) {
		v := strings.IndexByte("0123456789abcdef", s[i]|0x20)
		if s[i] <= '9' {
			v = int(s[i]) - '0'
		}
		if v < 0 || n > math.MaxInt64>>4 {
			return 0, false
		}
		n = n<<4 | int64(v)
	}
	return n, s != ""
}
