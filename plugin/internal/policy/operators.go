package policy

import (
	"strings"

	"github.com/callonce/callonce/canonical"
)

// Operators says who may look at the keys of a policy and resolve those whose outcome nobody knows, and where they ask.
type Operators struct {
	Path    string // "" = nobody may
	Who     [][]Verified
	Callers bool // the caller of a call may ask for the state of its key
}

// Verified is a source of an identity that somebody verified, and the value that it must have.
type Verified struct {
	Source
	Value string
}

const expectOperatorsPath = "a path of 2 to 256 letters, digits, - _ . and / that begins with / and does not end with one"

// verifiedSources are those that no caller can set.
var verifiedSources = []sourceKind{metadataSource, sanSource, subjectSource}

// expectVerified is what an entry of their principal is.
const expectVerified = `"metadata:<filter>/<path>=<value>", "peer:uri_san=<value>", "peer:subject=<value>"`

func (r *reader) operators(n canonical.Node, at string) (o Operators) {
	r.members(n, at, []member{
		{"principal", func(n canonical.Node, at string) {
			r.each(n, at, func(n canonical.Node, at string) {
				var all []Verified
				if r.doc.Kind(n) == canonical.Array {
					r.each(n, at, func(n canonical.Node, at string) { all = append(all, r.verified(n, at)) })
					if len(all) == 0 {
						r.mistake(at, "an empty list", "at least one of "+expectVerified)
					}
				} else {
					all = []Verified{r.verified(n, at)}
				}
				o.Who = append(o.Who, all)
			})
			if r.doc.Kind(n) == canonical.Array && len(o.Who) == 0 {
				r.mistake(at, "an empty list", "at least one of "+expectVerified)
			}
		}},
		{"path", func(n canonical.Node, at string) {
			if r.text(n, at, expectOperatorsPath, 2, 256, &o.Path) && !isOperatorsPath(o.Path) {
				r.wrong(n, at, expectOperatorsPath)
			}
		}},
		{"callers", func(n canonical.Node, at string) { r.flag(n, at, &o.Callers) }},
	})
	if r.doc.Kind(n) != canonical.Object {
		return o
	}
	if r.doc.Member(n, "principal") == canonical.NoNode {
		r.mistake(at+"/principal", "nothing", "a list of "+expectVerified)
	}
	if r.doc.Member(n, "path") == canonical.NoNode {
		r.mistake(at+"/path", "nothing", expectOperatorsPath)
	}
	return o
}

// verified reads "<source>=<value>".
func (r *reader) verified(n canonical.Node, at string) (v Verified) {
	var text string
	if !r.text(n, at, expectVerified, 1, 1024, &text) {
		return v
	}
	source, value, ok := strings.Cut(text, "=")
	if ok && value != "" {
		for _, k := range verifiedSources {
			if rest, found := strings.CutPrefix(source, k.prefix); found {
				if src, ok := k.read(rest); ok {
					return Verified{src, value}
				}
			}
		}
	}
	r.wrong(n, at, expectVerified)
	return v
}

// isOperatorsPath takes paths that no proxy spells in another way.
func isOperatorsPath(s string) bool {
	if !strings.HasPrefix(s, "/") || !plain(strings.ReplaceAll(s, "/", "")) {
		return false
	}
	for _, segment := range strings.Split(s[1:], "/") {
		if segment == "" || segment == "." || segment == ".." {
			return false
		}
	}
	return true
}
