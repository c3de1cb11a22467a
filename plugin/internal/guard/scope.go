package guard

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/callonce/callonce/canonical"
	"github.com/callonce/callonce/plugin/internal/mcp"
	"github.com/callonce/callonce/plugin/internal/policy"
	"github.com/callonce/callonce/plugin/internal/scratch"
)

// scoped is the part of the stored id that says whose call it is: nothing of one
// scope is ever shown to another.
type scoped struct {
	text      []byte // server, path, identity, scope values and session as canonical JSON, without brackets
	principal uint64 // digest of server and identity, for counting; of the identity alone where limits are the proxy's
	scope     uint64 // digest of the whole text, for counting
	nameless  bool   // there is none: no identity came from anywhere
}

// findScope gathers the scope, or says why there is none. Its text is scratch: good
// until the next one is sought.
func (s *Stream) findScope() (sc scoped, refusal *mcp.Refusal, detail string) {
	if sc, refusal, detail = s.scopeOf(); sc.nameless {
		s.g.tellNoIdentity(s.policy)
	}
	return sc, refusal, detail
}

// scopeOf is findScope for a request that is not refused for it.
func (s *Stream) scopeOf() (sc scoped, refusal *mcp.Refusal, detail string) {
	t, ok := s.appendServer(s.g.scope[:0])
	if !ok {
		return sc, &mcp.Unavailable, ""
	}
	if !utf8.ValidString(s.head.path) {
		return sc, &mcp.Unsupported, "the path is not UTF-8"
	}
	server := len(t)
	t = append(t, ',')
	t = canonical.AppendString(t, []byte(pathOf(s.head.path, s.policy.Path)))
	t = append(t, ',')
	start := len(t)
	t, refusal, detail = s.appendIdentity(t)
	if refusal != nil {
		sc.nameless = true
		return sc, refusal, detail
	}
	end := len(t)
	t = append(t, ",["...)
	for i := range s.policy.Scope {
		src := &s.policy.Scope[i]
		v, y := s.value(src)
		if y == broken {
			return sc, &mcp.IdentityRequired, s.g.tellUnfit(s.policy, src, &v)
		}
		if i > 0 {
			t = append(t, ',')
		}
		t = v.append(t)
	}
	t = append(t, "],"...)
	session, y := s.value(&sessionSource)
	if y == broken && s.policy.Session {
		return sc, &mcp.IdentityRequired, ""
	}
	s.call.session = session.text
	if !s.policy.Session {
		session.text = ""
	}
	t = canonical.AppendString(t, []byte(session.text))
	s.g.scope, sc.text = scratch.Keep(t), t
	s.g.buf = s.g.buf[:0]
	if !s.policy.LimitsOfProxy {
		s.g.buf = append(append(s.g.buf, t[:server]...), ',')
	}
	s.g.buf = append(s.g.buf, t[start:end]...)
	sc.principal = s.g.digest(s.g.buf)
	s.g.buf = scratch.Keep(s.g.buf)
	sc.scope = s.g.digest(t)
	return sc, nil, ""
}

var sessionSource = policy.Source{Header: "mcp-session-id"}

// appendServer appends what tells servers apart: the name that is configured, else the
// list of the virtual host's name and the policy's. Joined into one text they would not:
// the host "a" with the policy "b/c" is not the host "a/b" with the policy "c". ok is
// false where there is no virtual host's name either.
func (s *Stream) appendServer(dst []byte) (t []byte, ok bool) {
	if s.policy.Server != "" {
		s.call.server = s.policy.Server
		return canonical.AppendString(dst, []byte(s.policy.Server)), true
	}
	host, ok := s.virtualHost()
	if !ok {
		return dst, false
	}
	s.call.server = s.g.serverLabel(host, s.policy.Name)
	dst = canonical.AppendString(append(dst, '['), []byte(host))
	dst = canonical.AppendString(append(dst, ','), []byte(s.policy.Name))
	return append(dst, ']'), true
}

// serverName is configured, else the virtual host's name and the policy's; never the
// chosen cluster, which a canary changes from call to call. It is a label: a scope has
// appendServer.
func (s *Stream) serverName() string {
	if s.policy.Server != "" {
		return s.policy.Server
	}
	host, ok := s.virtualHost()
	if !ok {
		return ""
	}
	return s.g.serverLabel(host, s.policy.Name)
}

func (s *Stream) virtualHost() (name string, ok bool) {
	host, ok := s.host.Property(propVirtualHost)
	if !ok || len(host) == 0 || !utf8.Valid(host) {
		return "", false
	}
	return string(host), true
}

// serverLabel names a server that has no name: the virtual host and the policy, with
// their own slashes escaped as in a JSON Pointer, so that no two share a label.
func (g *Guard) serverLabel(host, policy string) string {
	name := escapeSlashes(host) + "/" + escapeSlashes(policy)
	g.servers[policy] = name
	return name
}

func escapeSlashes(s string) string {
	if strings.IndexByte(s, '/') < 0 && strings.IndexByte(s, '~') < 0 {
		return s
	}
	return strings.ReplaceAll(strings.ReplaceAll(s, "~", "~0"), "/", "~1")
}

// appendIdentity appends the caller's identity as canonical JSON: the list [source,
// value, …] of the first principal that gives one, or the digest of the credentials where
// the policy takes anonymous callers. detail says what else is wrong where there is none.
func (s *Stream) appendIdentity(dst []byte) (t []byte, refusal *mcp.Refusal, detail string) {
	for _, p := range s.policy.Principal {
		text, y, detail := s.appendPrincipal(dst, p)
		switch y {
		case broken:
			return dst, &mcp.IdentityRequired, detail
		case given:
			return text, nil, ""
		}
	}
	if !s.policy.Anonymous {
		return dst, &mcp.IdentityRequired, ""
	}
	return s.appendCredentials(dst), nil, ""
}

// tellNoIdentity says, once for each policy, where no identity came from: a filter
// that is to bring it may be missing, and the caller cannot know.
func (g *Guard) tellNoIdentity(p *policy.Policy) {
	if !g.once.first(remark{topic: aboutIdentity, name: p.Name}) {
		return
	}
	g.log("a call under the policy " + strconv.Quote(p.Name) + " has no identity: none came from " + p.Principals() +
		". A header that is sent twice, and a value that is not one line of text, refuse the call too")
}

// tellUnfit says, once for each source, that a value's type keeps it from standing for a
// caller, and gives the same for who called.
func (g *Guard) tellUnfit(p *policy.Policy, src *policy.Source, v *value) string {
	why := v.unfit(src)
	if why != "" && g.once.first(remark{topic: aboutValue, source: src}) {
		g.log("a call under the policy " + strconv.Quote(p.Name) + " is refused: " + why)
	}
	return why
}

// appendPrincipal asks every source of one principal. A value that is not one line of
// text, a number or a boolean, and a header sent twice, refuse.
func (s *Stream) appendPrincipal(dst []byte, p policy.Principal) (t []byte, y lookup, detail string) {
	dst = append(dst, '[')
	for i := range p {
		v, y := s.value(&p[i])
		if y == absent {
			return nil, absent, ""
		}
		if y == broken || v.text == "" {
			return nil, broken, s.g.tellUnfit(s.policy, &p[i], &v)
		}
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = canonical.AppendString(dst, []byte(p[i].Text))
		dst = append(dst, ',')
		dst = v.append(dst)
	}
	return append(dst, ']'), given, ""
}

// appendCredentials stands for the identity of an anonymous caller: the digest of all
// Authorization lines, of the cookies that do more than steer, and of the peer's
// certificate, so that callers with other credentials are still apart.
func (s *Stream) appendCredentials(dst []byte) []byte {
	b := s.g.buf[:0]
	add := func(kind byte, v string) {
		b = append(b, kind)
		b = binary.LittleEndian.AppendUint64(b, uint64(len(v)))
		b = append(b, v...)
	}
	for _, l := range s.head.lines {
		if l[0] == "authorization" {
			add('a', l[1])
		}
	}
	for _, c := range s.cookies() {
		add('c', c)
	}
	clear(s.g.cookies) // they lie in memory that the proxy lent
	if d, ok := s.host.Property(propPeerDigest); ok && len(d) > 0 {
		add('p', string(d))
	}
	s.g.buf = scratch.Keep(b)
	if len(b) == 0 {
		return append(dst, noCredentials...)
	}
	return appendAnonymous(dst, b)
}

func appendAnonymous(dst, credentials []byte) []byte {
	sum := sha256.Sum256(credentials)
	dst = append(dst, `["anonymous","`...)
	dst = hex.AppendEncode(dst, sum[:])
	return append(dst, `"]`...)
}

// noCredentials is the identity of all who show none.
var noCredentials = appendAnonymous(nil, nil)

// storedID is the SHA-256 over the canonical JSON array that names a key in its
// scope. An explicit key stands for one call whatever the tool, unless the policy says
// key_per_tool; a derived one always names its tool. root gives that of the call's first leg.
func (s *Stream) storedID(r *mcp.Request, sc scoped, key []byte, fingerprint [32]byte, root bool) [32]byte {
	b := append(s.g.buf[:0], `["callonce/key/1",`...)
	b = append(b, sc.text...)
	kind, tool := `,"x",`, []byte(nil)
	if key == nil {
		kind = `,"h",`
	}
	if key == nil || s.policy.KeyPerTool {
		tool = r.Name
	}
	b = append(b, kind...)
	b = canonical.AppendString(b, tool)
	b = append(b, ',')
	// requestState is opaque: each leg of a multi-round trip is a key of its own, the root
	// of them the one without.
	at := len(b)
	if !root {
		b = r.State(b)
	}
	if len(b) == at {
		b = append(b, `""`...)
	}
	b = append(b, ',')
	if key == nil {
		var digits [64]byte
		hex.Encode(digits[:], fingerprint[:])
		key = digits[:]
	}
	b = canonical.AppendString(b, key)
	b = append(b, ']')
	s.g.buf = scratch.Keep(b)
	return sha256.Sum256(b)
}

func hex16(b []byte) string {
	var digits [16]byte
	hex.Encode(digits[:], b[:8])
	return string(digits[:])
}

func itoa(n int) string { return strconv.Itoa(n) }

func putUint64(into []byte, v uint64) { binary.LittleEndian.PutUint64(into, v) }
