package http1

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httputil"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/callonce/callonce/hostsim/internal/header"
)

// readAll reads one response as an exchange would, and describes it in a line.
func readAll(raw, method string) string {
	r := bufio.NewReaderSize(strings.NewReader(raw), 16)
	h, err := ReadResponseHead(r, method)
	if err != nil {
		if errors.Is(err, ErrMalformed) {
			return "malformed"
		}
		return fmt.Sprint(err)
	}
	out := fmt.Sprintf("%d", h.status)
	for _, l := range h.Headers.Lines[1:] {
		out += " " + l.Name + "=" + l.Value
	}
	if h.Close {
		out += " close"
	}
	if h.Length != 0 {
		b, err := io.ReadAll(h.Body(r))
		out += fmt.Sprintf(" %q", b)
		if err == nil && h.Chunked {
			var t *header.Map
			if t, err = ReadTrailers(r); t != nil {
				out += fmt.Sprint(" ", t.Lines)
			}
		}
		if err != nil {
			out += fmt.Sprint(" ", err)
		}
	}
	if rest, _ := io.ReadAll(r); len(rest) > 0 {
		out += fmt.Sprintf(" rest %q", rest)
	}
	return out
}

func TestReadResponse(t *testing.T) {
	for _, c := range []struct{ method, raw, want string }{
		{"GET", "HTTP/1.1 200 OK\r\nB: 2\r\nA: 1\r\nb:  3 \r\nContent-Length: 2\r\n\r\nokNEXT", `200 b=2 a=1 b=3 content-length=2 "ok" rest "NEXT"`},
		{"GET", "HTTP/1.1 200 OK\nContent-Length: 2\n\nok", `200 content-length=2 "ok"`},
		{"GET", "HTTP/1.1 200\r\nContent-Length: 0\r\n\r\n", `200 content-length=0`},
		{"HEAD", "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n", `200 content-length=5`},
		{"GET", "HTTP/1.1 304 Not Modified\r\nContent-Length: 5\r\n\r\n", `304 content-length=5`},
		{"GET", "HTTP/1.0 200 OK\r\n\r\nuntil the end", `200 close "until the end"`},
		{"GET", "HTTP/1.1 200 OK\r\nConnection: Close\r\nContent-Length: 1\r\n\r\nx", `200 connection=Close content-length=1 close "x"`},
		{"GET", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n", `200 transfer-encoding=chunked "ok"`},
		{"GET", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\nX-T: v\r\n\r\n", `200 transfer-encoding=chunked "ok" [{x-t v}]`},
		{"GET", "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 204 No\r\n\r\n", `204`},
		{"GET", "HTTP/1.1 101 Switching Protocols\r\n\r\n", "malformed"},
		{"GET", "BLAH\r\n\r\n", "malformed"},
		{"GET", "HTTP/2 200 OK\r\n\r\n", "malformed"},
		{"GET", "HTTP/1.1 20 OK\r\n\r\n", "malformed"},
		{"GET", "HTTP/1.1 200 OK\r\nno colon\r\n\r\n", "malformed"},
		{"GET", "HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n", "malformed"},
		{"GET", "HTTP/1.1 200 OK\r\nX: " + strings.Repeat("y", maxResponseHead) + "\r\n\r\n", "malformed"},
		{"GET", "HTTP/1.1 200 OK\r\nConte", "EOF"},
		{"GET", "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhe", `200 content-length=5 "he" unexpected EOF`},
		{"GET", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n", `200 transfer-encoding=chunked "ok" unexpected EOF`},
		{"GET", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\nx-t: v\r\n", `200 transfer-encoding=chunked "ok" unexpected EOF`},
	} {
		if got := readAll(c.raw, c.method); got != c.want {
			t.Errorf("%q: got %s, want %s", c.raw[:min(len(c.raw), 60)], got, c.want)
		}
	}
}

func FuzzReadResponse(f *testing.F) {
	f.Add("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
	f.Add("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\nX-T: v\r\n\r\n")
	f.Fuzz(func(t *testing.T, raw string) { readAll(raw, "GET") })
}

// Where the library's reader of chunks takes a body, ours takes the same; it may take more (a space before an extension), never less but
// for what Envoy refuses.
func FuzzChunks(f *testing.F) {
	for _, raw := range []string{"5\r\nhello\r\n0\r\n\r\n", "1;a=b\r\nx\r\n0\r\n", "-1\r\nx\r\n", "5\r\nhelloXX0\r\n", "10000000000000001\r\nx", "1 ; a\r\nx\r\n0\r\n", "A\r\n0123456789\r\n0\r\n"} {
		f.Add(raw)
	}
	f.Fuzz(func(t *testing.T, raw string) {
		want, wantErr := io.ReadAll(httputil.NewChunkedReader(bufio.NewReader(strings.NewReader(raw))))
		got, err := io.ReadAll(&ChunkReader{R: bufio.NewReader(strings.NewReader(raw))})
		if err == nil && wantErr == nil && string(got) != string(want) {
			t.Errorf("%q: got %q, the library %q", raw, got, want)
		}
		if err == nil && wantErr != nil && !strings.ContainsAny(raw, " \t") && len(raw) < 4000 && !strings.Contains(wantErr.Error(), "too many non-data") {
			t.Errorf("%q: taken as %q, the library says %v", raw, got, wantErr)
		}
	})
}

// What is made of a head for net/http's server is one request to it, of the same method and framing.
func FuzzRequestHead(f *testing.F) {
	for _, raw := range []string{"GET / HTTP/1.1\r\nhost: h\r\n\r\n", "POST /a HTTP/1.1\nhost: h\ncontent-length: 5\n\n", "GET /a HTTP/1.1\r\nhost: h\r\nx: a\r\n b\r\n\r\n",
		"POST http://h/a HTTP/1.1\r\nhost: x\r\nhost: y\r\ntransfer-encoding: chunked\r\n\r\n", "GET / HTTP/1.0\r\n\r\n"} {
		f.Add(raw)
	}
	f.Fuzz(func(t *testing.T, raw string) {
		head, reply := ReadRequestHead([]byte(raw[:max(0, EndOfHead([]byte(raw)))]))
		if (head == nil) == (reply == nil) {
			t.Fatalf("%q: want a head or a reply, got %v and %v", raw, head, reply)
		}
		if head == nil {
			return
		}
		r := bufio.NewReader(strings.NewReader(string(head.Text)))
		req, err := http.ReadRequest(r)
		if err != nil {
			return // net/http may refuse more; never less
		}
		if chunked := len(req.TransferEncoding) > 0; chunked != head.Chunked || !chunked && req.ContentLength != head.Length {
			t.Errorf("%q: framed as %v %d, by the server as %v %d", raw, head.Chunked, head.Length, req.TransferEncoding, req.ContentLength)
		}
		if r.Buffered() > 0 {
			t.Errorf("%q: more than one request in %q", raw, head.Text)
		}
	})
}

// What a chunk's size may look like, and what may follow a chunk: "" is malformed, else what is read.
func TestChunks(t *testing.T) {
	for raw, want := range map[string]string{
		"5\r\nhello\r\n0\r\n": "hello", "05;a=b\r\nhello\r\n0\r\n": "hello", "5 ;a\r\nhello\r\n0\r\n": "hello", "2\r\nhe\r\n3\r\nllo\r\n0\r\n": "hello",
		"+5\r\nhello\r\n0\r\n": "", "-5\r\nhello\r\n0\r\n": "", "0x5\r\nhello\r\n0\r\n": "", " 5\r\nhello\r\n0\r\n": "", "5\nhello\r\n0\r\n": "",
		"5\r\nhelloXX0\r\n": "", "5\r\nhello\n0\r\n": "", "g\r\n": "", "\r\n": "", "10000000000000000\r\nx": "", "5;\r\r\nhello\r\n0\r\n": "",
	} {
		got, err := io.ReadAll(&ChunkReader{R: bufio.NewReader(strings.NewReader(raw))})
		if malformed := errors.Is(err, ErrMalformed); malformed != (want == "") || !malformed && (err != nil || string(got) != want) {
			t.Errorf("%q: got %q, %v; want %q", raw, got, err, want)
		}
	}
}

// Which requests are let through, and how the others are answered; the scenarios of hostsim show the same on an Envoy.
func TestReadRequestHead(t *testing.T) {
	for raw, want := range map[string]int{
		"GET / HTTP/1.1\r\nhost: h\r\n\r\n":                                                         0,
		"GET / HTTP/1.1\nhost: h\n\n":                                                               0,
		"POST /a HTTP/1.1\r\nhost: h\r\ncontent-length: 5\r\n\r\n":                                  0,
		"POST /a HTTP/1.1\r\nhost: h\r\ntransfer-encoding: chunked\r\n\r\n":                         0,
		"GET http://h/ HTTP/1.1\r\n\r\n":                                                            0,
		"POST /a HTTP/1.1\r\nhost: h\r\ncontent-length: 5\r\ntransfer-encoding: chunked\r\n\r\n":    400,
		"POST /a HTTP/1.1\r\nhost: h\r\ncontent-length: 5\r\ncontent-length: 5\r\n\r\n":             400,
		"POST /a HTTP/1.1\r\nhost: h\r\ncontent-length: +5\r\n\r\n":                                 400,
		"POST /a HTTP/1.1\r\nhost: h\r\ntransfer-encoding: gzip\r\n\r\n":                            501,
		"POST /a HTTP/1.1\r\nhost: h\r\ntransfer-encoding: chunked\r\ntransfer-encoding: x\r\n\r\n": 501,
		"GET / HTTP/1.0\r\nhost: h\r\n\r\n":                                                         426,
		"GET /\r\n\r\n":                                                                             426,
		"FETCH / HTTP/1.1\r\nhost: h\r\n\r\n":                                                       400,
		"GET / HTTP/1.1\r\n\r\n":                                                                    400,
		"GET /#a HTTP/1.1\r\nhost: h\r\n\r\n":                                                       400,
		"GET / HTTP/1.1\r\nhost: h\r\nconnection: host\r\n\r\n":                                     400,
		"GET / HTTP/1.1\r\nhost: h\r\nx y: z\r\n\r\n":                                               400,
		"GET / HTTP/1.1\r\nhost: h\r\n" + strings.Repeat("x: y\r\n", maxFields) + "\r\n":            431,
	} {
		head, refused := ReadRequestHead([]byte(raw))
		status := 0
		if refused != nil {
			status = refused.Status
		}
		if status != want || (head == nil) != (refused != nil) {
			t.Errorf("%q: got %d (%v), want %d", raw[:min(len(raw), 80)], status, refused, want)
		}
	}
}

// A line that can be no chunk's size is refused without the rest of it, which may never come; one that may still be one is not.
func TestSizeIsRefusedAsItComes(t *testing.T) {
	more := errors.New("waits for more")
	for begins, want := range map[string]error{
		"z": ErrMalformed, "-": ErrMalformed, "1z": ErrMalformed, "1\rx": ErrMalformed, "\r": ErrMalformed, ";": ErrMalformed,
		"11111111111111111": ErrMalformed,
		"":                  more, "1": more, "aF": more, "1\r": more, "1 z": more, "1;z": more, "1111111111111111": more,
	} {
		c := &ChunkReader{R: bufio.NewReader(io.MultiReader(strings.NewReader(begins), iotest.ErrReader(more)))}
		if n, err := c.Read(make([]byte, 9)); n != 0 || !errors.Is(err, want) {
			t.Errorf("%q: %d bytes, %v, want %v", begins, n, err, want)
		}
	}
}
