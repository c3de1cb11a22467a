package hostsim

import (
	"bufio"
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"time"
)

// intake stands between a client's connection and net/http's server, which takes and refuses other requests of HTTP/1 than Envoy does, and
// refuses them in words of its own. It reads each request as Envoy 1.40 does and hands the server a plain spelling of it. One that is
// to be refused becomes a request that says so to [Proxy.ServeHTTP] alone, so that its answer comes in its turn, through the access log.
type intake struct {
	net.Conn
	headersTimeout time.Duration

	in    []byte // read, and not yet used
	out   []byte // for the server, and not yet taken
	state intakeState
	left  int64 // of a body with a length
	body  *bufio.Reader
	chunk *chunkedReader

	timer   *time.Timer // of the head that is arriving
	expired atomic.Bool

	malformed atomic.Bool // the body that is being read

	// refusal answers the request for the path secret. It is set before the server can see that request.
	refusal *localReply
	secret  string
}

type intakeState uint8

const (
	atHead    intakeState = iota
	inBody                // with a length
	inChunks              // without
	unchanged             // HTTP/2: nothing is looked at any more
	deaf                  // refused: nothing is listened to any more
)

// intakeListener gives each plain connection an intake. net/http must see those with TLS as they are.
type intakeListener struct {
	net.Listener
	headersTimeout time.Duration
}

func (l intakeListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	if _, plain := c.(*net.TCPConn); !plain {
		return c, nil
	}
	return &intake{Conn: c, headersTimeout: l.headersTimeout}, nil
}

type intakeKey struct{}

// malformed says that the request's body cannot be read, though its client may still be there.
func malformed(r *http.Request) bool {
	i, _ := r.Context().Value(intakeKey{}).(*intake)
	return i != nil && i.malformed.Load()
}

// refused is the answer to a request that an intake did not let through, or nil.
func refused(r *http.Request) *localReply {
	i, _ := r.Context().Value(intakeKey{}).(*intake)
	if i == nil || i.secret == "" || r.RequestURI != i.secret {
		return nil
	}
	return i.refusal
}

func (i *intake) context(ctx context.Context) context.Context {
	return context.WithValue(ctx, intakeKey{}, i)
}

// Read may be interrupted by a deadline at any place in a head and be called again.
func (i *intake) Read(b []byte) (int, error) {
	for len(i.out) == 0 {
		if err := i.fill(len(b)); err != nil {
			return 0, err
		}
	}
	n := copy(b, i.out)
	i.out = i.out[n:]
	return n, nil
}

// fill puts something into out, unless an error keeps it from it.
func (i *intake) fill(room int) error {
	switch i.state {
	case atHead:
		return i.head()
	case inBody:
		if len(i.in) == 0 {
			if err := i.more(room); err != nil {
				return err
			}
		}
		n := min(int64(len(i.in)), i.left)
		i.out, i.in = i.in[:n:n], i.in[n:]
		if i.left -= n; i.left == 0 {
			i.state = atHead
		}
	case inChunks:
		return i.chunks(max(room, 512))
	case unchanged:
		if len(i.in) == 0 {
			if err := i.more(room); err != nil {
				return err
			}
		}
		i.out, i.in = i.in, nil
	case deaf:
		i.in = nil
		return i.more(room)
	}
	return nil
}

// more reads from the connection into in.
func (i *intake) more(room int) error {
	buf := make([]byte, max(room, 512))
	n, err := i.Conn.Read(buf)
	i.in = append(i.in, buf[:n]...)
	if n > 0 {
		return nil
	}
	return err
}

const preface = "PRI * HTTP/2.0\r\n"

func (i *intake) head() error {
	// Empty lines before a request are not part of it.
	i.in = bytes.TrimLeft(i.in, "\r\n")
	if len(i.in) > 0 {
		i.startTimer()
	}
	if bytes.HasPrefix(i.in, []byte(preface)) {
		i.stopTimer()
		i.state = unchanged
		return nil
	}
	end := endOfHead(i.in)
	switch {
	case end < 0 && len(i.in) > maxRequestHead || end > maxRequestHead:
		i.refuse(headTooLarge)
		return nil
	case end < 0:
		err := i.more(4 << 10)
		if i.expired.Load() && errors.Is(err, os.ErrDeadlineExceeded) {
			i.Conn.SetReadDeadline(time.Time{})
			i.refuse(headersTooLate)
			return nil
		}
		return err
	}
	i.stopTimer()
	text := i.in[:end]
	i.in = i.in[end:]
	head, reply := readRequestHead(text)
	if reply != nil {
		i.refuse(*reply)
		return nil
	}
	i.out = head.text
	switch {
	case head.chunked:
		i.state = inChunks
		i.body = bufio.NewReader(io.MultiReader(bytes.NewReader(i.in), i.Conn))
		i.in = nil
		i.chunk = &chunkedReader{r: i.body}
	case head.length > 0:
		i.state, i.left = inBody, head.length
	}
	return nil
}

func (i *intake) startTimer() {
	if i.timer == nil && i.headersTimeout > 0 {
		i.timer = time.AfterFunc(i.headersTimeout, func() {
			i.expired.Store(true)
			i.Conn.SetReadDeadline(time.Unix(1, 0))
		})
	}
}

func (i *intake) stopTimer() {
	if i.timer != nil {
		i.timer.Stop()
		i.timer = nil
	}
}

// endOfHead is the place behind the first empty line, or -1.
func endOfHead(b []byte) int {
	for at := 0; ; {
		n := bytes.IndexByte(b[at:], '\n')
		if n < 0 {
			return -1
		}
		line := bytes.TrimRight(b[at:at+n], "\r")
		at += n + 1
		if len(line) == 0 {
			return at
		}
	}
}

// refuse hands the server a request that only its handler can tell from others: the path is a secret.
func (i *intake) refuse(r localReply) {
	i.stopTimer()
	i.refusal, i.secret = &r, "/"+rand.Text()
	i.out = fmt.Appendf(nil, "GET %s HTTP/1.1\r\nHost: refused\r\nConnection: close\r\n\r\n", i.secret)
	i.in, i.state = nil, deaf
}

// chunks passes on what there is of a chunked body, in chunks of its own.
func (i *intake) chunks(room int) error {
	buf := make([]byte, room)
	n, err := i.chunk.Read(buf)
	if n > 0 {
		i.out = fmt.Appendf(nil, "%x\r\n%s\r\n", n, buf[:n])
		if !i.chunk.endBuffered() {
			return nil
		}
		_, err = i.chunk.Read(buf[:1])
	}
	if err != io.EOF {
		return i.broken(err)
	}
	trailers, err := readTrailers(i.body)
	if err != nil {
		return i.broken(err)
	}
	i.out = append(i.out, "0\r\n"...)
	if trailers != nil {
		for _, l := range trailers.lines {
			i.out = fmt.Appendf(i.out, "%s: %s\r\n", l.Name, l.Value)
		}
	}
	i.out = append(i.out, "\r\n"...)
	rest, _ := i.body.Peek(i.body.Buffered())
	i.in, i.state = slices.Clone(rest), atHead
	i.body, i.chunk = nil, nil
	return nil
}

// broken hands the server a body that it cannot read either. An error instead would mean to it that the client has gone.
func (i *intake) broken(err error) error {
	if !errors.Is(err, errMalformed) {
		return err
	}
	i.malformed.Store(true)
	i.out, i.state = append(i.out, "no chunk\r\n"...), deaf
	return nil
}

// endBuffered says whether the last chunk and all behind it can be read without waiting.
func (c *chunkedReader) endBuffered() bool {
	b, _ := c.r.Peek(c.r.Buffered())
	if c.left > 0 || c.err != nil {
		return false
	}
	if c.open {
		b, _ = bytes.CutPrefix(b, []byte("\r\n"))
	}
	return bytes.HasPrefix(b, []byte("0\r\n")) && endOfHead(b[3:]) >= 0
}

// maxRequestHead bounds request line and headers together, as Envoy does by default.
const maxRequestHead = 60 << 10

// requestHead is a request as it goes to net/http's server.
type requestHead struct {
	text    []byte
	length  int64 // of the body; 0 = none
	chunked bool
}

func codecError(status int) localReply {
	return localReply{status: status, body: []byte(http.StatusText(status)), details: "http1.codec_error", flags: flagDownstreamProtocolError}
}

var (
	headTooLarge   = codecError(http.StatusRequestHeaderFieldsTooLarge)
	headersTooLate = localReply{status: http.StatusRequestTimeout, body: []byte("request header timeout"), details: "request_header_timeout"}
	missingHost    = localReply{status: http.StatusBadRequest, details: "missing_host_header"}
	oddPath        = localReply{status: http.StatusBadRequest, details: "path_normalization_failed"}
)

// methods are those that Envoy knows; it refuses all others.
const methods = " ACL BIND CHECKOUT CONNECT COPY DELETE GET HEAD LINK LOCK MERGE MKACTIVITY MKCALENDAR MKCOL MOVE M-SEARCH NOTIFY OPTIONS PATCH POST " +
	"PROPFIND PROPPATCH PURGE PUT REBIND REPORT SEARCH SOURCE SUBSCRIBE TRACE UNBIND UNLINK UNLOCK UNSUBSCRIBE "

// readRequestHead reads a head with its empty line, or says how Envoy refuses it.
func readRequestHead(text []byte) (*requestHead, *localReply) {
	bad := codecError(http.StatusBadRequest)
	lines := lineReader{r: bufio.NewReader(bytes.NewReader(text)), left: len(text)}
	first, err := lines.next()
	if err != nil {
		return nil, &bad
	}
	words := strings.Fields(first)
	if strings.HasPrefix(first, " ") || strings.HasPrefix(first, "\t") || len(words) < 2 || len(words) > 3 || !strings.Contains(methods, " "+words[0]+" ") {
		return nil, &bad
	}
	method, target := words[0], words[1]
	if len(words) == 3 && !isVersion(words[2]) || !isTarget(method, target) {
		return nil, &bad
	}
	h := &headerMap{}
	if err := lines.fields(h); err != nil {
		if errors.Is(err, errHeadTooLarge) {
			bad = headTooLarge
		}
		return nil, &bad
	}
	if len(words) == 2 || words[2] != "HTTP/1.1" {
		bad = codecError(http.StatusUpgradeRequired)
		return nil, &bad
	}
	head := &requestHead{}
	if status := head.frame(h); status != 0 {
		bad = codecError(status)
		return nil, &bad
	}
	h.join("host")
	host, ok := h.get("host")
	if u, err := url.Parse(target); err == nil && u.IsAbs() && method != http.MethodConnect {
		if host, ok = u.Host, true; host == "" {
			return nil, &bad
		}
		if !h.has("host") {
			h.add("host", host)
		}
	}
	switch {
	case ok && !isHost(host):
		return nil, &bad
	case !ok || nominates(h, "host"):
		return nil, &missingHost
	case nominates(h, "x-forwarded-for", "x-forwarded-host", "x-forwarded-proto"):
		return nil, &bad
	case strings.Contains(target, "#"):
		return nil, &oddPath
	}
	head.spell(method, target, h)
	return head, nil
}

// nominates says whether a connection header would take one of the names away.
func nominates(h *headerMap, names ...string) bool {
	return slices.ContainsFunc(h.lines, func(l Header) bool {
		return l.Name == "connection" && slices.ContainsFunc(names, func(n string) bool { return hasToken(l.Value, n) })
	})
}

// isTarget takes a path, the address of another server, and the stars and authorities that go with two methods.
func isTarget(method, target string) bool {
	for i := range len(target) {
		if target[i] <= ' ' || target[i] >= 0x7f {
			return false
		}
	}
	switch {
	case method == http.MethodConnect:
		return !strings.HasPrefix(target, "/")
	case target == "*":
		return method == http.MethodOptions
	}
	scheme, _, absolute := strings.Cut(target, "://")
	return strings.HasPrefix(target, "/") || absolute && (strings.EqualFold(scheme, "http") || strings.EqualFold(scheme, "https"))
}

// isHost looks at single bytes only, as Envoy does.
func isHost(s string) bool {
	for i := range len(s) {
		c := s[i]
		if !('0' <= c && c <= '9' || 'a' <= c|0x20 && c|0x20 <= 'z' || strings.IndexByte("!$%&'()*+,-.:;=[]_~", c) >= 0) {
			return false
		}
	}
	return true
}

// frame works out how the body is delimited. What could be read in two ways is refused, with the status that it returns.
func (r *requestHead) frame(h *headerMap) (status int) {
	codings, lengths, known := 0, 0, true
	for _, l := range h.lines {
		switch l.Name {
		case "transfer-encoding":
			codings++
			r.chunked = strings.EqualFold(l.Value, "chunked")
			known = known && r.chunked
		case "content-length":
			lengths++
			var ok bool
			if r.length, ok = digits(l.Value); !ok || lengths > 1 {
				return http.StatusBadRequest
			}
		}
	}
	switch {
	case codings > 0 && lengths > 0:
		return http.StatusBadRequest
	case codings > 1 || !known:
		return http.StatusNotImplemented
	}
	return 0
}

// spell writes the head so that net/http's server cannot misunderstand it.
func (r *requestHead) spell(method, target string, h *headerMap) {
	b := fmt.Appendf(nil, "%s %s HTTP/1.1\r\n", method, target)
	for _, l := range h.lines {
		b = append(b, l.Name...)
		b = append(b, ": "...)
		b = append(b, l.Value...)
		b = append(b, "\r\n"...)
		if l.Name == "proxy-connection" && hasToken(l.Value, "close") {
			b = append(b, "connection: close\r\n"...)
		}
	}
	r.text = append(b, "\r\n"...)
}
