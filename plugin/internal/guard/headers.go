package guard

import (
	"strconv"
	"strings"

	"github.com/callonce/callonce/plugin/internal/mcp"
	"github.com/callonce/callonce/plugin/internal/policy"
)

// head is what the decisions need of a request's headers.
type head struct {
	lines     [][2]string
	method    string
	path      string // without query
	accept    string
	encoding  string
	mcpMethod string // of several lines, the first that names tools/call, else the first
	length    int    // Content-Length, -1 = not given
	types     int    // lines of Content-Type
	json      int    // those that are application/json
	likeJSON  bool   // one of the others may stand over JSON too
	keyed     bool   // a key header is there, valid or not

	codings  bool   // the caller takes encoded answers: Accept-Encoding is there
	retries  int    // lines of x-envoy-max-retries
	retryFor string // the last of them

	charset mcp.Charset // the worst that a Content-Type names
}

func readHead(lines [][2]string, p *policy.Policy) head {
	h := head{lines: lines, length: -1}
	for _, l := range lines {
		name, value := l[0], l[1]
		switch name {
		case ":method":
			h.method = value
		case ":path":
			h.path = value
			if i := strings.IndexByte(value, '?'); i >= 0 {
				h.path = value[:i]
			}
		case "accept":
			h.accept = join(h.accept, value)
		case "content-encoding":
			h.encoding = join(h.encoding, value)
		case "accept-encoding":
			h.codings = true
		case "x-envoy-max-retries":
			h.retries, h.retryFor = h.retries+1, value
		case "content-type":
			h.types++
			if mcp.IsJSON(value) {
				h.json++
			} else if !h.likeJSON {
				h.likeJSON = mcp.MayHoldJSON(value)
			}
			h.charset = max(h.charset, mcp.CharsetOf(value))
		case "content-length":
			if n, err := strconv.Atoi(value); err == nil {
				h.length = n
			}
		case "mcp-method":
			if h.mcpMethod == "" || value == mcp.ToolsCall {
				h.mcpMethod = value
			}
		}
		for i := range p.Keys {
			if p.Keys[i].Header == name {
				h.keyed = true
			}
		}
	}
	return h
}

// size is what the headers count in the size of a request: names and values.
func (h *head) size() (n int) {
	for _, l := range h.lines {
		n += len(l[0]) + len(l[1])
	}
	return n
}

func join(a, b string) string {
	if a == "" {
		return b
	}
	return a + "," + b
}

// one gives a header that must not be sent twice.
func (h *head) one(name string) (value string, lines int) {
	for i := range h.lines {
		if h.lines[i][0] == name {
			value = h.lines[i][1]
			lines++
		}
	}
	return value, lines
}

// isPost reports the method. Methods are case-sensitive, but not to every server, and over
// HTTP/2 a proxy passes them on as they are.
func (h *head) isPost() bool { return strings.EqualFold(h.method, "POST") }

func (h *head) isJSON() bool { return h.types > 0 && h.json == h.types }

// mayHoldJSON reports whether servers may be found that read the body as JSON although
// isJSON is false.
func (h *head) mayHoldJSON() bool { return h.types == 0 || h.likeJSON || h.json > 0 }
