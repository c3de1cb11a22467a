package hostsim

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"testing"
	"time"
)

// upstream is a server whose path says what it does. It works below net/http, so as to misbehave.
type testServer struct {
	address string
	mu      sync.Mutex
	got     []received
	// gates hold a response back until they are closed.
	gates map[string]chan struct{}
	// acks say that a client, by the name of its request, has received something.
	acks map[string]chan struct{}
	// scripts are what to answer on /raw, by the name of the request.
	scripts map[string]*script
}

// ack is told by a client of whatever it receives, so that the next piece follows only then.
func (u *testServer) ack(name string) chan struct{} {
	u.mu.Lock()
	defer u.mu.Unlock()
	c := u.acks[name]
	if c == nil {
		c = make(chan struct{}, 100)
		u.acks[name] = c
	}
	return c
}

type received struct {
	method, path string
	header       http.Header
	body         string
}

func newUpstream(t *testing.T) *testServer {
	l := listen(t)
	u := &testServer{address: l.Addr().String(), gates: map[string]chan struct{}{}, acks: map[string]chan struct{}{}, scripts: map[string]*script{}}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go u.serve(c)
		}
	}()
	return u
}

// hold makes requests for path wait until release is called.
func (u *testServer) hold(path string) (release func()) {
	gate := make(chan struct{})
	u.mu.Lock()
	u.gates[path] = gate
	u.mu.Unlock()
	return sync.OnceFunc(func() { close(gate) })
}

func (u *testServer) requests(path string) []received {
	u.mu.Lock()
	defer u.mu.Unlock()
	var out []received
	for _, r := range u.got {
		if r.path == path {
			out = append(out, r)
		}
	}
	return out
}

func (u *testServer) serve(c net.Conn) {
	defer c.Close()
	r := bufio.NewReader(c)
	for {
		req, err := http.ReadRequest(r)
		if err != nil {
			return
		}
		body, err := io.ReadAll(req.Body)
		if err != nil {
			return
		}
		u.mu.Lock()
		u.got = append(u.got, received{req.Method, req.URL.Path, req.Header, string(body)})
		gate := u.gates[req.URL.Path]
		u.mu.Unlock()
		if s := u.script(req.Header.Get("x-name")); s != nil && req.URL.Path == "/raw" {
			if !s.play(c, r, u.ack(req.Header.Get("x-name"))) {
				return
			}
			continue
		}
		if !u.respond(c, req.URL.Path, gate, u.ack(req.Header.Get("x-name"))) {
			return
		}
	}
}

const chunkedHead = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"

// respond answers, and says whether the connection lives on.
func (u *testServer) respond(c net.Conn, path string, gate, ack chan struct{}) bool {
	write := func(s string) { io.WriteString(c, s) }
	// A pause ends when the client has the piece; if it tells nothing, or gets nothing, after a while.
	pause := func() {
		select {
		case <-ack:
		case <-time.After(200 * time.Millisecond):
		}
	}
	wait := func() {
		if gate != nil {
			<-gate
		}
	}
	reset := func() { c.(*net.TCPConn).SetLinger(0) }
	switch path {
	case "/ok", "/again":
		wait()
		write("HTTP/1.1 200 OK\r\nContent-Length: 5\r\nX-Up: a\r\nX-Up: b\r\n\r\nhello")
	case "/chunks", "/sse":
		write(chunkedHead)
		for i := range 3 {
			write(fmt.Sprintf("5\r\nev%03d\r\n", i))
			pause()
		}
		wait()
		write("0\r\n\r\n")
	case "/endless":
		write(chunkedHead)
		for i := 0; ; i++ {
			if _, err := fmt.Fprintf(c, "5\r\nev%03d\r\n", i%1000); err != nil {
				return false
			}
			pause()
		}
	case "/empty":
		write("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
	case "/204":
		write("HTTP/1.1 204 No Content\r\n\r\n")
	case "/503":
		write("HTTP/1.1 503 Service Unavailable\r\nContent-Length: 4\r\n\r\nnope")
	case "/interim":
		write("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello")
	case "/trailers":
		write("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\nx-t: v\r\n\r\n")
	case "/untilclose":
		write("HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nhello")
		return false
	case "/never":
		if gate == nil {
			gate = make(chan struct{})
		}
		readerGone := make(chan struct{})
		go func() { c.Read(make([]byte, 1)); close(readerGone) }()
		select {
		case <-gate:
		case <-readerGone:
		}
		return false
	case "/close":
		return false
	case "/closelater":
		write("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello")
		wait()
		return false
	case "/reset":
		reset()
		return false
	case "/garbage":
		write("BLAH\r\n\r\n")
		return false
	case "/parthead":
		write("HTTP/1.1 200 OK\r\nConte")
		return false
	case "/headcut":
		write("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n")
		pause()
		return false
	case "/cutchunk":
		write(chunkedHead + "5\r\nhello\r\n")
		pause()
		return false
	case "/cutlength":
		write("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhello")
		pause()
		return false
	case "/cutreset":
		write(chunkedHead + "5\r\nhello\r\n")
		pause()
		reset()
		return false
	default:
		write("HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n")
	}
	return true
}
