package http1

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/callonce/callonce/hostsim/internal/header"
)

// maxResponseHead bounds status line and headers together, as Envoy does by default.
const maxResponseHead = 60 << 10

var (
	ErrMalformed    = errors.New("malformed HTTP/1 message")
	errHeadTooLarge = errors.New("more header lines, or bytes of them, than are taken")
)

// ResponseHead is what precedes a response's body. Unlike net/http's it keeps the order and every line, for that is what a filter sees.
type ResponseHead struct {
	Headers *header.Map // with ":status"
	status  int
	version string // "HTTP/1.1"
	Length  int64  // of the body; -1 = until the connection ends, or chunked
	Chunked bool
	Close   bool
}

// ReadResponseHead reads the head of the final response; interim ones (1xx) are dropped, as Envoy drops them.
func ReadResponseHead(r *bufio.Reader, method string) (*ResponseHead, error) {
	for {
		h, err := readAnyHead(r)
		if err != nil {
			return nil, err
		}
		if h.status == 101 {
			return nil, fmt.Errorf("%w: switching protocols was not asked for", ErrMalformed)
		}
		if err := h.frame(method); err != nil || h.status >= 200 {
			return h, err
		}
	}
}

func readAnyHead(r *bufio.Reader) (*ResponseHead, error) {
	lines := lineReader{r: r, left: maxResponseHead}
	first, err := lines.next()
	if err != nil {
		return nil, err
	}
	version, rest, _ := strings.Cut(first, " ")
	code, _, _ := strings.Cut(strings.TrimLeft(rest, " "), " ")
	status, ok := digits(code)
	if !ok || len(code) != 3 || status < 100 || !isVersion(version) {
		return nil, fmt.Errorf("%w: status line %q", ErrMalformed, first)
	}
	h := &ResponseHead{status: int(status), version: version, Headers: &header.Map{Lines: []header.Line{{Name: ":status", Value: code}}}}
	return h, lines.fields(h.Headers)
}

// frame works out how the body is delimited. Where two headers could be read in two ways the response is malformed: what one proxy takes
// for the body the next may take for another response.
func (h *ResponseHead) frame(method string) error {
	h.Length = -1
	keep, lengths, codings := false, 0, 0
	for _, l := range h.Headers.Lines {
		switch l.Name {
		case "transfer-encoding":
			codings++
			h.Chunked = strings.EqualFold(l.Value, "chunked")
			if !h.Chunked || codings > 1 {
				return fmt.Errorf("%w: want one transfer-encoding, chunked, found %q", ErrMalformed, l.Value)
			}
		case "content-length":
			lengths++
			var ok bool
			if h.Length, ok = digits(l.Value); !ok || lengths > 1 {
				return fmt.Errorf("%w: want one content-length of digits, found %q", ErrMalformed, l.Value)
			}
		case "connection", "proxy-connection":
			h.Close = h.Close || hasToken(l.Value, "close")
			keep = keep || hasToken(l.Value, "keep-alive")
		}
	}
	if h.version != "HTTP/1.1" {
		h.Close = h.version != "HTTP/1.0" || !keep
	}
	if codings > 0 && lengths > 0 {
		return fmt.Errorf("%w: a content-length beside a transfer-encoding", ErrMalformed)
	}
	if h.status < 200 || h.status == 204 {
		if codings > 0 || h.Length > 0 {
			return fmt.Errorf("%w: a status of %d has no body, but headers that tell of one", ErrMalformed, h.status)
		}
		h.Headers.Remove("content-length") // a length of 0 is harmless
	}
	switch {
	case method == "HEAD" || h.status == 204 || h.status == 304:
		h.Length, h.Chunked = 0, false
	case h.Chunked:
		h.Length = -1
	case h.Length < 0:
		h.Close = true
	}
	return nil
}

// Body reads what follows the head. It ends with io.EOF if the body is whole and io.ErrUnexpectedEOF if it was cut short.
func (h *ResponseHead) Body(r *bufio.Reader) io.Reader {
	switch {
	case h.Chunked:
		return &ChunkReader{R: r}
	case h.Length >= 0:
		return &exactReader{r: r, left: h.Length}
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

// ReadTrailers reads what follows the last chunk. It is nil when there are none.
func ReadTrailers(r *bufio.Reader) (*header.Map, error) {
	t := &header.Map{}
	lines := lineReader{r: r, left: maxResponseHead}
	if err := lines.fields(t); err != nil {
		if err == io.EOF {
			err = io.ErrUnexpectedEOF
		}
		return nil, err
	}
	if len(t.Lines) == 0 {
		return nil, nil
	}
	return t, nil
}
