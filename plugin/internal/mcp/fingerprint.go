package mcp

import (
	"crypto/sha256"

	"github.com/callonce/callonce/canonical"
)

// Shape says what enters the fingerprint beside the call itself.
type Shape struct {
	BindID  bool     // the request's id is part of the intent
	Exclude []string // JSON Pointers into arguments that are not
	Round   []Round  // times in arguments that count by their interval only
	// FirstLeg leaves out what only later legs of a multi-round trip have: requestState and
	// inputResponses.
	FirstLeg bool
}

// Fingerprint is the SHA-256 over the canonical form of
// {"method":"tools/call","params":P}, P being all of params but _meta and the key
// sources, with absent, null or [] arguments as {}. buf is scratch; it is returned for
// reuse. What one Shape excludes stays out until the next Read: a call has one Exclude.
func (r *Request) Fingerprint(buf []byte, s Shape) ([32]byte, []byte) {
	buf = r.AppendIntent(buf[:0], s)
	return sha256.Sum256(buf), buf
}

// AppendIntent appends the text that Fingerprint hashes.
func (r *Request) AppendIntent(dst []byte, s Shape) []byte {
	for _, k := range r.keys {
		r.doc.Omit(k.node)
	}
	for _, ptr := range s.Exclude {
		if r.args == canonical.NoNode {
			break
		}
		if n := r.doc.Pointer(r.args, ptr); n != canonical.NoNode {
			r.doc.Omit(n)
		}
	}
	if r.args != canonical.NoNode {
		r.round(s.Round)
	}
	dst = append(dst, '{')
	if s.BindID {
		dst = append(dst, `"id":`...)
		dst = r.doc.Append(dst, r.doc.Member(r.doc.Root(), "id"))
		dst = append(dst, ',')
	}
	dst = append(dst, `"method":"`+ToolsCall+`","params":{`...)
	open, argued := len(dst), false
	for _, m := range r.doc.Sorted(r.params) {
		name := r.doc.Name(m)
		if string(name) == "_meta" || r.isKey(m) || s.FirstLeg && (string(name) == "requestState" || string(name) == "inputResponses") {
			continue
		}
		if !argued && canonical.CompareNames(name, []byte("arguments")) >= 0 {
			argued = true
			if m != r.args {
				dst = appendNoArguments(dst, open)
			}
		}
		if m == r.args && r.isEmpty(m) {
			dst = appendNoArguments(dst, open)
			continue
		}
		dst = r.doc.Append(appendMember(dst, open, name), m)
	}
	if !argued {
		dst = appendNoArguments(dst, open)
	}
	return append(dst, "}}"...)
}

func appendNoArguments(dst []byte, open int) []byte {
	return append(appendMember(dst, open, []byte("arguments")), "{}"...)
}

func appendMember(dst []byte, open int, name []byte) []byte {
	if len(dst) > open {
		dst = append(dst, ',')
	}
	return append(canonical.AppendString(dst, name), ':')
}

func (r *Request) isKey(n canonical.Node) bool {
	for _, k := range r.keys {
		if k.node == n {
			return true
		}
	}
	return false
}
