package guard

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/callonce/callonce/plugin/internal/ledger"
	"github.com/callonce/callonce/plugin/internal/mcp"
	"github.com/callonce/callonce/plugin/internal/policy"
)

// What is published of a call, so that access logs and traces can group repeats:
// hashes, the tool's name and the request's id, never a key, an argument or an
// identity.
const (
	stateKey       = "callonce.key_hash"
	stateTool      = "callonce.tool"
	stateArguments = "callonce.arguments_hash"
	stateRequest   = "callonce.request_id"
	stateSession   = "callonce.session_hash"
	stateAttempt   = "callonce.attempt"
	stateRepeats   = "callonce.repeats"
	stateSource    = "callonce.duplicate_source"
	stateRefusal   = "callonce.refusal"
	stateOutcome   = "callonce.outcome"
	stateMode      = "callonce.mode"
	stateResult    = "callonce.result_id"
	stateTaken     = "callonce.key_taken"
	stateSettled   = "callonce.settled"
	stateSettledBy = "callonce.settled_by"
	stateWaited    = "callonce.waited"
	stateHint      = "callonce.hint"
)

// maxPublished is the most bytes of a name or an id that are published.
const maxPublished = 128

// maxLogged is the most bytes of a line of the log.
const maxLogged = 4 << 10

func (s *Stream) publish(r *mcp.Request, scope scoped, fingerprint [32]byte) {
	s.publishCall(r)
	if s.logs(policy.FieldArguments) {
		// Scoped, so that nobody can tell from it that two tenants sent the same.
		var in [40]byte
		copy(in[:], fingerprint[:])
		putUint64(in[32:], sketch(string(scope.text)))
		s.publishHash(stateArguments, in[:])
	}
	if s.call.session != "" && s.logs(policy.FieldSession) {
		s.publishHash(stateSession, []byte(s.call.session))
	}
}

// publishKeyless publishes a call that no key stands for. ok is false, and nothing was
// published, where its scope is not known, or nobody wants to know of it.
func (s *Stream) publishKeyless(r *mcp.Request) (ok bool) {
	if !s.logs(policy.FieldArguments | policy.FieldSession) {
		return false
	}
	scope, refusal, _ := s.findScope()
	if refusal != nil {
		return false
	}
	s.publish(r, scope, s.fingerprint(r, true))
	return true
}

// publishUnguarded publishes a call that nothing guards, or that lacks what guards it.
func (s *Stream) publishUnguarded(r *mcp.Request) {
	if !s.publishKeyless(r) {
		s.publishCall(r)
	}
}

// publishCall publishes what a call says of itself.
func (s *Stream) publishCall(r *mcp.Request) {
	if s.logs(policy.FieldTool) {
		s.state(stateTool, view(r.Name))
	}
	if s.logs(policy.FieldRequest) {
		s.state(stateRequest, view(s.call.id))
	}
}

// logs reports whether one of the fields is published of the policy's calls.
func (s *Stream) logs(f policy.Fields) bool { return s.policy.Log.Has(f) }

// state publishes a value to access logs and traces.
func (s *Stream) state(name, value string) {
	s.host.SetState(name, OneLine(value, maxPublished))
}

// OneLine is what may be published of a text: all that goes to access logs, traces, logs
// and metrics goes through it. It gives the whole characters in the first most bytes, with
// a question mark for each that could end a line of a log, or steer what shows it, and
// U+FFFD for what is not UTF-8. A text that needs no change is given as it is, not copied.
func OneLine(text string, most int) string {
	end := min(len(text), most)
	for end > 0 && end < len(text) && !utf8.RuneStart(text[end]) {
		end--
	}
	text = text[:end]
	if isPlain(text) || utf8.ValidString(text) && strings.IndexFunc(text, steers) < 0 {
		return text
	}
	return strings.Map(func(c rune) rune {
		if steers(c) {
			return '?'
		}
		return c
	}, text)
}

// isPlain reports whether a text is printable ASCII, as most are.
func isPlain(text string) bool {
	for i := 0; i < len(text); i++ {
		if text[i] < ' ' || text[i] > '~' {
			return false
		}
	}
	return true
}

// steers reports control characters (C0, DEL and C1), what Unicode has to separate lines,
// and what turns the direction of a text, so that it shows in another order than it has.
func steers(c rune) bool {
	switch {
	case c < ' ', c >= 0x7f && c < 0xa0, c == '\u2028', c == '\u2029':
		return true
	case c == '\u061c', c == '\u200e', c == '\u200f', c >= '\u202a' && c <= '\u202e', c >= '\u2066' && c <= '\u2069':
		return true
	}
	return false
}

func (s *Stream) publishHash(name string, of []byte) {
	sum := sha256.Sum256(of)
	s.g.buf = hex.AppendEncode(s.g.buf[:0], sum[:8])
	s.state(name, view(s.g.buf))
}

// repeated counts and publishes what a repeat has in common with the first call.
func (s *Stream) repeated(a ledger.Answer) {
	attempt := a.Lease.Attempt
	if a.Verdict != ledger.First {
		attempt = a.Prior.Attempt
	}
	// That of a later one than the first an instance behind must know: see claimedAhead.
	if attempt > 1 || attempt > 0 && s.logs(policy.FieldAttempt) {
		s.state(stateAttempt, itoa(attempt))
	}
	if !a.Prior.Known || a.Verdict == ledger.RefusedConflict {
		return
	}
	now := a.At
	if now == 0 {
		now = s.g.now()
	}
	src := source(a.Prior, sketch(s.call.session), sketch(string(s.call.id)), now)
	s.g.counts.add(s.label(), duplicates, s.call.tool.Match, src)
	if s.logs(policy.FieldSource) {
		s.state(stateSource, src)
	}
	if s.policy.CountRepeats {
		if n := s.g.marks.Repeat(s.g.digest([]byte(s.call.operation)), max(s.call.tool.TTL, s.call.tool.Window)); n > 0 {
			s.state(stateRepeats, itoa(n))
		}
	}
}

// source tells which layer repeated a call, from what differs between the two.
func source(p ledger.Prior, session, request uint64, now ledger.Mono) string {
	near := func(t ledger.Mono) bool { return t != 0 && now-t <= ledger.Mono(time.Second) }
	soon := near(p.Claimed) || near(p.Settled)
	switch {
	case p.Session == 0 && session == 0:
		switch {
		case request == p.Request:
			return "transport"
		case soon:
			return "harness"
		}
		return "unknown"
	case session != p.Session:
		return "reconnect"
	case request == p.Request:
		return "transport"
	case soon:
		return "harness"
	}
	return "model"
}

// sketch is a short digest to compare by, 0 for nothing. It guards nothing: FNV-1a.
func sketch(text string) uint64 {
	if text == "" {
		return 0
	}
	h := uint64(14695981039346656037)
	for i := 0; i < len(text); i++ {
		h = (h ^ uint64(text[i])) * 1099511628211
	}
	return max(h, 1)
}

// notice counts what the ledger tells.
func (g *Guard) notice(what ledger.Notice, policy uint64) {
	server := g.serverOf(g.named(policy))
	switch what {
	case ledger.Evicted:
		g.counts.add(server, evictions)
	case ledger.Shed:
		g.counts.add(server, shed)
	case ledger.Orphaned:
		g.counts.add(server, settlements, "orphaned")
	case ledger.LateFenced:
		g.counts.add(server, settlements, "fenced")
	case ledger.BucketFull:
		g.counts.add(server, bucketsFull)
	case ledger.Foreign:
		g.counts.add("", foreignBytes)
	}
}

// settledLate counts a settlement that the ledger could not take at once.
func (g *Guard) settledLate(policy uint64, ev ledger.Event) {
	g.counts.add(g.serverOf(g.named(policy)), settlements, hows[ev])
}

// stateNames are the states of entries, as label values.
var stateNames = map[ledger.State]string{
	ledger.InFlight: "in_flight", ledger.Completed: "completed",
	ledger.Unknown: "outcome_unknown", ledger.NotReplayable: "not_replayable",
}

// census publishes what one pass over the table found.
func (g *Guard) census(policy uint64, c ledger.Census) {
	server := g.serverOf(g.named(policy))
	for state, name := range stateNames {
		g.counts.gauge(server, entries, name).Set(uint64(c.States[state]))
	}
	g.counts.gauge(server, replyBytes).Set(uint64(c.ReplyBytes))
}

// evicted publishes the age of the youngest entry that was ever evicted, in whole
// seconds and at least one: where it nears the time in which callers repeat, limits
// are too tight.
func (g *Guard) evicted(policy uint64, age time.Duration) {
	seconds := uint64(max(age/time.Second, 1))
	gauge := g.counts.gauge(g.serverOf(g.named(policy)), youngestEvicted)
	if was := gauge.Value(); was == 0 || seconds < was {
		gauge.Set(seconds)
	}
}

// serverOf is the label of a policy outside of any request: as configured, else as
// its requests showed it last.
func (g *Guard) serverOf(policy string) string {
	for _, p := range g.config.Policies {
		if p.Name == policy && p.Server != "" {
			return p.Server
		}
	}
	if server := g.servers[policy]; server != "" {
		return server
	}
	return policy
}
