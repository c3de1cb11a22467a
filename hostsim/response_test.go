package hostsim

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httputil"
	"slices"
	"strings"
	"testing"
)

// readAll reads one response as an exchange would, and describes it in a line.
func readAll(raw, method string) string {
	r := bufio.NewReaderSize(strings.NewReader(raw), 16)
	h, err := readHead(r, method)
	if err != nil {
		if errors.Is(err, errMalformed) {
			return "malformed"
		}
		return fmt.Sprint(err)
	}
	out := fmt.Sprintf("%d", h.status)
	for _, l := range h.headers.lines[1:] {
		out += " " + l.Name + "=" + l.Value
	}
	if h.close {
		out += " close"
	}
	if h.length != 0 {
		b, err := io.ReadAll(h.body(r))
		out += fmt.Sprintf(" %q", b)
		if err == nil && h.chunked {
			var t *headerMap
			if t, err = readTrailers(r); t != nil {
				out += fmt.Sprint(" ", t.lines)
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
		got, err := io.ReadAll(&chunkedReader{r: bufio.NewReader(strings.NewReader(raw))})
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
		head, reply := readRequestHead([]byte(raw[:max(0, endOfHead([]byte(raw)))]))
		if (head == nil) == (reply == nil) {
			t.Fatalf("%q: want a head or a reply, got %v and %v", raw, head, reply)
		}
		if head == nil {
			return
		}
		r := bufio.NewReader(strings.NewReader(string(head.text)))
		req, err := http.ReadRequest(r)
		if err != nil {
			return // net/http may refuse more; never less
		}
		if chunked := len(req.TransferEncoding) > 0; chunked != head.chunked || !chunked && req.ContentLength != head.length {
			t.Errorf("%q: framed as %v %d, by the server as %v %d", raw, head.chunked, head.length, req.TransferEncoding, req.ContentLength)
		}
		if r.Buffered() > 0 {
			t.Errorf("%q: more than one request in %q", raw, head.text)
		}
	})
}

// An idle connection to the server is not used again once the server may have closed it.
func TestIdleConnectionsAreLeft(t *testing.T) {
	r := newRig(t, nil)
	for _, aged := range []bool{false, true} {
		r.do("GET", "/ok", "A", "", "")
		p := r.proxy.pool
		p.mu.Lock()
		if len(p.idle) != 1 {
			t.Fatalf("want 1 idle connection, got %d", len(p.idle))
		}
		before := p.idle[0]
		if aged {
			before.idleSince = before.idleSince.Add(-maxIdle)
		}
		p.mu.Unlock()
		r.do("GET", "/ok", "A", "", "")
		p.mu.Lock()
		if len(p.idle) != 1 || (p.idle[0] != before) != aged {
			t.Errorf("aged %v: the connection was used again: %v", aged, p.idle[0] == before)
		}
		p.mu.Unlock()
	}
}

func TestPairs(t *testing.T) {
	for _, lines := range [][]Header{nil, {{"a", "1"}}, {{"a", ""}, {"", "b"}, {"a", "1\x00"}}} {
		if got := parsePairs(formatPairs(lines)); !slices.Equal(got, lines) {
			t.Errorf("got %q, want %q", got, lines)
		}
	}
	good := formatPairs([]Header{{"name", "value"}})
	for name, b := range map[string][]byte{
		"nothing": nil, "cut": good[:len(good)-1], "longer": append(slices.Clone(good), 0), "count too large": {255, 255, 255, 255},
		"no end of the name": append(append(slices.Clone(good[:16]), 'X'), good[17:]...),
	} {
		if got := parsePairs(b); len(got) != 0 {
			t.Errorf("%s: got %q, want none", name, got)
		}
	}
}

func FuzzPairs(f *testing.F) {
	f.Add(formatPairs([]Header{{"a", "1"}, {"b", ""}}))
	f.Fuzz(func(t *testing.T, b []byte) {
		if lines := parsePairs(b); len(lines) > 0 && string(formatPairs(lines)) != string(b) {
			t.Errorf("%q read as %q", b, lines)
		}
	})
}

func TestHeaderMap(t *testing.T) {
	m := &headerMap{}
	m.add("A", "1")
	m.add("b", "2")
	m.add("a", "3")
	m.set("A", "4")
	if got := fmt.Sprint(m.lines); got != "[{b 2} {a 4}]" {
		t.Errorf("after set: %s", got)
	}
	m.remove("B")
	if m.has("b") || m.value("a") != "4" || m.bytes() != 2 {
		t.Errorf("after remove: %v", m.lines)
	}
}
