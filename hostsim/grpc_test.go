package hostsim

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"
)

type grpcConnKey struct{}

// newGrpcUpstream is a gRPC server, over unencrypted HTTP/2, whose method says what it does.
func newGrpcUpstream(t *testing.T) string {
	l := listen(t)
	s := &http.Server{Handler: http.HandlerFunc(serveGrpc), Protocols: new(http.Protocols),
		ConnContext: func(ctx context.Context, c net.Conn) context.Context { return context.WithValue(ctx, grpcConnKey{}, c) }}
	s.Protocols.SetUnencryptedHTTP2(true)
	go s.Serve(l)
	t.Cleanup(func() { s.Close() })
	return l.Addr().String()
}

// grpcFrame is one message as it goes over the wire.
func grpcFrame(message string) []byte {
	return append(binary.BigEndian.AppendUint32([]byte{0}, uint32(len(message))), message...)
}

func serveGrpc(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	message := ""
	if len(body) >= 5 {
		message = string(body[5:])
	}
	method, arg, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/probe.Svc/"), "-")
	h := w.Header()
	h.Set("content-type", "application/grpc")
	flush := func() { w.(http.Flusher).Flush() }
	trailer := func(status, text string) {
		h.Set(http.TrailerPrefix+"grpc-status", status)
		if text != "" {
			h.Set(http.TrailerPrefix+"grpc-message", text)
		}
	}
	conn := r.Context().Value(grpcConnKey{}).(net.Conn)
	switch method {
	case "Echo":
		w.Write(grpcFrame(message))
		trailer("0", "")
	case "After": // so many milliseconds
		d, _ := time.ParseDuration(arg + "ms")
		time.Sleep(d)
		w.Write(grpcFrame(message))
		trailer("0", "")
	case "Metadata":
		h.Set("x-initial", "one")
		w.Write(grpcFrame(message))
		trailer("0", "")
		h.Set(http.TrailerPrefix+"x-trailing", "two")
	case "Headers": // the request's, as the message
		var lines []string
		for n, v := range r.Header {
			switch n {
			case "X-Request-Id", "X-Forwarded-For":
				v = []string{"…"}
			}
			lines = append(lines, strings.ToLower(n)+"="+strings.Join(v, ","))
		}
		slices.Sort(lines)
		host := "cluster"
		if r.Host == "an.authority" {
			host = r.Host
		}
		w.Write(grpcFrame(fmt.Sprintf("%s %s %s %q", r.Method, host, strings.Join(lines, " "), body)))
		trailer("0", "")
	case "Nothing":
		w.Write(grpcFrame(""))
		trailer("0", "")
	case "NoMessage":
		flush()
		trailer("0", "")
	case "TrailersOnly": // with that status
		h.Set("grpc-status", arg)
		h.Set("grpc-message", "not%20%E2%82%AC%2 so")
	case "TrailersOnlyOK":
		h.Set("grpc-status", "0")
	case "Status":
		flush()
		trailer(arg, "later")
	case "StatusAfterMessage":
		w.Write(grpcFrame(message))
		flush()
		trailer(arg, "much later")
	case "StatusInHeaders": // and a body all the same
		h.Set("grpc-status", arg)
		w.Write(grpcFrame(message))
		trailer("0", "")
	case "NoStatus":
		w.Write(grpcFrame(message))
	case "HTTP":
		n := 0
		fmt.Sscan(arg, &n)
		w.WriteHeader(n)
		io.WriteString(w, "words")
	case "HTTPEmpty":
		n := 0
		fmt.Sscan(arg, &n)
		w.WriteHeader(n)
	case "Text":
		h.Set("content-type", "text/plain")
		io.WriteString(w, "hello")
	case "Two":
		w.Write(append(grpcFrame(message), grpcFrame("another")...))
		trailer("0", "")
	case "Flagged":
		w.Write(append([]byte{1}, grpcFrame(message)[1:]...))
		trailer("0", "")
	case "BadFlag":
		w.Write(append([]byte{2}, grpcFrame(message)[1:]...))
		trailer("0", "")
	case "Half":
		w.Write(grpcFrame(message)[:7])
		flush()
		trailer("0", "")
	case "Pieces":
		for _, b := range grpcFrame(message) {
			w.Write([]byte{b})
			flush()
		}
		trailer("0", "")
	case "Large":
		w.Write(grpcFrame(strings.Repeat("x", 300_000)))
		trailer("0", "")
	case "Reset":
		panic(http.ErrAbortHandler)
	case "ResetAfter":
		w.Write(grpcFrame(message))
		flush()
		panic(http.ErrAbortHandler)
	case "Close":
		conn.Close()
	case "CloseAfter":
		w.Write(grpcFrame(message))
		flush()
		time.Sleep(50 * time.Millisecond)
		conn.Close()
	case "Never":
		<-r.Context().Done()
	case "NeverAfter":
		w.Write(grpcFrame(message))
		flush()
		<-r.Context().Done()
	default:
		h.Set("grpc-status", "12")
	}
}

// A GrpcService that names no client ends Envoy; here it ends the VM, and says so. A cluster's plain name can be one by accident.
func TestGrpcServiceWithoutAClient(t *testing.T) {
	for _, name := range []string{"none:", "etcd1"} {
		r := newRig(t, func(c *Config, _ *ProxyOptions) { c.Clusters["etcd1"] = c.Clusters["grpc"] })
		r.do("POST", "/ok", "N", "re grpc "+name+" Echo 1000 hello", "body")
		r.host.Wait()
		if lines := r.book.all("log worker=0 critical: VM failed: "); len(lines) != 1 || !strings.Contains(lines[0], errNoGrpcClient.Error()) {
			t.Errorf("%s: the VM failed with %q", name, lines)
		}
	}
}

// A test's own function may be a cluster, and answers as late as it likes, or never.
func TestServersAnswerCallouts(t *testing.T) {
	arrived := make(chan *Arrival, 3)
	clock := NewManualClock(time.Unix(0, 0))
	r := newRig(t, func(c *Config, _ *ProxyOptions) {
		c.Servers, c.Clock = map[string]func(*Arrival){"store": func(a *Arrival) { arrived <- a }}, clock
	})
	for i, name := range []string{"answered", "refused", "lost"} {
		plan := "rh pause; rb pause; re pause; re grpc store Echo 1000 hello; grpc resume"
		go r.do("POST", "/ok", name, plan, "body")
		a := <-arrived
		if m, ok := a.GrpcMessage(); !ok || string(m) != "hello" || a.Header(":path") != "/probe.Svc/Echo" {
			t.Fatalf("the server got %q %v at %s", m, ok, a.Header(":path"))
		}
		want := ""
		switch i {
		case 0:
			a.RespondGrpc([]byte("there"), 0, "")
			want = `grpc 1 to the plugin: message size=5 "there" status=0`
		case 1:
			a.RespondGrpc(nil, 9, "no")
			want = `grpc 1 to the plugin: close 9; code=9 text="no{via_upstream}"`
		case 2:
			clock.Advance(time.Second)
			want = `grpc 1 to the plugin: close 14; code=14 text="upstream request timeout{response_timeout}"`
			a.RespondGrpc([]byte("too late"), 0, "")
		}
		if lines := r.end(name); !hasPrefix(lines, want) {
			t.Errorf("%s: want %s, got\n%s", name, want, strings.Join(lines, "\n"))
		}
		if gone := a.Gone(); !gone {
			t.Errorf("%s: the call is not over", name)
		}
	}
}
