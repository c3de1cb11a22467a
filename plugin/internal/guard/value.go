package guard

import (
	"strconv"
	"unicode/utf8"

	"github.com/callonce/callonce/canonical"
	"github.com/callonce/callonce/plugin/internal/policy"
)

// lookup is what a source gave.
type lookup uint8

const (
	absent lookup = iota
	given
	broken // not one line of text, a header sent twice, or of a type that names nobody
)

// value is one part of an identity or a scope.
type value struct {
	text string
	bare bool   // a number or a boolean: text is its JSON, apart from the string that looks like it
	is   string // of a broken one: its type, in words, "" = it is no matter of its type
}

// append adds the value as canonical JSON.
func (v *value) append(dst []byte) []byte {
	if v.bare {
		return append(dst, v.text...)
	}
	return canonical.AppendString(dst, []byte(v.text))
}

// value asks one source of an identity or a scope.
func (s *Stream) value(src *policy.Source) (value, lookup) {
	if src.Header != "" {
		v, lines := s.head.one(src.Header)
		switch {
		case lines == 0:
			return value{}, absent
		case lines > 1 || !isText(v):
			return value{}, broken
		}
		return value{text: v}, given
	}
	if src.Peer && !s.peerValidated() {
		return value{}, absent
	}
	v, is := s.host.Attribute(src.Property)
	switch {
	case is == Missing || is == Present && len(v) == 0:
		return value{}, absent
	case !src.Peer && (is == Unreadable || mayBeTyped(v)):
		return s.typedValue(src)
	case is == Unreadable || !isText(view(v)):
		return value{}, broken
	}
	return value{text: string(v)}, given
}

// mayBeTyped reports whether bytes may be those of anything but a text of one line: a
// number is eight bytes, and every other type has a byte below the space: a boolean is
// 0 or 1, a list and an object begin with their length in four bytes.
func mayBeTyped(v []byte) bool { return len(v) == 8 || !isText(view(v)) }

// wholeMetadata is the only attribute that tells the types of what is in it.
var wholeMetadata = []string{"metadata"}

// typedValue asks for a claim with its type. It costs more, and is for what the claim's
// bytes leave open.
func (s *Stream) typedValue(src *policy.Source) (value, lookup) {
	var t typed
	if whole, is := s.host.Attribute(wholeMetadata); is == Present {
		t = lookUp(whole, src.Property[2:]) // behind metadata, filter_metadata
	}
	switch t.kind {
	case kindText:
		if isText(view(t.bytes)) {
			return value{text: string(t.bytes)}, given
		}
		return value{}, broken
	case kindNumber:
		if n, ok := spell(t.bits); ok {
			return value{text: n, bare: true}, given
		}
		return value{is: "a number of 2^53 or more, which the proxy rounds"}, broken
	case kindBool:
		return value{text: strconv.FormatBool(t.bits != 0), bare: true}, given
	case kindNull:
		return value{is: "null"}, broken
	case kindList:
		return value{is: "a list"}, broken
	case kindObject:
		return value{is: "an object"}, broken
	}
	return value{is: "of no type that can be read"}, broken
}

// unfit says why a value that is broken stands for nobody, "" where it is no matter of
// its type. It is the configuration's own text, and nothing that was sent.
func (v *value) unfit(src *policy.Source) string {
	if v.is == "" {
		return ""
	}
	return strconv.Quote(src.Text) + " is " + v.is + "; a text, a number or a boolean can stand for a caller"
}

// peerValidated reports whether the client's certificate was checked against a
// trusted authority. The proxy's own attributes say only that one was shown, so the
// rbac filter ahead of this one must have said it, by a shadow rule on the principal
// envoy.rbac.principals.mtls_authenticated (envoy/mtls-jwt.yaml). Envoy's principal
// "authenticated" will not do: measured on 1.40, it matches every TLS connection,
// with a stranger's certificate or with none.
func (s *Stream) peerValidated() bool {
	v, ok := s.host.Property(propPeerValidated)
	return ok && string(v) == "allowed"
}

// isText reports whether a value may be part of an identity: one line of UTF-8.
func isText(v string) bool {
	wide := false
	for i := 0; i < len(v); i++ {
		if v[i] < ' ' || v[i] == 0x7f {
			return false
		}
		wide = wide || v[i] >= 0x80
	}
	return !wide || utf8.ValidString(v)
}
