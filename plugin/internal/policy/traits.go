package policy

import (
	"crypto/sha256"
	"encoding/binary"
	"strconv"
)

// Traits are digests of what of a configuration decides which stored key a call finds.
// Where one of them changes, keys from before become strangers.
type Traits struct {
	Namespace uint64
	Policies  []PolicyTraits
}

// PolicyTraits are those of one policy.
type PolicyTraits struct {
	Name    string
	Digests [traitCount]uint64
}

// The members that a policy's traits are made of, in the order of Digests. The last two
// are of the fingerprint: a key is found, and its repeat looks like another call.
const (
	traitServer = iota
	traitPrincipal
	traitAnonymous
	traitIgnoreCookies
	traitScope
	traitSession
	traitPath
	traitKeyPerTool
	traitBindRequestID
	traitTools
	traitCount
)

var traitNames = [traitCount]string{
	"server", "principal", "anonymous", "ignore_cookies", "scope", "session", "path", "key_per_tool", "bind_request_id", "tools (exclude, round)",
}

// Traits gives those of a configuration.
func (c *Config) Traits() Traits {
	t := Traits{Namespace: digestOf(c.Namespace)}
	for _, p := range c.Policies {
		t.Policies = append(t.Policies, p.traits())
	}
	return t
}

func (p *Policy) traits() PolicyTraits {
	t := PolicyTraits{Name: p.Name}
	d := &t.Digests
	if d[traitServer] = digestOf("server", p.Server); p.Server == "" {
		d[traitServer] = digestOf("policy", p.Name)
	}
	var parts []string
	for _, all := range p.Principal {
		parts = append(parts, strconv.Itoa(len(all)))
		parts = appendSources(parts, all)
	}
	d[traitPrincipal] = digestOf(parts...)
	d[traitAnonymous] = digestOf(strconv.FormatBool(p.Anonymous))
	if p.Anonymous {
		d[traitIgnoreCookies] = digestOf(p.IgnoreCookies...)
	}
	d[traitScope] = digestOf(appendSources(nil, p.Scope)...)
	d[traitSession] = digestOf(strconv.FormatBool(p.Session))
	d[traitPath] = digestOf(pathWords[p.Path])
	d[traitKeyPerTool] = digestOf(strconv.FormatBool(p.KeyPerTool))
	d[traitBindRequestID] = digestOf(strconv.FormatBool(p.BindRequestID))
	d[traitTools] = digestOf(p.shapes()...)
	return t
}

func appendSources(dst []string, sources []Source) []string {
	for i := range sources {
		dst = append(dst, sources[i].Text)
	}
	return dst
}

// shapes are the members of tool entries that leave something out of fingerprints.
func (p *Policy) shapes() (parts []string) {
	for i := range p.Tools {
		t := &p.Tools[i]
		if len(t.Exclude)+len(t.Round) == 0 {
			continue
		}
		parts = append(parts, t.Match, strconv.Itoa(len(t.Exclude)))
		parts = append(parts, t.Exclude...)
		for _, r := range t.Round {
			parts = append(parts, r.Pointer, strconv.FormatInt(int64(r.Seconds), 10))
		}
	}
	return parts
}

// digestOf tells lists of texts apart. It is short: it guards nothing.
func digestOf(parts ...string) uint64 {
	var b []byte
	for _, p := range parts {
		b = binary.LittleEndian.AppendUint64(b, uint64(len(p)))
		b = append(b, p...)
	}
	sum := sha256.Sum256(b)
	return binary.LittleEndian.Uint64(sum[:])
}

// Forgets names what of a configuration before this one keys hung on and hang on no more, each
// by its JSON Pointer: lost are those whose keys are not found again, unlike those whose
// repeats look like other calls.
func (t Traits) Forgets(before Traits) (lost, unlike []string) {
	if t.Namespace != before.Namespace {
		return []string{"/namespace"}, nil
	}
	for i := range before.Policies {
		was := &before.Policies[i]
		now := t.successor(before, was)
		if now == nil {
			lost = append(lost, printable(child("/policies", was.Name))+" (it is gone)")
			continue
		}
		for i, d := range now.Digests {
			if d == was.Digests[i] {
				continue
			}
			at := printable(child("/policies", now.Name)) + "/" + traitNames[i]
			if i < traitBindRequestID {
				lost = append(lost, at)
			} else {
				unlike = append(unlike, at)
			}
		}
	}
	return lost, unlike
}

// successor is the policy of the same name, else a new one of the same server: a policy's
// own name is no part of a key where the server has one. nil = none.
func (t Traits) successor(before Traits, was *PolicyTraits) *PolicyTraits {
	if i := t.find(was.Name); i >= 0 {
		return &t.Policies[i]
	}
	for i := range t.Policies {
		p := &t.Policies[i]
		if p.Digests[traitServer] == was.Digests[traitServer] && before.find(p.Name) < 0 {
			return p
		}
	}
	return nil
}

func (t Traits) find(name string) int {
	for i := range t.Policies {
		if t.Policies[i].Name == name {
			return i
		}
	}
	return -1
}

// A record of traits: namespace u64 | of each policy: length of the name u16, name,
// digests u64. Little endian.

// Append appends the traits as they are stored.
func (t Traits) Append(dst []byte) []byte {
	dst = binary.LittleEndian.AppendUint64(dst, t.Namespace)
	for i := range t.Policies {
		p := &t.Policies[i]
		dst = binary.LittleEndian.AppendUint16(dst, uint16(len(p.Name)))
		dst = append(dst, p.Name...)
		for _, d := range p.Digests {
			dst = binary.LittleEndian.AppendUint64(dst, d)
		}
	}
	return dst
}

// ReadTraits reads what Append wrote. ok is false for anything else.
func ReadTraits(b []byte) (t Traits, ok bool) {
	if len(b) < 8 {
		return t, false
	}
	t.Namespace, b = binary.LittleEndian.Uint64(b), b[8:]
	for len(b) > 0 {
		if len(b) < 2 {
			return t, false
		}
		n := int(binary.LittleEndian.Uint16(b))
		if b = b[2:]; len(b) < n+8*traitCount {
			return t, false
		}
		p := PolicyTraits{Name: string(b[:n])}
		b = b[n:]
		for i := range p.Digests {
			p.Digests[i], b = binary.LittleEndian.Uint64(b), b[8:]
		}
		t.Policies = append(t.Policies, p)
	}
	return t, true
}
