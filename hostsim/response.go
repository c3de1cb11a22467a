package hostsim

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"strings"
)

// maxResponseHead bounds status line and headers together, as Envoy does by default.
const maxResponseHead = 60 << 10

var (
	errMalformed    = errors.New("malformed HTTP/1 message")
	errHeadTooLarge = errors.New("more header lines, or bytes of them, than are taken")
)

// responseHead is what precedes a response's body. Unlike net/http's it keeps the order and every line, for that is what a filter sees.
type responseHead struct {
	headers *headerMap // with ":status"
	status  int
	version string // "HTTP/1.1"
	length  int64  // of the body; -1 = until the connection ends, or chunked
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
		if err := h.frame(method); err != nil || h.status >= 200 {
			return h, err
		}
	}
}

func readAnyHead(r *bufio.Reader) (*responseHead, error) {
	lines := lineReader{r: r, left: maxResponseHead}
	first, err := lines.next()
	if err != nil {
		return nil, err
	}
	version, rest, _ := strings.Cut(first, " ")
	code, _, _ := strings.Cut(strings.TrimLeft(rest, " "), " ")
	status, ok := digits(code)
	if !ok || len(code) != 3 || status < 100 || !isVersion(version) {
		return nil, fmt.Errorf("%w: status line %q", errMalformed, first)
	}
	h := &responseHead{status: int(status), version: version, headers: &headerMap{lines: []Header{{":status", code}}}}
	return h, lines.fields(h.headers)
}

// frame works out how the body is delimited. Where two headers could be read in two ways the response is malformed: what one proxy takes
// for the body the next may take for another response.
func (h *responseHead) frame(method string) error {
	h.length = -1
	keep, lengths, codings := false, 0, 0
	for _, l := range h.headers.lines {
		switch l.Name {
		case "transfer-encoding":
			codings++
			h.chunked = strings.EqualFold(l.Value, "chunked")
			if !h.chunked || codings > 1 {
				return fmt.Errorf("%w: want one transfer-encoding, chunked, found %q", errMalformed, l.Value)
			}
		case "content-length":
			lengths++
			var ok bool
			if h.length, ok = digits(l.Value); !ok || lengths > 1 {
				return fmt.Errorf("%w: want one content-length of digits, found %q", errMalformed, l.Value)
			}
		case "connection", "proxy-connection":
			h.close = h.close || hasToken(l.Value, "close")
			keep = keep || hasToken(l.Value, "keep-alive")
		}
	}
	if h.version != "HTTP/1.1" {
		h.close = h.version != "HTTP/1.0" || !keep
	}
	if codings > 0 && lengths > 0 {
		return fmt.Errorf("%w: a content-length beside a transfer-encoding", errMalformed)
	}
	if h.status < 200 || h.status == 204 {
		if codings > 0 || h.length > 0 {
			return fmt.Errorf("%w: a status of %d has no body, but headers that tell of one", errMalformed, h.status)
		}
		h.headers.remove("content-length") // a length of 0 is harmless
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
		return &chunkedReader{r: r}
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
	lines := lineReader{r: r, left: maxResponseHead}
	if err := lines.fields(t); err != nil {
		if err == io.EOF {
			err = io.ErrUnexpectedEOF
		}
		return nil, err
	}
	if len(t.lines) == 0 {
		return nil, nil
	}
	return t, nil
}
