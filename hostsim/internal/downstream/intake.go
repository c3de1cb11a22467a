// Package downstream reads what clients send over HTTP/1 as Envoy does, in front of net/http's server. It knows no filter: what it has read goes on as a request.
package downstream

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
	"os"
	"slices"
	"sync/atomic"
	"time"

	"github.com/callonce/callonce/hostsim/internal/http1"
)

// intake stands between a client's connection and net/http's server, which takes and refuses other requests of HTTP/1 than Envoy does, and
// refuses them in words of its own. It reads each request as Envoy 1.40 does and hands the server a plain spelling of it. One that is
// to be refused becomes a request that says so to [Refused] alone, so that its answer comes in its turn, through the access log.
type intake struct {
	net.Conn
	headersTimeout time.Duration

	in    []byte // read, and not yet used
	out   []byte // for the server, and not yet taken
	state intakeState
	left  int64 // of a body with a length
	body  *bufio.Reader
	chunk *http1.ChunkReader

	timer   *time.Timer // of the head that is arriving
	expired atomic.Bool

	malformed atomic.Bool // the body that is being read

	// refusal answers the request for the path secret. It is set before the server can see that request.
	refusal *http1.Refused
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

// Listener gives each plain connection an intake. net/http must see those with TLS as they are.
type Listener struct {
	net.Listener
	// HeadersTimeout bounds the wait for the rest of a request's head; 0 = never.
	HeadersTimeout time.Duration
}

// Accept implements net.Listener.
func (l Listener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	if _, plain := c.(*net.TCPConn); !plain {
		return c, nil
	}
	return &intake{Conn: c, headersTimeout: l.HeadersTimeout}, nil
}

type intakeKey struct{}

// Malformed says that the request's body cannot be read, though its client may still be there.
func Malformed(r *http.Request) bool {
	i, _ := r.Context().Value(intakeKey{}).(*intake)
	return i != nil && i.malformed.Load()
}

// Refused is the answer to a request that an intake did not let through, or nil.
func Refused(r *http.Request) *http1.Refused {
	i, _ := r.Context().Value(intakeKey{}).(*intake)
	if i == nil || i.secret == "" || r.RequestURI != i.secret {
		return nil
	}
	return i.refusal
}

// Context lets Refused and Malformed find the intake of a connection, if it has one.
func Context(ctx context.Context, c net.Conn) context.Context {
	if i, ok := c.(*intake); ok {
		return context.WithValue(ctx, intakeKey{}, i)
	}
	return ctx
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
	end := http1.EndOfHead(i.in)
	switch {
	case end < 0 && len(i.in) > http1.MaxRequestHead || end > http1.MaxRequestHead:
		i.refuse(http1.HeadTooLarge)
		return nil
	case end < 0:
		err := i.more(4 << 10)
		if i.expired.Load() && errors.Is(err, os.ErrDeadlineExceeded) {
			i.Conn.SetReadDeadline(time.Time{})
			i.refuse(http1.HeadersTooLate)
			return nil
		}
		return err
	}
	i.stopTimer()
	text := i.in[:end]
	i.in = i.in[end:]
	head, reply := http1.ReadRequestHead(text)
	if reply != nil {
		i.refuse(*reply)
		return nil
	}
	i.out = head.Text
	switch {
	case head.Chunked:
		i.state = inChunks
		i.body = bufio.NewReader(io.MultiReader(bytes.NewReader(i.in), i.Conn))
		i.in = nil
		i.chunk = &http1.ChunkReader{R: i.body}
	case head.Length > 0:
		i.state, i.left = inBody, head.Length
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

// refuse hands the server a request that only its handler can tell from others: the path is a secret.
func (i *intake) refuse(r http1.Refused) {
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
		if !i.chunk.EndBuffered() {
			return nil
		}
		_, err = i.chunk.Read(buf[:1])
	}
	if err != io.EOF {
		return i.broken(err)
	}
	trailers, err := http1.ReadTrailers(i.body)
	if err != nil {
		return i.broken(err)
	}
	i.out = append(i.out, "0\r\n"...)
	if trailers != nil {
		for _, l := range trailers.Lines {
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
	if !errors.Is(err, http1.ErrMalformed) {
		return err
	}
	i.malformed.Store(true)
	i.out, i.state = append(i.out, "no chunk\r\n"...), deaf
	return nil
}
