package mcp

import (
	"slices"
	"strconv"
	"time"

	"github.com/callonce/callonce/canonical"
)

// KeyInArguments reports whether a key source directly or deeper in arguments is
// there, also one that counts as absent.
func (r *Request) KeyInArguments() bool {
	return slices.ContainsFunc(r.keys, r.inArguments)
}

func (r *Request) inArguments(k bodyKey) bool {
	for n := k.node; n != canonical.NoNode; n = r.doc.Parent(n) {
		if n == r.args {
			return r.args != canonical.NoNode
		}
	}
	return false
}

// AppendStripped appends body without the key sources in its arguments. body is what
// was read; every other byte stays as it was sent.
func (r *Request) AppendStripped(dst, body []byte) []byte {
	out, _ := r.AppendEdited(dst, body, Edit{Strip: true})
	return out
}

// cuts are the key sources in the arguments, but for one that stays, each with a comma.
func (r *Request) cuts(body []byte, staying canonical.Node) (cuts []change) {
	for _, k := range r.keys {
		if !r.inArguments(k) || k.node == staying {
			continue
		}
		from, to := r.doc.MemberSpan(k.node)
		before, after := r.stays(k.node, staying)
		switch {
		case after || !before && r.doc.Next(k.node) != canonical.NoNode:
			for to++; body[to-1] != ','; to++ {
			}
		case before:
			for from--; body[from] != ','; from-- {
			}
		}
		cuts = append(cuts, change{from: from, to: to})
	}
	return cuts
}

// stays reports whether a member before this one, and one after it, is no key that goes.
func (r *Request) stays(member, staying canonical.Node) (before, after bool) {
	seen := false
	for m := r.doc.First(r.doc.Parent(member)); m != canonical.NoNode; m = r.doc.Next(m) {
		switch {
		case m == member:
			seen = true
		case r.isKey(m) && m != staying:
		case seen:
			return before, true
		default:
			before = true
		}
	}
	return before, false
}

// Round is a time in the arguments that counts as the start of its interval.
type Round struct {
	Pointer string // below arguments
	Seconds int    // less than 1: the time stays as it is
}

// round marks the times that count by their interval only.
func (r *Request) round(rounds []Round) {
	for _, rd := range rounds {
		n := r.doc.Pointer(r.args, rd.Pointer)
		if n == canonical.NoNode || rd.Seconds < 1 {
			continue
		}
		var at int64
		var ok bool
		switch r.doc.Kind(n) {
		case canonical.Number:
			at, ok = floorOf(canonical.AppendNumber(nil, r.doc.Raw(n)))
		case canonical.String:
			t, err := time.Parse(time.RFC3339, string(r.doc.Text(n)))
			at, ok = t.Unix(), err == nil
		}
		if ok {
			r.doc.Replace(n, strconv.AppendInt(nil, floorDiv(at, int64(rd.Seconds)), 10))
		}
	}
}

// floorOf is the greatest integer not above a number in canonical form. ok is false
// for one that is no time in seconds.
func floorOf(number []byte) (int64, bool) {
	whole, fraction := number, false
	for i, c := range number {
		if c == 'e' {
			// Canonical exponents are below -6 or above 20: next to nothing, or no time.
			if number[i+1] != '-' {
				return 0, false
			}
			whole, fraction = []byte("0"), true
			break
		}
		if c == '.' {
			whole, fraction = number[:i], true
			break
		}
	}
	v, err := strconv.ParseInt(string(whole), 10, 64)
	if err != nil || v < -1<<53 || v > 1<<53 {
		return 0, false
	}
	if fraction && number[0] == '-' {
		v--
	}
	return v, true
}

func floorDiv(a, b int64) int64 {
	q := a / b
	if a%b < 0 {
		q--
	}
	return q
}

// TakesTasks reports whether the asking client declares the tasks extension in this
// request (MCP 2026-07-28: _meta, client capabilities).
func (r *Request) TakesTasks() bool {
	n := r.doc.Pointer(r.params, "/_meta/io.modelcontextprotocol~1clientCapabilities/extensions/io.modelcontextprotocol~1tasks")
	return n != canonical.NoNode && r.doc.Kind(n) == canonical.Object
}

// Method is the JSON-RPC method of a message that is no tools/call, nil when it has
// none.
func (r *Request) Method() []byte {
	if r.Kind != Other || r.doc.Kind(r.doc.Root()) != canonical.Object {
		return nil
	}
	m := r.doc.Member(r.doc.Root(), "method")
	if m == canonical.NoNode || r.doc.Kind(m) != canonical.String {
		return nil
	}
	return r.doc.Text(m)
}
