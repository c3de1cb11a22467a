package hostsim

import (
	"bufio"
	"io"
	"net"
	"strconv"
	"strings"
	"testing"
	"time"
)

// Scenarios of single bytes: what is sent or answered stands in the file as in a Go string.

func unquote(t *testing.T, text string) string {
	t.Helper()
	out, err := strconv.Unquote(`"` + text + `"`)
	if err != nil {
		t.Fatalf("%s: want the inside of a Go string: %v", text, err)
	}
	return out
}

// rawPieces are the bytes of a request, with its name filled in.
func (s *act) rawPieces(raw string) []string {
	var out []string
	for _, p := range strings.Split(raw, " | ") {
		b, err := strconv.Unquote(`"` + strings.ReplaceAll(p, "NAME", s.name) + `"`)
		if err != nil {
			panic(p + ": want the inside of a Go string")
		}
		if before, n, ok := strings.Cut(b, "FILL"); ok { // FILL9000; is so many bytes
			n, after, _ := strings.Cut(n, ";")
			size, _ := strconv.Atoi(n)
			b = before + strings.Repeat("f", size) + after
		}
		if before, n, ok := strings.Cut(b, "LINES"); ok { // LINES99; is so many header lines
			n, after, _ := strings.Cut(n, ";")
			count, _ := strconv.Atoi(n)
			b = before + strings.Repeat("l: v\r\n", count) + after
		}
		out = append(out, b)
	}
	return out
}

// rawAnswers are all answers that come, and whether the connection lives on after them.
func (c *rawConn) rawAnswers(method string) []string {
	var out []string
	for {
		c.SetReadDeadline(time.Now().Add(4 * piecePause))
		if len(out) == 0 {
			c.SetReadDeadline(time.Now().Add(patience))
		}
		if _, err := c.r.Peek(1); err != nil {
			if ne, ok := err.(net.Error); ok && ne.Timeout() {
				return append(out, "client: the connection stays open")
			}
			return append(out, "client: the connection is closed")
		}
		c.SetReadDeadline(time.Now().Add(patience))
		a := c.answer(method)
		out = append(out, a.describe()...)
		if a.err != nil || a.closes {
			return append(out, "client: the connection is closed")
		}
	}
}

// script is what the server answers on /raw.
type script struct {
	pieces []string
	// kept is told whether the connection was kept by the proxy.
	kept chan bool
}

func (u *testServer) script(name string) *script {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.scripts[name]
}

// script tells the server what the scenario wants it to answer.
func (s *act) script(t *testing.T, st stage) {
	t.Helper()
	raw := s.options["answer"]
	if raw == "" {
		return
	}
	a := &script{kept: make(chan bool, 10)}
	for _, p := range strings.Split(raw, " | ") {
		a.pieces = append(a.pieces, unquote(t, p))
	}
	u := st.upstream()
	u.mu.Lock()
	u.scripts[s.name] = a
	u.mu.Unlock()
}

// server is what the server saw of the connection after its answer.
func (s *act) server(st stage) []string {
	a := st.upstream().script(s.name)
	if a == nil {
		return nil
	}
	select {
	case kept := <-a.kept:
		if kept {
			return []string{"server: the connection is kept"}
		}
		return []string{"server: the connection is closed"}
	case <-time.After(patience):
		return []string{"server: nobody asked"}
	}
}

// play answers, and says whether the connection lives on.
func (a *script) play(c net.Conn, r *bufio.Reader, ack chan struct{}) bool {
	for i, p := range a.pieces {
		if i > 0 {
			select {
			case <-ack:
			case <-time.After(200 * time.Millisecond):
			}
		}
		switch p {
		case "RESET":
			c.(*net.TCPConn).SetLinger(0)
			fallthrough
		case "CLOSE":
			a.kept <- false
			return false
		}
		io.WriteString(c, p)
	}
	c.SetReadDeadline(time.Now().Add(2 * piecePause))
	_, err := r.Peek(1)
	ne, ok := err.(net.Error)
	kept := err == nil || ok && ne.Timeout()
	c.SetReadDeadline(time.Time{})
	a.kept <- kept
	return kept
}
