package http1

import (
	"fmt"
	"slices"
	"strings"

	"github.com/callonce/callonce/hostsim/internal/header"
)

// FormatRequestHead writes the request head as it stands. The body's framing follows the content-length header, right or wrong.
func FormatRequestHead(h *header.Map, end bool) (head []byte, chunked bool) {
	b := fmt.Appendf(nil, "%s %s HTTP/1.1\r\nhost: %s\r\n", OneLine(h.Value(":method")), OneLine(h.Value(":path")), OneLine(h.Value(":authority")))
	for _, l := range h.Lines {
		if strings.HasPrefix(l.Name, ":") || l.Name == "host" || l.Name == "transfer-encoding" {
			continue
		}
		b = fmt.Appendf(b, "%s: %s\r\n", OneLine(l.Name), OneLine(l.Value))
	}
	if !end && !h.Has("content-length") {
		chunked = true
		b = append(b, "transfer-encoding: chunked\r\n"...)
	}
	if end && !h.Has("content-length") && slices.Contains([]string{"POST", "PUT", "PATCH"}, h.Value(":method")) {
		b = append(b, "content-length: 0\r\n"...)
	}
	return append(b, "\r\n"...), chunked
}

// OneLine keeps a module's mistake from becoming a second request.
func OneLine(s string) string {
	if !strings.ContainsAny(s, "\r\n\x00") {
		return s
	}
	return strings.Map(func(r rune) rune {
		if r == '\r' || r == '\n' || r == 0 {
			return ' '
		}
		return r
	}, s)
}
