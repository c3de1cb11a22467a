package hostsim

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"github.com/callonce/callonce/hostsim/internal/header"
	"github.com/callonce/callonce/hostsim/internal/upstream"
)

// newHTTP2Upstream is a server over unencrypted HTTP/2, whose path says what it does.
func newHTTP2Upstream(t *testing.T) string {
	l := listen(t)
	s := &http.Server{Handler: http.HandlerFunc(serveHTTP2), Protocols: new(http.Protocols)}
	s.Protocols.SetUnencryptedHTTP2(true)
	go s.Serve(l)
	t.Cleanup(func() { s.Close() })
	return l.Addr().String()
}

func serveHTTP2(w http.ResponseWriter, r *http.Request) {
	flush := http.NewResponseController(w).Flush
	switch r.URL.Path {
	case "/ok":
		io.Copy(io.Discard, r.Body)
		w.Header().Add("x-up", "a")
		w.Header().Add("x-up", "b")
		io.WriteString(w, "hello")
	case "/head": // what the server was told, and the trailers that came
		body, _ := io.ReadAll(r.Body)
		var told []string
		for name, values := range r.Header {
			if !slices.Contains([]string{"X-Do", "X-Name", "X-Request-Id"}, name) {
				told = append(told, strings.ToLower(name)+"="+strings.Join(values, ","))
			}
		}
		slices.Sort(told)
		fmt.Fprintf(w, "%s %s %s length=%d body=%d %s trailers=%v", r.Proto, r.Method, r.Host, r.ContentLength, len(body), strings.Join(told, " "), r.Trailer)
	case "/trailers":
		io.Copy(io.Discard, r.Body)
		io.WriteString(w, "hello")
		w.Header().Set(http.TrailerPrefix+"x-t", "v")
	case "/204":
		w.WriteHeader(http.StatusNoContent)
	case "/503":
		w.WriteHeader(http.StatusServiceUnavailable)
		io.WriteString(w, "nope")
	case "/reset":
		io.Copy(io.Discard, r.Body)
		panic(http.ErrAbortHandler)
	case "/half":
		w.Header().Set("content-length", "10")
		io.WriteString(w, "hello")
		flush()
		time.Sleep(piecePause)
		panic(http.ErrAbortHandler)
	case "/early": // an answer before the request's end
		io.WriteString(w, "early")
	case "/hang":
		<-r.Context().Done()
	}
}

// Bodies that nobody takes wait at their sender, in both directions, and nothing of them is lost.
func TestBodiesFlowOverHTTP2(t *testing.T) {
	const size = 24 << 20
	r := newRig(t, func(c *Config, o *ProxyOptions) { c.BufferLimit = 64 << 10 })
	server := &http.Server{Protocols: new(http.Protocols), Handler: http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		n, _ := io.Copy(io.Discard, req.Body)
		w.Header().Set("x-got", fmt.Sprint(n))
		for range size >> 20 {
			w.Write(make([]byte, 1<<20))
		}
	})}
	server.Protocols.SetUnencryptedHTTP2(true)
	l := listen(t)
	go server.Serve(l)
	t.Cleanup(func() { server.Close() })
	r.proxy.pool.Close()
	r.proxy.pool = upstream.NewHTTP2Streams(&url.URL{Scheme: "http", Host: l.Addr().String()}, time.Second, r.host.config.BufferLimit)
	req := r.request(context.Background(), "POST", "/", "A", "", "")
	req.Body, req.ContentLength = io.NopCloser(io.LimitReader(zeros{}, size)), -1
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if got := resp.Header.Get("x-got"); got != fmt.Sprint(size) {
		t.Errorf("the server got %s bytes, want %d", got, size)
	}
	if n, err := io.Copy(io.Discard, resp.Body); n != size || err != nil {
		t.Errorf("the client got %d bytes, %v", n, err)
	}
}

// A known difference: trailers of a request that it does not declare are left out, which no server in Go would tell.
func TestUndeclaredTrailersOverHTTP2(t *testing.T) {
	for trailer, want := range map[string]int{"": 1, "x-t": 2} {
		l := listen(t)
		sent := make(chan int, 1)
		go headFrames(l, sent)
		pool := upstream.NewHTTP2Streams(&url.URL{Scheme: "http", Host: l.Addr().String()}, time.Second, 1<<20)
		head := &header.Map{Lines: []Header{{Name: ":method", Value: "POST"}, {Name: ":path", Value: "/"}, {Name: ":authority", Value: "h"}}}
		if trailer != "" {
			head.Add("trailer", trailer)
		}
		ended := make(chan bool, 1)
		x := pool.Dial(head, false, upstream.Events{Headers: func(*header.Map, bool) { ended <- true }, Reset: func(r upstream.Reset) { ended <- false }})
		x.Send([]byte("text"), false, func() {})
		x.SendTrailers(&header.Map{Lines: []Header{{Name: "x-t", Value: "v"}}})
		if !<-ended {
			t.Error("reset")
		}
		if got := <-sent; got != want {
			t.Errorf("trailer %q: want %d frames of headers, got %d", trailer, want, got)
		}
		pool.Close()
	}
}

// headFrames counts the frames of headers of one request, and answers it with 204.
func headFrames(l net.Listener, sent chan<- int) {
	c, err := l.Accept()
	if err != nil {
		return
	}
	defer l.Close()
	io.CopyN(io.Discard, c, int64(len(http2.ClientPreface)))
	f := http2.NewFramer(c, c)
	f.WriteSettings()
	for heads := 0; ; {
		frame, err := f.ReadFrame()
		if err != nil {
			return
		}
		if frame.Header().Type == http2.FrameHeaders {
			heads++
		}
		if (frame.Header().Type == http2.FrameHeaders || frame.Header().Type == http2.FrameData) && frame.Header().Flags.Has(http2.FlagDataEndStream) {
			sent <- heads
			var b bytes.Buffer
			hpack.NewEncoder(&b).WriteField(hpack.HeaderField{Name: ":status", Value: "204"})
			f.WriteHeaders(http2.HeadersFrameParam{StreamID: frame.Header().StreamID, BlockFragment: b.Bytes(), EndHeaders: true, EndStream: true})
		}
	}
}
