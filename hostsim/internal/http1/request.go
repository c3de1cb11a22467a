package http1

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/callonce/callonce/hostsim/internal/header"
)

// EndOfHead is the place behind the first empty line, or -1.
func EndOfHead(b []byte) int {
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

// MaxRequestHead bounds request line and headers together, as Envoy does by default.
const MaxRequestHead = 60 << 10

// RequestHead is a request as it goes to net/http's server.
type RequestHead struct {
	Text    []byte
	Length  int64 // of the body; 0 = none
	Chunked bool
}

// Refused is how Envoy answers a request that it does not let through.
type Refused struct {
	Status int
	Body   string
	// details are its response code details.
	Details string
	// broken says that it is no HTTP/1: the response flag DPE.
	Broken bool
}

func CodecError(status int) Refused {
	return Refused{Status: status, Body: http.StatusText(status), Details: "http1.codec_error", Broken: true}
}

var (
	HeadTooLarge   = CodecError(http.StatusRequestHeaderFieldsTooLarge)
	HeadersTooLate = Refused{Status: http.StatusRequestTimeout, Body: "request header timeout", Details: "request_header_timeout"}
	missingHost    = Refused{Status: http.StatusBadRequest, Details: "missing_host_header"}
	oddPath        = Refused{Status: http.StatusBadRequest, Details: "path_normalization_failed"}
)

// methods are those that Envoy knows; it refuses all others.
const methods = " ACL BIND CHECKOUT CONNECT COPY DELETE GET HEAD LINK LOCK MERGE MKACTIVITY MKCALENDAR MKCOL MOVE M-SEARCH NOTIFY OPTIONS PATCH POST " +
	"PROPFIND PROPPATCH PURGE PUT REBIND REPORT SEARCH SOURCE SUBSCRIBE TRACE UNBIND UNLINK UNLOCK UNSUBSCRIBE "

// ReadRequestHead reads a head with its empty line, or says how Envoy refuses it.
func ReadRequestHead(text []byte) (*RequestHead, *Refused) {
	bad := CodecError(http.StatusBadRequest)
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
	h := &header.Map{}
	if err := lines.fields(h); err != nil {
		if errors.Is(err, errHeadTooLarge) {
			bad = HeadTooLarge
		}
		return nil, &bad
	}
	if len(words) == 2 || words[2] != "HTTP/1.1" {
		bad = CodecError(http.StatusUpgradeRequired)
		return nil, &bad
	}
	head := &RequestHead{}
	if status := head.frame(h); status != 0 {
		bad = CodecError(status)
		return nil, &bad
	}
	h.Join("host")
	host, ok := h.Get("host")
	if u, err := url.Parse(target); err == nil && u.IsAbs() && method != http.MethodConnect {
		if host, ok = u.Host, true; host == "" {
			return nil, &bad
		}
		if !h.Has("host") {
			h.Add("host", host)
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
func nominates(h *header.Map, names ...string) bool {
	return slices.ContainsFunc(h.Lines, func(l header.Line) bool {
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
func (r *RequestHead) frame(h *header.Map) (status int) {
	codings, lengths, known := 0, 0, true
	for _, l := range h.Lines {
		switch l.Name {
		case "transfer-encoding":
			codings++
			r.Chunked = strings.EqualFold(l.Value, "chunked")
			known = known && r.Chunked
		case "content-length":
			lengths++
			var ok bool
			if r.Length, ok = digits(l.Value); !ok || lengths > 1 {
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
func (r *RequestHead) spell(method, target string, h *header.Map) {
	b := fmt.Appendf(nil, "%s %s HTTP/1.1\r\n", method, target)
	for _, l := range h.Lines {
		b = append(b, l.Name...)
		b = append(b, ": "...)
		b = append(b, l.Value...)
		b = append(b, "\r\n"...)
		if l.Name == "proxy-connection" && hasToken(l.Value, "close") {
			b = append(b, "connection: close\r\n"...)
		}
	}
	r.Text = append(b, "\r\n"...)
}
