package mcp

import (
	"bytes"

	"github.com/callonce/callonce/canonical"
)

// Methods whose answers say what a server can do.
const (
	MethodInitialize = "initialize"
	MethodDiscover   = "server/discover"
	MethodTools      = "tools/list"
)

// Advert is what is added to such answers.
type Advert struct {
	Method   string                 // of the request that is answered
	Argument string                 // the argument that carries a key, "" = none does
	Guarded  func(tool string) bool // whether a call of the tool may be guarded
}

// keyDescription tells a model when to send a key.
const keyDescription = "Makes this call safe to repeat. Choose a new value (a UUID, say) for each thing that you intend to happen once, " +
	"and send the same value again when you repeat the call, for instance after a timeout: you then get the first result, and nothing happens twice."

// insertion is text that goes in at an offset.
type insertion struct {
	at   int
	text []byte
}

// AppendAdvert appends message with the advert put in, every other byte as it was.
// ok is false, and nothing is appended, when message is no response to id (empty = any)
// or has no safe place for it.
func (r *Response) AppendAdvert(dst, message, id []byte, a *Advert) (out []byte, ok bool) {
	if r.doc.Limit(maxValues); r.doc.Parse(message) != nil {
		return dst, false
	}
	root := r.doc.Root()
	if r.doc.Kind(root) != canonical.Object || r.doc.Member(root, "method") != canonical.NoNode {
		return dst, false
	}
	n := r.doc.Member(root, "id")
	if n == canonical.NoNode {
		return dst, false
	}
	if same, _ := r.sameID(r.doc.Raw(n), id); len(id) > 0 && !same {
		return dst, false
	}
	var in []insertion
	result := r.doc.Member(root, "result")
	switch {
	case result == canonical.NoNode:
	case a.Method == MethodTools:
		in = r.inTools(result, a)
	default:
		in = r.inCapabilities(result)
	}
	if len(in) == 0 {
		return dst, false
	}
	at := 0
	for _, i := range in {
		dst = append(dst, message[at:i.at]...)
		dst = append(dst, i.text...)
		at = i.at
	}
	return append(dst, message[at:]...), true
}

func (r *Response) inCapabilities(result canonical.Node) []insertion {
	tools := r.doc.Pointer(result, "/capabilities/tools")
	if tools == canonical.NoNode || r.doc.Kind(tools) != canonical.Object || r.doc.Member(tools, "idempotency") != canonical.NoNode {
		return nil
	}
	return []insertion{r.front(tools, []byte(`"idempotency":{}`))}
}

func (r *Response) inTools(result canonical.Node, a *Advert) (in []insertion) {
	tools := r.doc.Member(result, "tools")
	if a.Argument == "" || tools == canonical.NoNode || r.doc.Kind(tools) != canonical.Array {
		return nil
	}
	for t := r.doc.First(tools); t != canonical.NoNode; t = r.doc.Next(t) {
		if i, ok := r.inTool(t, a); ok {
			in = append(in, i)
		}
	}
	return in
}

func (r *Response) inTool(tool canonical.Node, a *Advert) (insertion, bool) {
	name, schema := r.doc.Member(tool, "name"), r.doc.Member(tool, "inputSchema")
	if name == canonical.NoNode || r.doc.Kind(name) != canonical.String || !a.Guarded(string(r.doc.Text(name))) ||
		schema == canonical.NoNode || r.doc.Kind(schema) != canonical.Object {
		return insertion{}, false
	}
	property := canonical.AppendString(nil, []byte(a.Argument))
	property = append(property, `:{"type":"string","minLength":1,"maxLength":255,"description":`...)
	property = canonical.AppendString(property, []byte(keyDescription))
	property = append(property, '}')
	properties := r.doc.Member(schema, "properties")
	switch {
	case properties == canonical.NoNode:
		property = append(append([]byte(`"properties":{`), property...), '}')
		return r.front(schema, property), true
	case r.doc.Kind(properties) != canonical.Object, r.doc.Member(properties, a.Argument) != canonical.NoNode:
		return insertion{}, false
	}
	return r.front(properties, property), true
}

// front puts a member first in an object.
func (r *Response) front(object canonical.Node, text []byte) insertion {
	start, _ := r.doc.Span(object)
	if r.doc.First(object) != canonical.NoNode {
		text = append(text, ',')
	}
	return insertion{start + 1, text}
}

// EventEnd gives the length of the first whole event in a stream's bytes, its blank
// line included; 0 while it has not ended. The first known bytes were looked at before
// and contain no end, but the last of them may end a line: an event in many small chunks
// costs its length, not its square.
func EventEnd(b []byte, known int) int {
	for i := max(known-1, 0); i < len(b); {
		at := bytes.IndexAny(b[i:], "\r\n")
		if at < 0 {
			return 0
		}
		i = lineEnd(b, i+at)
		if i < len(b) && (b[i] == '\n' || b[i] == '\r') {
			return lineEnd(b, i)
		}
	}
	return 0
}

// lineEnd is the offset behind the line end at i.
func lineEnd(b []byte, i int) int {
	if b[i] == '\r' && i+1 < len(b) && b[i+1] == '\n' {
		return i + 2
	}
	return i + 1
}

// AppendEventAdvert is AppendAdvert for one whole event: its other fields stay. One
// behind a byte order mark passes as it came: only at a stream's start is it data.
func (r *Response) AppendEventAdvert(dst, event, id []byte, a *Advert) (out []byte, ok bool) {
	if bytes.HasPrefix(event, []byte(byteOrderMark)) {
		return dst, false
	}
	var changed []byte
	e := Events{Cap: len(event)}
	e.Feed(event, func(data []byte) bool {
		changed, ok = r.AppendAdvert(nil, data, id, a)
		return true
	})
	if !ok {
		return dst, false
	}
	for rest := event; len(rest) > 0; {
		at := bytes.IndexAny(rest, "\r\n")
		if at < 0 {
			break
		}
		line := rest[:at]
		if field, _, _ := bytes.Cut(line, []byte(":")); at > 0 && string(field) != "data" {
			dst = append(append(dst, line...), '\n')
		}
		rest = rest[lineEnd(rest, at):]
	}
	for _, line := range bytes.Split(changed, []byte("\n")) {
		dst = append(dst, "data: "...)
		dst = append(append(dst, bytes.TrimRight(line, "\r")...), '\n')
	}
	return append(dst, '\n'), true
}
