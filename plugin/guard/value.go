package guard

import (
	"unicode/utf8"

	"github.com/callonce/callonce/plugin/policy"
)

// yield is what a source gave.
type yield uint8

const (
	absent yield = iota
	given
	broken // not one line of text, or a header sent twice
)

// value asks one source of an identity or a scope.
func (s *Stream) value(src *policy.Source) (string, yield) {
	if src.Header != "" {
		v, lines := s.head.one(src.Header)
		switch {
		case lines == 0:
			return "", absent
		case lines > 1 || !isText(v):
			return "", broken
		}
		return v, given
	}
	if src.Peer && !s.peerValidated() {
		return "", absent
	}
	v, ok := s.host.Property(src.Property)
	switch {
	case !ok || len(v) == 0:
		return "", absent
	case !isText(string(v)):
		return "", broken
	}
	return string(v), given
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
