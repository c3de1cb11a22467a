package conformance

import (
	"context"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"
)

// longest bounds every wait for what must come: long, since machines are slow, and
// never a measure of anything.
const longest = 60 * time.Second

// eventually returns when the condition holds.
func eventually(t testing.TB, what string, holds func() bool) {
	t.Helper()
	for deadline := time.Now().Add(longest); !holds(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("waited %v for %s", longest, what)
		}
	}
}

// gate holds servers' answers back until it is opened.
type gate struct {
	opened chan struct{}
	once   sync.Once
}

func newGate() *gate { return &gate{opened: make(chan struct{})} }

func (g *gate) open() { g.once.Do(func() { close(g.opened) }) }

// wait returns when the gate is open; false when the caller has left before.
func (g *gate) wait(s seen) bool {
	select {
	case <-g.opened:
		return true
	case <-s.Gone:
		return false
	}
}

// underway is a request that has not been answered yet.
type underway struct {
	leave context.CancelFunc // the client goes away
	reply chan reply
}

// begin sends a POST in the background.
func (c *client) begin(body string, h ...string) *underway {
	ctx, cancel := context.WithCancel(context.Background())
	u := &underway{cancel, make(chan reply, 1)}
	go func() {
		res, err := c.open(ctx, "POST", strings.NewReader(body), h)
		if err != nil {
			u.reply <- reply{Err: err}
			return
		}
		u.reply <- readAll(res)
	}()
	return u
}

func (u *underway) wait(t testing.TB) reply {
	t.Helper()
	select {
	case r := <-u.reply:
		return r
	case <-time.After(longest):
		t.Fatalf("no answer within %v", longest)
		panic("unreachable")
	}
}

// callUntil repeats a call until it is refused in one way. Until then every answer must
// be one that meanwhile accepts.
func (c *client) callUntil(refused, name, args, key string, meanwhile func(reply) bool) (r reply) {
	c.t.Helper()
	eventually(c.t, "the refusal "+refused, func() bool {
		r = c.call("90", name, args, key)
		if r.isRefusal() != refused && !meanwhile(r) {
			c.t.Fatalf("while waiting for %s: %d %v %s", refused, r.Status, r.Err, r.Body)
		}
		return r.isRefusal() == refused
	})
	return r
}

func inFlightYet(r reply) bool { return r.isRefusal() == "idempotency_in_flight" }

// chunked hides a body's length.
func chunked(body string) io.Reader { return struct{ io.Reader }{strings.NewReader(body)} }

// overHTTP2 is the same client over unencrypted HTTP/2.
func (c *client) overHTTP2() *client {
	p := new(http.Protocols)
	p.SetUnencryptedHTTP2(true)
	tr := &http.Transport{DisableCompression: true, Protocols: p}
	c.t.Cleanup(tr.CloseIdleConnections)
	h := *c.http
	h.Transport = tr
	return &client{c.t, c.url, &h, c.eventual}
}
