package policy

import (
	"slices"
	"strconv"
	"strings"

	"github.com/callonce/callonce/canonical"
	"github.com/callonce/callonce/plugin/internal/mcp"
)

const (
	expectKeySource = `"header:<name>" or "json:<pointer under /params>"`
	expectPointer   = "a JSON Pointer such as /sent_at"

	expectForward    = `the name of a header, "json:/params/arguments/<name>" or "json:/params/_meta/<name>"`
	expectFreeHeader = "the name of a header that neither the proxy nor the protocol uses"
)

func itoa(n int) string { return strconv.Itoa(n) }

func (r *reader) keys(n canonical.Node, at string) []KeySource {
	var out []KeySource
	r.each(n, at, func(n canonical.Node, at string) {
		var s string
		if !r.text(n, at, expectKeySource, 1, 1024, &s) {
			return
		}
		keySource, ok := parseKeySource(s)
		if !ok {
			r.wrong(n, at, expectKeySource)
			return
		}
		out = append(out, keySource)
	})
	if r.doc.Kind(n) == canonical.Array && r.doc.First(n) == canonical.NoNode {
		r.mistake(at, "an empty list", "at least one of "+expectKeySource)
	}
	return out
}

func parseKeySource(s string) (KeySource, bool) {
	if name, ok := strings.CutPrefix(s, "header:"); ok {
		return KeySource{Header: strings.ToLower(name)}, isHeaderName(name)
	}
	if ptr, ok := strings.CutPrefix(s, "json:"); ok {
		below, ok := strings.CutPrefix(ptr, "/params/")
		return KeySource{Pointer: "/" + below}, ok && isPointer("/"+below)
	}
	return KeySource{}, false
}

// parsePlace reads where in a body the key goes on: a member directly in arguments or
// _meta that the protocol does not use itself.
func parsePlace(s string) (place mcp.Place, ok bool) {
	pointer := strings.TrimPrefix(s, "json:")
	for _, parent := range []string{"arguments", "_meta"} {
		name, found := strings.CutPrefix(pointer, "/params/"+parent+"/")
		if !found || name == "" || strings.Contains(name, "/") || !isPointer("/"+name) {
			continue
		}
		name = unescape(name)
		own := name == "progressToken" || strings.HasPrefix(name, "io.modelcontextprotocol/")
		return mcp.Place{Parent: parent, Name: name}, parent != "_meta" || !own
	}
	return mcp.Place{}, false
}

// unescape reads one reference token of a JSON Pointer.
func unescape(token string) string {
	return strings.ReplaceAll(strings.ReplaceAll(token, "~1", "/"), "~0", "~")
}

// ArgumentKey gives the name of the argument that carries a key, if the policy reads
// one directly in arguments.
func (p *Policy) ArgumentKey() (name string, ok bool) {
	for _, k := range p.Keys {
		below, found := strings.CutPrefix(k.Pointer, "/arguments/")
		if found && !strings.Contains(below, "/") {
			return unescape(below), true
		}
	}
	return "", false
}

// KeySources lists where a key may stand, as the configuration writes it.
func (p *Policy) KeySources() string {
	texts := make([]string, len(p.Keys))
	for i, k := range p.Keys {
		if texts[i] = "header:" + k.Header; k.Header == "" {
			texts[i] = "json:/params" + k.Pointer
		}
	}
	return strings.Join(texts, ", ")
}

// Principals names where an identity comes from, for whoever must mend it.
func (p *Policy) Principals() string {
	texts := make([]string, len(p.Principal))
	for i, all := range p.Principal {
		parts := make([]string, len(all))
		for j, s := range all {
			parts[j] = s.Text
		}
		texts[i] = strings.Join(parts, " with ")
	}
	return strings.Join(texts, ", nor from ")
}

func (r *reader) principal(n canonical.Node, at string) []Principal {
	var out []Principal
	r.each(n, at, func(n canonical.Node, at string) {
		var all Principal
		if r.doc.Kind(n) == canonical.Array {
			r.each(n, at, func(n canonical.Node, at string) { all = append(all, r.source(n, at, identitySources)) })
			if len(all) == 0 {
				r.mistake(at, "an empty list", "at least one of "+expected(identitySources))
			}
		} else {
			all = Principal{r.source(n, at, identitySources)}
		}
		out = append(out, all)
	})
	return out
}

// sourceKind is one line of the table of sources: what it looks like, and how the
// text after its prefix is read.
type sourceKind struct {
	shape, prefix string
	read          func(rest string) (Source, bool)
}

var (
	headerSource = sourceKind{`"header:<name>"`, "header:", func(rest string) (Source, bool) {
		name := strings.ToLower(rest)
		return Source{Text: "header:" + name, Header: name}, isHeaderName(rest)
	}}
	metadataSource = sourceKind{`"metadata:<filter>/<path>"`, "metadata:", func(rest string) (Source, bool) {
		parts := strings.Split(rest, "/")
		for _, p := range parts {
			if p == "" {
				return Source{}, false
			}
		}
		return Source{Text: "metadata:" + rest, Property: append([]string{"metadata", "filter_metadata"}, parts...)}, len(parts) > 1
	}}
	sanSource     = peerSource("uri_san", "uri_san_peer_certificate")
	subjectSource = peerSource("subject", "subject_peer_certificate")

	identitySources = []sourceKind{headerSource, metadataSource, sanSource, subjectSource}
	scopeSources    = []sourceKind{headerSource, metadataSource}
)

func peerSource(name, attribute string) sourceKind {
	text := "peer:" + name
	return sourceKind{`"` + text + `"`, text, func(rest string) (Source, bool) {
		return Source{Text: text, Property: []string{"connection", attribute}, Peer: true}, rest == ""
	}}
}

func expected(kinds []sourceKind) string {
	shapes := make([]string, len(kinds))
	for i, k := range kinds {
		shapes[i] = k.shape
	}
	return strings.Join(shapes, ", ")
}

func (r *reader) source(n canonical.Node, at string, kinds []sourceKind) Source {
	var s string
	if !r.text(n, at, expected(kinds), 1, 512, &s) {
		return Source{}
	}
	for _, k := range kinds {
		if rest, ok := strings.CutPrefix(s, k.prefix); ok {
			if src, ok := k.read(rest); ok {
				return src
			}
		}
	}
	r.wrong(n, at, expected(kinds))
	return Source{}
}

// isHeaderName reports whether s is a token of RFC 9110 section 5.6.2.
func isHeaderName(s string) bool {
	for i := 0; i < len(s); i++ {
		c := s[i]
		if !(c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || strings.IndexByte("!#$%&'*+-.^_`|~", c) >= 0) {
			return false
		}
	}
	return s != ""
}

// taken are headers that frame or route a request, or say how to read it.
var taken = []string{
	"accept", "accept-encoding", "connection", "content-encoding", "content-length", "content-type", "expect", "host",
	"keep-alive", "proxy-connection", "te", "trailer", "transfer-encoding", "upgrade",
}

// isTaken reports whether a header, in lower case, cannot carry a key that goes on:
// with the key as its value a call would be cut, misread, or (x-envoy-max-retries)
// repeated by the proxy.
func isTaken(name string) bool {
	return slices.Contains(taken, name) || strings.HasPrefix(name, "x-envoy-") || strings.HasPrefix(name, "mcp-")
}

// isPointer reports whether s is a JSON Pointer (RFC 6901) to something below the root.
func isPointer(s string) bool {
	if !strings.HasPrefix(s, "/") {
		return false
	}
	for i := 0; i < len(s); i++ {
		if s[i] == '~' && (i+1 == len(s) || s[i+1] != '0' && s[i+1] != '1') {
			return false
		}
	}
	return true
}
