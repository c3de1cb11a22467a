package guard

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"strconv"
	"unicode/utf8"

	"github.com/callonce/callonce/canonical"
	"github.com/callonce/callonce/plugin/mcp"
	"github.com/callonce/callonce/plugin/policy"
)

// scoped is the part of the stored id that says whose call it is: nothing of one
// scope is ever shown to another.
type scoped struct {
	text      []byte // server, path, identity, scope values and session as canonical JSON, without brackets
	principal uint64 // digest of server and identity, for counting
	scope     uint64 // digest of the whole text, for counting
}

// findScope gathers the scope, or says why there is none.
func (s *Stream) findScope() (sc scoped, refusal *mcp.Refusal, detail string) {
	if s.call.server = s.serverName(); s.call.server == "" {
		return sc, &mcp.Unavailable, ""
	}
	identity, refusal := s.identity()
	if refusal != nil {
		return sc, refusal, ""
	}
	t := canonical.AppendString(nil, []byte(s.call.server))
	t = append(t, ',')
	if !utf8.ValidString(s.head.path) {
		return sc, &mcp.Unsupported, "the path is not UTF-8"
	}
	t = canonical.AppendString(t, []byte(s.head.path))
	t = append(append(t, ','), identity...)
	t = append(t, ",["...)
	for i, src := range s.policy.Scope {
		v, y := s.value(&src)
		if y == broken {
			return sc, &mcp.IdentityRequired, ""
		}
		if i > 0 {
			t = append(t, ',')
		}
		t = canonical.AppendString(t, []byte(v))
	}
	t = append(t, "],"...)
	session, y := s.value(&sessionSource)
	if y == broken && s.policy.Session {
		return sc, &mcp.IdentityRequired, ""
	}
	s.call.session = session
	if !s.policy.Session {
		session = ""
	}
	t = canonical.AppendString(t, []byte(session))
	sc.text = t
	sc.principal = digest(append(append([]byte(s.call.server), 0), identity...))
	sc.scope = digest(t)
	return sc, nil, ""
}

func digest(b []byte) uint64 {
	h := sha256.Sum256(b)
	return binary.LittleEndian.Uint64(h[:])
}

var sessionSource = policy.Source{Header: "mcp-session-id"}

// serverName is configured, else the virtual host's name and the policy's; never the
// chosen cluster, which a canary changes from call to call.
func (s *Stream) serverName() string {
	if s.policy.Server != "" {
		return s.policy.Server
	}
	host, ok := s.host.Property(propVirtualHost)
	if !ok || len(host) == 0 || !utf8.Valid(host) {
		return ""
	}
	name := string(host) + "/" + s.policy.Name
	s.g.servers[s.policy.Name] = name
	return name
}

// identity gives the caller's identity as canonical JSON: the list [source, value, …]
// of the first principal that yields, or the digest of the credentials where the
// policy takes anonymous callers.
func (s *Stream) identity() ([]byte, *mcp.Refusal) {
	for _, p := range s.policy.Principal {
		text, yields, bad := s.principal(p)
		if bad {
			return nil, &mcp.IdentityRequired
		}
		if yields {
			return text, nil
		}
	}
	if !s.policy.Anonymous {
		return nil, &mcp.IdentityRequired
	}
	return s.credentials(), nil
}

// principal asks every source of one principal. A value that is not one line of text,
// or a header sent twice, refuses.
func (s *Stream) principal(p policy.Principal) (text []byte, yields, bad bool) {
	text = append(text, '[')
	for i, src := range p {
		v, y := s.value(&src)
		if y == absent {
			return nil, false, false
		}
		if y == broken || v == "" {
			return nil, false, true
		}
		if i > 0 {
			text = append(text, ',')
		}
		text = canonical.AppendString(text, []byte(src.Text))
		text = append(text, ',')
		text = canonical.AppendString(text, []byte(v))
	}
	return append(text, ']'), true, false
}

// credentials stands for the identity of an anonymous caller: the digest of all
// Authorization and Cookie lines and of the peer's certificate, so that callers with
// other credentials are still apart.
func (s *Stream) credentials() []byte {
	h := sha256.New()
	var n [8]byte
	add := func(kind byte, v string) {
		putUint64(n[:], uint64(len(v)))
		h.Write([]byte{kind})
		h.Write(n[:])
		h.Write([]byte(v))
	}
	s.head.all("authorization", func(v string) { add('a', v) })
	s.head.all("cookie", func(v string) { add('c', v) })
	if d, ok := s.host.Property(propPeerDigest); ok && len(d) > 0 {
		add('p', string(d))
	}
	var sum [32]byte
	h.Sum(sum[:0])
	text := append([]byte(`["anonymous","`), make([]byte, 64)...)
	hex.Encode(text[len(text)-64:], sum[:])
	return append(text, `"]`...)
}

// storedID is the SHA-256 over the canonical JSON array that names a key in its
// scope. An explicit key stands for one call whatever the tool, unless the policy says
// key_per_tool; a derived one always names its tool.
func (s *Stream) storedID(r *mcp.Request, sc scoped, key []byte, fingerprint [32]byte) [32]byte {
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
	// requestState is opaque: each leg of a multi-round trip is a key of its own.
	if at := len(b); len(r.State(b)) > at {
		b = r.State(b)
	} else {
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
	s.g.buf = b
	return sha256.Sum256(b)
}

func hex16(b []byte) string { return hex.EncodeToString(b[:8]) }

func itoa(n int) string { return strconv.Itoa(n) }

func putUint64(into []byte, v uint64) { binary.LittleEndian.PutUint64(into, v) }
