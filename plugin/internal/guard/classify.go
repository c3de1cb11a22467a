package guard

import "github.com/callonce/callonce/plugin/internal/mcp"

// class is what the headers alone say (rules 1 to 3 of the contract's order).
type class uint8

const (
	buffer class = iota
	sniff        // its first bytes say whether it is read
	pass
	stray
	unsupportedType
	encoded
	tooLarge
)

// facts are what of a policy and of a request's headers the class hangs on.
type facts uint16

const (
	mustGuard   facts = 1 << iota // the policy must guard
	onlyHeaders                   // all of its keys are headers
	advertises_                   // it adds something to answers, or learns from them
	keyed                         // a key header is there
	otherMethod                   // Mcp-Method names another method than tools/call
	post
	jsonBody
	likeJSON     // another type, under which JSON may stand
	contentCoded // by a Content-Encoding
	long         // by its Content-Length
	asksForTools // Mcp-Method says so, under a policy that trusts hints: its page is named in its body
)

// headRules are rules 1 to 3 of the contract's section 1, in its order. The first whose facts
// (all of when, none of unless) are given decides; what none decides is read.
var headRules = [...]struct {
	rule         int
	when, unless facts
	then         class
}{
	// Nothing to look for: no key header, in a policy that need not guard.
	{1, onlyHeaders, mustGuard | keyed | advertises_, pass},
	{1, otherMethod, mustGuard | keyed | asksForTools, pass},
	// Not a POST with a JSON body. What is POSTed under another type may be JSON to its server:
	// with a key header under whatever type, without one under those that are known for it.
	{2, post | mustGuard, jsonBody, unsupportedType},
	{2, keyed, post, stray},
	{2, 0, post, pass},
	{3, contentCoded | keyed | likeJSON, 0, encoded},
	{2, contentCoded | keyed, jsonBody, stray},
	{2, contentCoded, jsonBody, pass},
	{2, keyed, jsonBody, sniff},
	{2, likeJSON, onlyHeaders, sniff},
	{2, 0, jsonBody, pass},
	// Not readable as it is: refused where it is keyed, where the policy must guard, and where a
	// key may stand in the body.
	{3, contentCoded | keyed, 0, encoded},
	{3, contentCoded | mustGuard, 0, encoded},
	{3, contentCoded, onlyHeaders | otherMethod, encoded},
	{3, contentCoded, 0, pass},
	// Too long by its own length. Whether one without a key header may carry a key, its beginning
	// shows (oversize).
	{3, long | keyed, 0, tooLarge},
	{3, long | mustGuard, 0, tooLarge},
}

// classify decides by the headers.
func (s *Stream) classify() class { return classOf(s.facts()) }

func classOf(f facts) class {
	for i := range headRules {
		if r := &headRules[i]; f&r.when == r.when && f&r.unless == 0 {
			return r.then
		}
	}
	return buffer
}

func (s *Stream) facts() (f facts) {
	p, h := s.policy, &s.head
	for _, is := range [...]struct {
		fact facts
		is   bool
	}{
		{mustGuard, p.MustGuard},
		{onlyHeaders, p.HeaderKeysOnly},
		{advertises_, p.Advertise || p.TrustHints},
		{keyed, h.keyed},
		{otherMethod, h.namesOther()},
		{post, h.isPost()},
		{jsonBody, h.isJSON()},
		{likeJSON, !h.isJSON() && h.mayHoldJSON()},
		{contentCoded, !mcp.IsIdentity(h.encoding)},
		{long, h.length > p.MaxRequestBytes},
		{asksForTools, p.TrustHints && h.mcpMethod == mcp.MethodTools},
	} {
		if is.is {
			f |= is.fact
		}
	}
	return f
}

// namesOther reports whether a routing header names another method than tools/call.
func (h *head) namesOther() bool { return h.mcpMethod != "" && h.mcpMethod != mcp.ToolsCall }

// keyless reports whether the lack of a key shows already that there is nothing to look
// for (rule 1), so that the headers need not be read.
func (s *Stream) keyless() bool {
	p := s.policy
	if p.MustGuard || p.Advertise || p.TrustHints || !p.HeaderKeysOnly {
		return false
	}
	for i := range p.Keys {
		if s.host.HasRequestHeader(p.Keys[i].Header) {
			return false
		}
	}
	return true
}
