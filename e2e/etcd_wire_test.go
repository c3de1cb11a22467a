package e2e_test

import (
	"io"
	"net"
	"sync"
	"testing"
	"time"
)

// wire lies between one proxy and etcd, and can be slow or cut.
type wire struct {
	listener net.Listener
	to       string

	mu    sync.Mutex
	delay time.Duration // of each direction
	cut   bool
	conns map[net.Conn]bool
}

func startWire(t testing.TB, to string) *wire {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	w := &wire{listener: l, to: to, conns: map[net.Conn]bool{}}
	t.Cleanup(func() { l.Close(); w.set(0, true) })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go w.carry(c)
		}
	}()
	return w
}

func (w *wire) addr() string { return w.listener.Addr().String() }

// set changes what the wire does; a cut also ends what is open.
func (w *wire) set(delay time.Duration, cut bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.delay, w.cut = delay, cut
	if cut {
		for c := range w.conns {
			c.Close()
		}
	}
}

func (w *wire) carry(client net.Conn) {
	defer client.Close()
	server, err := net.Dial("tcp", w.to)
	if err != nil {
		return
	}
	defer server.Close()
	w.mu.Lock()
	if w.cut {
		w.mu.Unlock()
		return
	}
	w.conns[client], w.conns[server] = true, true
	w.mu.Unlock()
	var both sync.WaitGroup
	for _, pair := range [][2]net.Conn{{client, server}, {server, client}} {
		both.Go(func() {
			w.copy(pair[1], pair[0])
			pair[0].Close()
			pair[1].Close()
		})
	}
	both.Wait()
	w.mu.Lock()
	delete(w.conns, client)
	delete(w.conns, server)
	w.mu.Unlock()
}

type late struct {
	at   time.Time
	data []byte
}

// copy delays each piece and keeps their order.
func (w *wire) copy(to io.Writer, from io.Reader) {
	pieces := make(chan late, 1024)
	go func() {
		defer close(pieces)
		for {
			b := make([]byte, 16<<10)
			n, err := from.Read(b)
			w.mu.Lock()
			at := time.Now().Add(w.delay)
			w.mu.Unlock()
			pieces <- late{at, b[:n]}
			if err != nil {
				return
			}
		}
	}()
	for p := range pieces {
		time.Sleep(time.Until(p.at))
		if _, err := to.Write(p.data); err != nil {
			break
		}
	}
	for range pieces {
		// Its reader must be able to end.
	}
}
