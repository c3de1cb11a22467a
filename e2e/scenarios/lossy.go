package scenarios

import (
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"time"
)

// lossy is a bad network before a proxy: it passes everything on, but for the answers
// that it is told to lose. Of such a one it takes every byte, and then cuts the
// connection to its client.
type lossy struct {
	url  string // of the proxy
	lose atomic.Int32
	lost atomic.Int32
	http *http.Server
}

// startLossy listens on a port of its own until close.
func startLossy(url string) (l *lossy, at string, err error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, "", err
	}
	l = &lossy{url: url}
	l.http = &http.Server{Handler: l, ReadHeaderTimeout: 10 * time.Second}
	// Serve ends with the error that the server was closed.
	go func() { _ = l.http.Serve(listener) }()
	return l, "http://" + listener.Addr().String(), nil
}

func (l *lossy) close() { _ = l.http.Close() }

func (l *lossy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	out, err := http.NewRequestWithContext(r.Context(), r.Method, l.url+r.URL.RequestURI(), strings.NewReader(string(body)))
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadGateway)
		return
	}
	out.GetBody = nil // else Go's transport might repeat it by itself
	out.Header = r.Header.Clone()
	answer, err := http.DefaultTransport.RoundTrip(out)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadGateway)
		return
	}
	defer answer.Body.Close()
	if strings.Contains(string(body), `"method":"tools/call"`) && l.lose.Add(-1) >= 0 {
		_, _ = io.Copy(io.Discard, answer.Body)
		l.lost.Add(1)
		if c, _, err := w.(http.Hijacker).Hijack(); err == nil {
			_ = c.Close()
		}
		return
	}
	for name, values := range answer.Header {
		w.Header()[name] = values
	}
	w.WriteHeader(answer.StatusCode)
	flush(w)
	for chunk := make([]byte, 4096); ; {
		n, err := answer.Body.Read(chunk)
		if n > 0 {
			// A client that has left ends the request, and so the answer.
			_, _ = w.Write(chunk[:n])
			flush(w)
		}
		if err != nil {
			return
		}
	}
}

func flush(w http.ResponseWriter) {
	if f, ok := w.(http.Flusher); ok {
		f.Flush()
	}
}
