package guard

import (
	"crypto/sha256"
	"encoding/binary"
	"slices"
	"strconv"
	"strings"

	"github.com/callonce/callonce/canonical"
	"github.com/callonce/callonce/plugin/internal/ledger"
	"github.com/callonce/callonce/plugin/internal/mcp"
	"github.com/callonce/callonce/plugin/internal/operator"
	"github.com/callonce/callonce/plugin/internal/policy"
)

// The interface at which operators see the keys of a policy and resolve them. It is there only where the policy names a
// path and whom it answers, and only for identities that somebody verified.

var operatorActs = &metric{"callonce_operator_acts_total", []string{"how"}}

// outOperators is published for its requests: no call was decided about.
const outOperators = "operators"

const actDenied = "denied"

var propPath = []string{"request", "path"}

// inquiry is what an operator, or a caller, waits for.
type inquiry struct {
	operator.Request
	who string // digest of the operator, "" = a caller
}

// operates answers a request of the interface. is is false for any other request.
func (s *Stream) operates() (a Action, is bool) {
	o := &s.policy.Operators
	path, _ := s.host.Property(propPath)
	if !operator.Asked(o.Path, view(path)) {
		return Continue, false
	}
	s.operated = true
	lines, err := s.host.RequestHeaders()
	if err != nil {
		return s.answerProblem(&failed), true
	}
	s.head = readHead(lines, s.policy)
	s.state(stateOutcome, outOperators)
	var q inquiry
	var problem *operator.Problem
	q.Request, problem = operator.Read(o.Path, s.head.method, string(path))
	if q.Kind == operator.Own {
		if !o.Callers {
			problem = &operator.Problem{Status: 404, Text: "callers may not ask here"}
		}
		if problem == nil {
			problem = s.ownScope(&q)
		}
	} else if q.who = s.operator(); q.who == "" {
		s.g.counts.add(s.label(), operatorActs, actDenied)
		problem = &operator.Problem{Status: 403, Text: "no identity that was verified fits operators.principal of the policy"}
	}
	if problem == nil {
		problem = s.checkInquiry(&q)
	}
	if problem != nil {
		return s.answerProblem(problem), true
	}
	return s.inquire(&q), true
}

// ownScope limits a question to what its caller has claimed.
func (s *Stream) ownScope(q *inquiry) *operator.Problem {
	s.head.path, _, _ = strings.Cut(q.Path, "?")
	scope, refusal, _ := s.scopeOf()
	if refusal != nil {
		return &operator.Problem{Status: 403, Text: "the proxy knows no identity to look under"}
	}
	if q.Query.Scope = s.g.shown(scope); q.Query.Scope == 0 {
		return &notFound // it would leave the choice open
	}
	return nil
}

var notFound = operator.Problem{Status: 404, Text: "there is no such key: it was never used, it has ended, or it is not yours to see"}

var failed = operator.Problem{Status: 503, Text: "the request could not be looked at: the proxy's log says why"}

// answerFault answers after a fault of our own.
func (s *Stream) answerFault() Action {
	return orNothing(func() Action { return s.answerProblem(&failed) })
}

// checkInquiry tells what the policy and the store make of a question.
func (s *Stream) checkInquiry(q *inquiry) *operator.Problem {
	q.Query.Policy = s.g.number(s.policy)
	if s.policy.LimitsOfProxy {
		// Policies share the number then; their tools have numbers of their own.
		w := s.g.words(s.policy)
		q.Query.Mine = func(tool uint64) bool { return w.Tool(tool) != "" }
	}
	if q.Tool != "" {
		if q.Query.Tool = knownTool(s.policy, q.Tool); q.Query.Tool == 0 {
			return &operator.Problem{Status: 400, Text: "tool must be there once, and be the match of one of the policy's tools"}
		}
	}
	switch {
	case s.g.keys == nil:
		return &operator.Problem{Status: 501, Text: "the store does not show its keys"}
	case q.Kind == operator.Resolve && !s.head.isJSON():
		// What no page of another site can make a browser send unasked.
		return &operator.Problem{Status: 415, Text: "Content-Type must be application/json; there need be no body"}
	case q.Kind == operator.Resolve && q.Query.From == "" && s.g.config.Store.Kind == policy.SharedData:
		return &operator.Problem{Status: 400, Text: "at must be given: GET shows each key with its path"}
	}
	return nil
}

// knownTool is what the ledger knows the tool of a match by, 0 where the policy has none.
func knownTool(p *policy.Policy, match string) uint64 {
	if p.Unlisted.Match == match || slices.ContainsFunc(p.Tools, func(t policy.Tool) bool { return t.Match == match }) {
		return toolNumber(p, match)
	}
	return 0
}

// inquire asks the store.
func (s *Stream) inquire(q *inquiry) Action {
	if q.Query.Operation != 0 {
		s.state(stateKey, operator.Operation(q.Query.Operation))
	}
	s.head = head{}
	if q.Kind == operator.Resolve {
		r, now := s.g.keys.Resolve(s.token, q.Query, q.Event)
		if !now {
			return s.awaitKeys(q)
		}
		s.g.tellAct(s.policy, s.label(), q, &r)
		return s.resolved(q, &r)
	}
	p, now := s.g.keys.List(s.token, q.Query)
	if !now {
		return s.awaitKeys(q)
	}
	return s.listed(q, &p)
}

// awaitKeys waits for the store.
func (s *Stream) awaitKeys(q *inquiry) Action {
	s.stage = asking
	s.g.inquiring[s.token] = &waitingInquiry{inquiry: *q, stream: s, policy: s.policy, label: s.label()}
	s.g.enter(s)
	return Pause
}

// waitingInquiry is one that the store has not answered.
type waitingInquiry struct {
	inquiry
	stream *Stream // nil = gone: only of an act, which is told all the same
	policy *policy.Policy
	label  string
}

// leaveInquiry says that nobody waits for an answer any more.
func (s *Stream) leaveInquiry() {
	w := s.g.inquiring[s.token]
	if w == nil {
		return
	}
	if w.stream = nil; w.Kind != operator.Resolve {
		delete(s.g.inquiring, s.token)
	}
}

// Listed implements ledger.KeysSink.
func (g *Guard) Listed(t ledger.Token, p ledger.Page) {
	g.inquired(t, func(s *Stream, w *waitingInquiry) { s.listed(&w.inquiry, &p) })
}

// Resolved implements ledger.KeysSink.
func (g *Guard) Resolved(t ledger.Token, r ledger.Resolution) {
	if w := g.inquiring[t]; w != nil {
		g.tellAct(w.policy, w.label, &w.inquiry, &r)
	}
	g.inquired(t, func(s *Stream, w *waitingInquiry) { s.resolved(&w.inquiry, &r) })
}

// inquired takes an answer that came later, in a callback that is not the stream's.
func (g *Guard) inquired(t ledger.Token, answer func(*Stream, *waitingInquiry)) {
	w := g.inquiring[t]
	if w == nil {
		return
	}
	delete(g.inquiring, t)
	if w.stream == nil || w.stream.host.Enter() != nil {
		return
	}
	var a Action
	defer w.stream.contain(request, &a)
	answer(w.stream, w)
}

// listed answers with a page, or with the one key that was asked for.
func (s *Stream) listed(q *inquiry, p *ledger.Page) Action {
	w := s.g.words(s.policy)
	switch {
	case p.Failed:
		return s.answerProblem(&operator.Problem{Status: 503, Text: "the store did not answer"})
	case q.Kind == operator.List:
		return s.answerKeys(200, w.AppendPage(nil, p))
	case len(p.Rows) == 0 && p.Next != "":
		return s.answerKeys(404, append(w.AppendPage([]byte(`{"error":"not found in this piece of the table: ask again with at=next","page":`), p), '}'))
	case len(p.Rows) == 0:
		return s.answerProblem(&notFound)
	case q.Kind == operator.Own:
		return s.answerKeys(200, w.AppendOwn(nil, &p.Rows[0]))
	}
	return s.answerKeys(200, w.AppendKey(nil, &p.Rows[0]))
}

// resolved answers what became of an act.
func (s *Stream) resolved(q *inquiry, r *ledger.Resolution) Action {
	w := s.g.words(s.policy)
	switch {
	case r.Failed:
		return s.answerProblem(&operator.Problem{Status: 503, Text: "the store did not answer: the act may have happened; look before you do it again"})
	case !r.Found:
		return s.answerProblem(&notFound)
	case !r.Done:
		return s.answerKeys(409, w.AppendResolved(nil, q.Event, r))
	}
	return s.answerKeys(200, w.AppendResolved(nil, q.Event, r))
}

// tellAct logs and counts what became of an act, and who did it.
func (g *Guard) tellAct(p *policy.Policy, label string, q *inquiry, r *ledger.Resolution) {
	act := operator.Acts[q.Event]
	key := "the key " + operator.Operation(q.Query.Operation) + " of the policy " + strconv.QuoteToASCII(p.Name)
	switch {
	case r.Failed:
		g.log("operator " + q.who + " wanted " + key + " to be " + act + ", and the store did not say whether it is")
		return
	case !r.Done:
		return
	}
	g.counts.add(label, operatorActs, act)
	was := operator.States[r.Row.State]
	if cause := causeWord(r.Row.Why.Cause); cause != "" {
		was += " by " + cause
	}
	w := g.words(p)
	g.log("operator " + q.who + " resolved " + key + " (tool " + strconv.QuoteToASCII(w.Tool(r.Row.Tool)) + ", " + was + "): " + act +
		", because " + strconv.QuoteToASCII(q.Reason))
}

func (s *Stream) answerProblem(p *operator.Problem) Action {
	return s.answerKeys(p.Status, operator.AppendProblem(nil, p.Text))
}

func (s *Stream) answerKeys(status int, body []byte) Action {
	return s.answer(status, [][2]string{{"content-type", "application/json"}, {"cache-control", "no-store"}}, body)
}

// words are what the ledger's numbers mean under a policy.
func (g *Guard) words(p *policy.Policy) operator.Words {
	return operator.Words{Base: p.Operators.Path, Now: g.now(), Cause: causeWord, Tool: func(number uint64) string {
		if g.numbers.tools[&p.Unlisted] == number {
			return p.Unlisted.Match
		}
		for i := range p.Tools {
			if g.numbers.tools[&p.Tools[i]] == number {
				return p.Tools[i].Match
			}
		}
		return ""
	}}
}

// operator gives a digest of the first entry of operators.principal that fits whoever asks, "" where none does: the first 16 hex
// digits of the SHA-256 of the list [source, value, …] as canonical JSON.
func (s *Stream) operator() string {
	for _, all := range s.policy.Operators.Who {
		fits := len(all) > 0
		for i := range all {
			fits = fits && s.isVerified(&all[i])
		}
		if !fits {
			continue
		}
		b := []byte{'['}
		for i := range all {
			if i > 0 {
				b = append(b, ',')
			}
			b = canonical.AppendString(b, []byte(all[i].Text))
			b = canonical.AppendString(append(b, ','), []byte(all[i].Value))
		}
		sum := sha256.Sum256(append(b, ']'))
		return hex16(sum[:8])
	}
	return ""
}

// isVerified reports whether a source has the value, or is a list that has it among others.
func (s *Stream) isVerified(v *policy.Verified) bool {
	got, is := s.value(&v.Source)
	if is == given {
		return got.text == v.Value
	}
	if v.Peer {
		return false
	}
	whole, there := s.host.Attribute(wholeMetadata)
	if there != Present {
		return false
	}
	list := lookUp(whole, v.Property[2:])
	for i := 0; list.kind == kindList; i++ {
		element, found := listElement(list.bytes, strconv.Itoa(i))
		if !found {
			return false
		}
		if t := readTyped(element); t.kind == kindText && string(t.bytes) == v.Value {
			return true
		}
	}
	return false
}

// shown is what operators know a scope by. Where the store is many processes', the digest that counts, which means nothing to another, will not
// do: who may read the store can test by this one whether a caller is who he thinks it is.
func (g *Guard) shown(sc scoped) uint64 {
	if g.config.Store.Kind == policy.SharedData {
		return sc.scope
	}
	sum := sha256.Sum256(sc.text)
	return binary.BigEndian.Uint64(sum[:])
}

// elsewhere answers a repeat of a call of which an operator said that it completed elsewhere.
func (s *Stream) elsewhere() ledger.Reply {
	message, start, end := mcp.CompletedElsewhere()
	return ledger.Reply{Status: 200, IDStart: start, IDEnd: end, Message: message}
}

// verdictsAsked are the refusals of a key that is there, of which its caller may want to know how it stands.
var verdictsAsked = map[int]bool{mcp.InFlight.Code: true, mcp.Conflict.Code: true, mcp.OutcomeUnknown.Code: true, mcp.NotReplayable.Code: true}

// ownPath is where the caller of a call may ask how its key stands.
func (s *Stream) ownPath(id *[32]byte) string {
	path := s.policy.Operators.Path + "/own/" + s.call.operation + "?path=" + operator.Escape(s.head.path)
	if s.g.keys == nil {
		return ""
	}
	if at := s.g.keys.At(id); at != "" {
		path += "&at=" + operator.Escape(at)
	}
	return path
}
