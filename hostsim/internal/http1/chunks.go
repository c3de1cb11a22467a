package http1

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
)

// ChunkReader reads a chunked body to its last chunk, whose trailers are left. net/http's reader refuses a space before an extension, and
// hands out a chunk before it has looked at what follows it.
type ChunkReader struct {
	R    *bufio.Reader
	left int64 // of the chunk
	open bool  // the line end behind the chunk is still due
	err  error
}

// maxChunkLine bounds a chunk's size and extension.
const maxChunkLine = 60 << 10

func (c *ChunkReader) Read(b []byte) (n int, err error) {
	for n < len(b) && c.err == nil {
		if c.left == 0 {
			if n > 0 && !c.lineBuffered() {
				break // what is there goes on; the rest is waited for by the next call
			}
			c.err = c.begin()
			continue
		}
		var m int
		m, c.err = c.R.Read(b[n:min(int64(len(b)), int64(n)+c.left)])
		n += m
		c.left -= int64(m)
		if c.err == io.EOF {
			c.err = io.ErrUnexpectedEOF
		}
		if c.left == 0 && c.open && c.R.Buffered() >= 2 {
			// A chunk that goes on behind its end has been read in one piece with it: none of it counts.
			if e := c.close(); e != nil && c.err == nil {
				return n - m, c.fail(e)
			}
		}
		if c.R.Buffered() == 0 {
			break
		}
	}
	if n > 0 {
		return n, nil
	}
	return 0, c.err
}

func (c *ChunkReader) fail(err error) error { c.err = err; return err }

// lineBuffered says whether reading the next chunk's size needs no waiting.
func (c *ChunkReader) lineBuffered() bool {
	b, _ := c.R.Peek(c.R.Buffered())
	if c.open {
		if len(b) < 2 {
			return false
		}
		b = b[2:]
	}
	return slices.Contains(b, '\n')
}

// close reads the line end behind a chunk.
func (c *ChunkReader) close() error {
	b, err := c.R.Peek(2)
	if err != nil {
		return cutShort(err)
	}
	if string(b) != "\r\n" {
		return fmt.Errorf("%w: %q behind a chunk", ErrMalformed, b)
	}
	c.R.Discard(2)
	c.open = false
	return nil
}

// begin reads the size of the next chunk. It is io.EOF at the last.
func (c *ChunkReader) begin() error {
	if c.open {
		if err := c.close(); err != nil {
			return err
		}
	}
	line, err := c.sizeLine()
	if err != nil {
		return err
	}
	text, ok := strings.CutSuffix(string(line), "\r\n")
	size, _, _ := strings.Cut(text, ";")
	size = strings.TrimRight(size, " \t")
	n, hex := hexDigits(size)
	if !ok || !hex || strings.Contains(text, "\r") {
		return fmt.Errorf("%w: chunk size %q", ErrMalformed, line)
	}
	if n == 0 {
		return io.EOF
	}
	c.left, c.open = n, true
	return nil
}

// sizeLine reads the line of a chunk's size. What no more bytes can make one is refused as it comes, as Envoy has it: a client that
// waits for the answer to it may never end the line.
func (c *ChunkReader) sizeLine() ([]byte, error) {
	var line []byte
	for !bytes.HasSuffix(line, []byte("\n")) {
		if _, err := c.R.Peek(1); err != nil {
			return nil, cutShort(err)
		}
		b, _ := c.R.Peek(c.R.Buffered())
		n := bytes.IndexByte(b, '\n') + 1
		if n == 0 {
			n = len(b)
		}
		line = append(line, b[:n]...)
		c.R.Discard(n)
		switch {
		case len(line) > maxChunkLine:
			return nil, fmt.Errorf("%w: chunk line larger than %d bytes", ErrMalformed, maxChunkLine)
		case !beginsSize(line):
			return nil, fmt.Errorf("%w: chunk size %q", ErrMalformed, line)
		}
	}
	return line, nil
}

// beginsSize says whether a line may yet become one of a chunk's size.
func beginsSize(line []byte) bool {
	digits := len(line)
	if i := bytes.IndexAny(line, " \t;\r\n"); i >= 0 {
		digits = i
	}
	if _, ok := hexDigits(string(line[:digits])); !ok {
		return false
	}
	cr := bytes.IndexByte(line, '\r')
	return cr < 0 || cr+1 == len(line) || line[cr+1] == '\n'
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

// EndBuffered says whether the last chunk and all behind it can be read without waiting.
func (c *ChunkReader) EndBuffered() bool {
	b, _ := c.R.Peek(c.R.Buffered())
	if c.left > 0 || c.err != nil {
		return false
	}
	if c.open {
		b, _ = bytes.CutPrefix(b, []byte("\r\n"))
	}
	return bytes.HasPrefix(b, []byte("0\r\n")) && EndOfHead(b[3:]) >= 0
}
