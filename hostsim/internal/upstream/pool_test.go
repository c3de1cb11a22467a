package upstream

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/callonce/callonce/hostsim/internal/header"
)

func TestUpstreamAddresses(t *testing.T) {
	for raw, want := range map[string]string{"http://h:1": "h:1", "http://h": "h:80", "https://h": "h:443", "http://[::1]:9": "[::1]:9"} {
		u, err := url.Parse(raw)
		if err != nil {
			t.Fatal(err)
		}
		if p := NewPool(u, 0, 1, false); p.address != want || (p.tls != nil) != strings.HasPrefix(raw, "https") {
			t.Errorf("%s: got %s, tls %v", raw, p.address, p.tls != nil)
		}
	}
}

// poolOf gives a pool of connections to a server that answers so. Both end with the test.
func poolOf(t *testing.T, answers http.HandlerFunc) *Pool {
	t.Helper()
	server := httptest.NewServer(answers)
	t.Cleanup(server.Close)
	u, err := url.Parse(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	p := NewPool(u, 0, 1<<20, false)
	t.Cleanup(p.Close)
	return p
}

// get sends a request without a body and waits for the end of the response.
func get(t *testing.T, p *Pool) {
	t.Helper()
	over := make(chan string, 1)
	p.Dial(&header.Map{Lines: []header.Line{{Name: ":method", Value: "GET"}, {Name: ":path", Value: "/"}, {Name: ":authority", Value: "h"}}}, true, Events{
		Headers: func(_ *header.Map, end bool) {
			if end {
				over <- ""
			}
		},
		Data: func(_ []byte, end bool) {
			if end {
				over <- ""
			}
		},
		Reset: func(r Reset) { over <- r.Details() },
	})
	if r := <-over; r != "" {
		t.Fatal(r)
	}
}

// An idle connection to the server is not used again once the server may have closed it.
func TestIdleConnectionsAreLeft(t *testing.T) {
	p := poolOf(t, func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "ok") })
	for _, aged := range []bool{false, true} {
		get(t, p)
		p.mu.Lock()
		if len(p.idle) != 1 {
			t.Fatalf("want 1 idle connection, got %d", len(p.idle))
		}
		before := p.idle[0]
		if aged {
			before.idleSince = before.idleSince.Add(-maxIdle)
		}
		p.mu.Unlock()
		get(t, p)
		p.mu.Lock()
		if len(p.idle) != 1 || (p.idle[0] != before) != aged {
			t.Errorf("aged %v: the connection was used again: %v", aged, p.idle[0] == before)
		}
		p.mu.Unlock()
	}
}

// The last bytes of a length are the end: whoever has them needs no other event to know that there are no more, and a client may leave.
func TestLastPieceIsTheEnd(t *testing.T) {
	p := poolOf(t, func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "ok") })
	seen := make(chan string, 9)
	x := p.Dial(&header.Map{Lines: []header.Line{{Name: ":method", Value: "POST"}, {Name: ":path", Value: "/"}, {Name: ":authority", Value: "h"}}}, false, Events{
		Headers: func(*header.Map, bool) {},
		Data:    func(b []byte, end bool) { seen <- fmt.Sprintf("%s %v", b, end) },
		Reset:   func(r Reset) { seen <- r.Details() },
	})
	x.Send([]byte("body"), true, func() {})
	if got := <-seen; got != "ok true" {
		t.Errorf("first %q, want the whole body with its end", got)
	}
}

// slowWriter sends what is written to it, and returns only when it is let go.
type slowWriter struct {
	io.Writer
	release chan struct{}
	err     error
}

func (w slowWriter) Write(b []byte) (int, error) {
	n, err := w.Writer.Write(b)
	<-w.release
	if w.err != nil {
		return 0, w.err
	}
	return n, err
}

// Whether a connection is kept is decided by what was written, not by how soon the writer says so.
func TestSlowWritersConnectionIsKept(t *testing.T) {
	for _, failure := range []error{nil, io.ErrClosedPipe} {
		client, server := net.Pipe()
		p := NewPool(&url.URL{Scheme: "http", Host: "127.0.0.1:1"}, 0, 1<<20, false)
		defer p.Close()
		slow := slowWriter{client, make(chan struct{}), failure}
		c := &conn{pool: p, net: client, r: bufio.NewReader(client), w: bufio.NewWriter(slow), idleSince: time.Now()}
		p.conns[c], p.idle = true, []*conn{c}
		go c.read()
		served := make(chan error, 1)
		go func() {
			r := bufio.NewReader(server)
			req, err := http.ReadRequest(r)
			if err == nil {
				_, err = io.Copy(io.Discard, req.Body)
			}
			io.WriteString(server, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
			served <- err
		}()
		ended := make(chan struct{})
		x := p.Dial(&header.Map{Lines: []header.Line{{Name: ":method", Value: "POST"}, {Name: ":path", Value: "/"}, {Name: ":authority", Value: "h"}}}, false, Events{
			Headers: func(*header.Map, bool) {},
			Data: func(_ []byte, end bool) {
				if end {
					close(ended)
				}
			},
			Reset: func(r Reset) { t.Error(r.Details()); close(ended) },
		})
		x.Send([]byte("body"), true, func() {})
		if err := <-served; err != nil {
			t.Fatal(err)
		}
		<-ended // though the writer has not returned
		close(slow.release)
		for deadline := time.Now().Add(10 * time.Second); ; {
			if time.Now().After(deadline) {
				t.Fatalf("written with %v: the connection is neither idle nor closed", failure)
			}
			p.mu.Lock()
			idle, open := len(p.idle), len(p.conns)
			p.mu.Unlock()
			if failure == nil && idle == 1 || open == 0 {
				if kept := open == 1; kept != (failure == nil) {
					t.Errorf("written with %v: kept %v", failure, kept)
				}
				break
			}
			time.Sleep(time.Millisecond)
		}
	}
}
