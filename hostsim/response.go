package hostsim

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http/httputil"
	"strconv"
	"strings"
)

// maxResponseHead bounds status line and headers together, as Envoy does by default.
const maxResponseHead = 60 << 10

var errMalformed = errors.New("malformed response")

// responseHead is what precedes a response's body. Unlike net/http's it keeps the order and every line, for that is what a filter sees.
type responseHead struct {
	headers *headerMap // with ":status"
	status  int
	length  int64 // of the body; -1 = until the connection ends, or chunked
	chunked bool
	close   bool
}

// readHead reads the head of the final response; interim ones (1xx) are dropped, as Envoy drops them.
func readHead(r *bufio.Reader, method string) (*responseHead, error) {
	for {
		h, err := readAnyHead(r)
		if err != nil {
			return nil, err
		}
		if h.status == 101 {
			return nil, fmt.Errorf("%w: switching protocols was not asked for", errMalformed)
		}
		if h.status >= 200 {
			return h, h.frame(method)
		}
	}
}

func readAnyHead(r *bufio.Reader) (*responseHead, error) {
	left := maxResponseHead
	line := func() (string, error) {
		var b []byte
		for {
			part, err := r.ReadSlice('\n')
			b = append(b, part...)
			if left -= len(part); left < 0 {
				return "", fmt.Errorf("%w: head larger than %d bytes", errMalformed, maxResponseHead)
			}
			if err == bufio.ErrBufferFull {
				continue
			}
			if err != nil {
				return "", err
			}
			return string(bytes.TrimRight(b, "\r\n")), nil
		}
	}
	first, err := line()
	if err != nil {
		return nil, err
	}
	version, rest, _ := strings.Cut(first, " ")
	code, _, _ := strings.Cut(rest, " ")
	status, err := strconv.Atoi(code)
	if err != nil || len(code) != 3 || version != "HTTP/1.1" && version != "HTTP/1.0" {
		return nil, fmt.Errorf("%w: status line %q", errMalformed, first)
	}
	h := &responseHead{status: status, headers: &headerMap{lines: []Header{{":status", code}}}, close: version == "HTTP/1.0"}
	for {
		l, err := line()
		if err != nil {
			return nil, err
		}
		if l == "" {
			return h, nil
		}
		name, value, ok := strings.Cut(l, ":")
		if !ok || name == "" || strings.ContainsAny(name, " \t") {
			return nil, fmt.Errorf("%w: header line %q", errMalformed, l)
		}
		h.headers.add(name, strings.Trim(value, " \t"))
	}
}

// frame works out how the body is delimited.
func (h *responseHead) frame(method string) error {
	for _, l := range h.headers.lines {
		switch l.Name {
		case "transfer-encoding":
			h.chunked = h.chunked || strings.EqualFold(l.Value, "chunked")
		case "connection":
			h.close = h.close || strings.EqualFold(l.Value, "close")
		}
	}
	h.length = -1
	if v, ok := h.headers.get("content-length"); ok {
		n, err := strconv.ParseInt(v, 10, 64)
		if err != nil || n < 0 {
			return fmt.Errorf("%w: content-length %q", errMalformed, v)
		}
		h.length = n
	}
	switch {
	case method == "HEAD" || h.status == 204 || h.status == 304:
		h.length, h.chunked = 0, false
	case h.chunked:
		h.length = -1
	case h.length < 0:
		h.close = true
	}
	return nil
}

// body reads what follows the head. It ends with io.EOF if the body is whole and io.ErrUnexpectedEOF if it was cut short.
func (h *responseHead) body(r *bufio.Reader) io.Reader {
	switch {
	case h.chunked:
		return httputil.NewChunkedReader(r)
	case h.length >= 0:
		return &exactReader{r: r, left: h.length}
	}
	return r
}

type exactReader struct {
	r    io.Reader
	left int64
}

func (e *exactReader) Read(b []byte) (int, error) {
	if e.left == 0 {
		return 0, io.EOF
	}
	n, err := e.r.Read(b[:min(int64(len(b)), e.left)])
	if e.left -= int64(n); err == io.EOF && e.left > 0 {
		err = io.ErrUnexpectedEOF
	}
	return n, err
}

// readTrailers reads what follows the last chunk. It is nil when there are none.
func readTrailers(r *bufio.Reader) (*headerMap, error) {
	t := &headerMap{}
	for {
		l, err := r.ReadString('\n')
		if err == io.EOF {
			return nil, io.ErrUnexpectedEOF
		}
		if err != nil {
			return nil, err
		}
		l = strings.TrimRight(l, "\r\n")
		if l == "" {
			break
		}
		name, value, ok := strings.Cut(l, ":")
		if !ok || len(t.lines) >= maxPairs {
			return nil, fmt.Errorf("%w: trailer line %q", errMalformed, l)
		}
		t.add(name, strings.Trim(value, " \t"))
	}
	if len(t.lines) == 0 {
		return nil, nil
	}
	return t, nil
}
