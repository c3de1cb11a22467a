package mcp

import (
	"bytes"
	"slices"

	"github.com/callonce/callonce/canonical"
)

// Place is a member of a call's arguments or of its _meta into which its key is put for
// the server. The zero value is none.
type Place struct {
	Parent string // "arguments" or "_meta"
	Name   string
}

// Edit is what is changed in the body of a call that goes on.
type Edit struct {
	Strip bool   // the key sources in the arguments are cut out
	Place Place  // where the key is put in
	Key   []byte // the text that goes there
}

// change puts text in place of the bytes in [from, to).
type change struct {
	from, to int
	text     []byte
}

const (
	metaNoObject    = "a tools/call whose _meta is not an object, where its key must go on"
	placeVariant    = "a member that equals the one in which the key must go on but for case"
	argumentsMember = "arguments"
)

// AppendEdited appends body as it goes on; every byte that is not edited stays as it was
// sent. body is what was read. A defect says why the key has no place in it for certain:
// nothing was appended then.
func (r *Request) AppendEdited(dst, body []byte, e Edit) (out []byte, defect string) {
	var changes []change
	stays := canonical.NoNode // the key source that is the place, and so is not cut
	parent := canonical.NoNode
	if e.Place.Name != "" {
		if parent = r.args; e.Place.Parent != argumentsMember {
			parent = r.doc.Member(r.params, e.Place.Parent)
		}
		if r.doc.Kind(parent) == canonical.Object {
			stays = r.doc.Member(parent, e.Place.Name)
		}
	}
	if e.Strip {
		changes = r.cuts(body, stays)
	}
	if e.Place.Name != "" {
		c, defect := r.put(e, parent, stays)
		if defect != "" {
			return dst, defect
		}
		changes = append(changes, c)
	}
	slices.SortStableFunc(changes, func(a, b change) int {
		if a.from != b.from {
			return a.from - b.from
		}
		return len(b.text) - len(a.text)
	})
	at := 0
	for _, c := range changes {
		// A key source may be listed twice, or lie inside another, or inside the place.
		if c.from >= at {
			dst = append(append(dst, body[at:c.from]...), c.text...)
			at = c.to
		}
	}
	return append(dst, body[at:]...), ""
}

// put works out how the key comes to its place: parent is the object there, member what
// is at the place already, NoNode where there is none.
func (r *Request) put(e Edit, parent, member canonical.Node) (c change, defect string) {
	value := canonical.AppendString(nil, e.Key)
	named := append(append(canonical.AppendString(nil, []byte(e.Place.Name)), ':'), value...)
	object := append(append([]byte{'{'}, named...), '}')
	if r.hasVariant(r.params, e.Place.Parent) {
		return c, placeVariant
	}
	switch kind := r.doc.Kind(parent); {
	case parent == canonical.NoNode:
		// The params of a call have a name, so that something follows.
		at, _ := r.doc.Span(r.params)
		text := append(canonical.AppendString(nil, []byte(e.Place.Parent)), ':')
		return change{at + 1, at + 1, append(append(text, object...), ',')}, ""
	case kind == canonical.Null, parent == r.args && r.isEmpty(parent):
		from, to := r.doc.Span(parent)
		return change{from, to, object}, ""
	case kind != canonical.Object:
		return c, metaNoObject
	}
	if r.hasVariant(parent, e.Place.Name) {
		return c, placeVariant
	}
	if member != canonical.NoNode {
		from, to := r.doc.Span(member)
		if r.doc.Kind(member) == canonical.String && bytes.Equal(r.doc.Text(member), e.Key) {
			return change{from, from, nil}, ""
		}
		return change{from, to, value}, ""
	}
	at, _ := r.doc.Span(parent)
	for m := r.doc.First(parent); m != canonical.NoNode; m = r.doc.Next(m) {
		if !(e.Strip && parent == r.args && r.isKey(m)) {
			named = append(named, ',')
			break
		}
	}
	return change{at + 1, at + 1, named}, ""
}

// hasVariant reports a member that equals a name but for case: some servers take that one.
// Unlike hasCaseVariant it takes any name.
func (r *Request) hasVariant(object canonical.Node, name string) bool {
	for m := r.doc.First(object); m != canonical.NoNode; m = r.doc.Next(m) {
		if its := r.doc.Name(m); string(its) != name && bytes.EqualFold(its, []byte(name)) {
			return true
		}
	}
	return false
}
