package guard

import (
	"errors"
	"strings"
	"time"

	"github.com/callonce/callonce/plugin/internal/ledger"
	"github.com/callonce/callonce/plugin/internal/mcp"
)

// A proxy that loses a caller cuts the server's call. So a tool may have its calls made by the
// filter itself (detach): the caller's stream is held, and the answer, which comes to the
// worker and not to the stream, is read, settles the key, and goes to the caller if that is
// still there.
//
// The call has a Stream of its own, which has the claim's token and lease, and whose host has
// no request: what reads an answer along cannot tell the difference.

// Calls are HTTP calls that the filter makes.
type Calls interface {
	// Call sends a request to one of the proxy's clusters. What comes of it is for
	// [Guard.HTTPEnded], once and never before Call returns; an error says that it has certainly
	// not been sent.
	Call(cluster string, headers [][2]string, body []byte, timeout time.Duration) (id uint32, err error)
}

// detached is a call that the filter has made.
type detached struct {
	Stream
	host   calloutHost
	caller *Stream // nil once it has left
	policy uint64  // its number
	scope  uint64
	until  ledger.Mono // an answer that comes later than this does not come
}

// detachedCalls are those of a worker.
type detachedCalls struct {
	byID   map[uint32]*detached
	policy map[uint64]int // by its number, as in awaiting
	scope  map[uint64]int
}

func newDetachedCalls() detachedCalls {
	return detachedCalls{byID: map[uint32]*detached{}, policy: map[uint64]int{}, scope: map[uint64]int{}}
}

// answerOverdue is how much longer than its timeout a call may take to be answered, by the proxy at least.
const answerOverdue = 5 * tickEvery

// detaches reports whether the filter is to make the call itself. It cannot where the server has the call's headers already.
func (s *Stream) detaches() bool {
	if !s.call.tool.Detach || s.policy.Observe {
		return false
	}
	if s.wait.wentAhead() || s.g.Calls == nil {
		if s.g.once.first(remark{topic: aboutDetach}) {
			s.g.log("a call of a tool with detach goes on in its caller's stream, since this proxy does not hold headers while a body is read: it will not outlive its caller. Set allow_on_headers_stop_iteration: true where the proxy has it")
		}
		return false
	}
	return true
}

// detach makes a claimed call in the filter's name, and holds its caller.
func (s *Stream) detach(h ledger.Lease) Action {
	all, l := &s.g.detached, &s.policy.Limits
	if all.policy[h.Policy] >= l.Detached || all.scope[s.call.mark.Scope] >= l.DetachedPerScope {
		s.releaseUnsent(h)
		return s.refuse(&mcp.Capacity, "")
	}
	cluster := s.call.tool.DetachCluster
	if cluster == "" {
		name, _ := s.host.Property(propCluster)
		cluster = strings.Clone(string(name))
	}
	id, err := s.send(cluster)
	if err != nil {
		s.releaseUnsent(h)
		if s.g.once.first(remark{topic: aboutDetach, name: cluster}) {
			s.g.log("a call of a tool with detach was not sent: the proxy knows no cluster of the name that detach_cluster, or the route, has, or cannot call it")
		}
		return s.refuse(&mcp.Unavailable, "")
	}
	timeout := ledger.Mono(s.call.tool.DetachTimeout)
	d := &detached{caller: s, policy: h.Policy, scope: s.call.mark.Scope, until: s.g.now() + timeout + answerOverdue}
	d.Stream = Stream{
		g: s.g, host: &d.host, stage: forwarded, policy: s.policy, call: s.call, token: s.token, lease: h,
		reply: readAlong{cap: l.ReplyBytes},
	}
	d.call.id = mcp.RetainID(append([]byte(nil), s.call.id...))
	d.call.body, d.call.session = nil, ""
	s.callout = d
	// The lease is that stream's now: it is open until the answer has been read.
	s.g.leave(s)
	s.g.enter(&d.Stream)
	s.g.tokens++
	s.token.Generation = s.g.tokens
	all.byID[id] = d
	all.policy[d.policy]++
	all.scope[d.scope]++
	s.g.counts.gauge(s.label(), detachedNow).Add(1)
	s.g.counts.add(s.label(), meshRetriesOff)
	s.outcome(outFirst)
	if !s.call.derived && s.takesKeysOut() {
		s.state(stateTaken, "true")
	}
	s.stage = holding
	s.head = head{}
	s.call.body, s.call.session = nil, ""
	return Pause
}

// releaseUnsent frees the key of a call that was claimed and not sent.
func (s *Stream) releaseUnsent(h ledger.Lease) {
	s.g.store.Settle(h, ledger.Outcome{Event: ledger.Release})
	s.settledLease(&h)
}

// send sends the call as the proxy would, with the edits of a guarded call.
func (s *Stream) send(cluster string) (uint32, error) {
	if cluster == "" || !s.edit() {
		return 0, errors.New("cannot be sent")
	}
	lines, err := s.host.RequestHeaders()
	if err != nil {
		return 0, err
	}
	return s.g.Calls.Call(cluster, endToEnd(lines), s.call.body, s.call.tool.DetachTimeout)
}

// hopByHop are the headers of one connection (RFC 9110, section 7.6.1), those that frame a body, and the proxy's own that say how
// long a call may take or how often it is made.
var hopByHop = []string{
	"connection", "keep-alive", "proxy-connection", "te", "trailer", "transfer-encoding", "upgrade", "content-length", "expect",
	"proxy-authenticate", "proxy-authorization", "http2-settings",
	"x-envoy-upstream-rq-timeout-ms", "x-envoy-upstream-rq-per-try-timeout-ms", "x-envoy-upstream-stream-duration-ms", "x-envoy-upstream-rq-timeout-alt-response",
	"x-envoy-expected-rq-timeout-ms", "x-envoy-retry-on",
	"x-envoy-retry-grpc-on", "x-envoy-hedge-on-per-try-timeout",
}

// endToEnd leaves out the headers that are not for who answers.
func endToEnd(lines [][2]string) [][2]string {
	var named []string
	for _, l := range lines {
		if l[0] == "connection" {
			for _, name := range strings.Split(l[1], ",") {
				named = append(named, strings.ToLower(strings.Trim(name, " \t")))
			}
		}
	}
	out := make([][2]string, 0, len(lines))
	for _, l := range lines {
		if !isOneOf(l[0], hopByHop) && !isOneOf(l[0], named) {
			out = append(out, l)
		}
	}
	return out
}

func isOneOf(name string, names []string) bool {
	for _, n := range names {
		if n == name {
			return true
		}
	}
	return false
}

// HTTPEnded takes what has come of a call of the filter's own. Without headers nothing has.
func (g *Guard) HTTPEnded(id uint32, headers [][2]string, body []byte) {
	defer func() {
		if f := recover(); f != nil {
			g.fault(f)
		}
	}()
	d := g.detached.byID[id]
	if d == nil {
		return
	}
	d.enterCaller()
	if len(headers) == 0 {
		g.loseCall(id, d, byReset)
	} else {
		d.host.headers, d.host.chunk = headers, body
		d.ResponseHeaders(len(body) == 0)
		if len(body) > 0 {
			d.ResponseBody(len(body), false)
			d.host.chunk = nil
			d.ResponseBody(0, true)
		}
		d.Ended()
		g.end(id, d)
		if s := d.caller; s != nil {
			s.handOver(headers, body)
		}
	}
	g.lookReady()
}

// enterCaller makes the caller's stream, if it is there, the one that is published of and answered.
func (d *detached) enterCaller() {
	if d.caller != nil && d.caller.host.Enter() != nil {
		d.caller.callout, d.caller = nil, nil
	}
	d.host.caller = nil
	if d.caller != nil {
		d.host.caller = d.caller.host
	}
}

// loseCall ends a call of which no answer came, or is waited for any more.
func (g *Guard) loseCall(id uint32, d *detached, cause string) {
	d.settle(ledger.Outcome{Event: ledger.MarkUnknown}, cause)
	g.end(id, d)
	if s := d.caller; s != nil {
		s.answerLost()
	}
}

// end forgets a call that has settled.
func (g *Guard) end(id uint32, d *detached) {
	all := &g.detached
	delete(all.byID, id)
	if all.policy[d.policy]--; all.policy[d.policy] == 0 {
		delete(all.policy, d.policy)
	}
	if all.scope[d.scope]--; all.scope[d.scope] == 0 {
		delete(all.scope, d.scope)
	}
	label := d.label()
	how := detachedAnswered
	if d.caller == nil {
		how = detachedLeft
	} else {
		d.caller.callout = nil
	}
	d.Done()
	g.counts.gauge(label, detachedNow).Add(-1)
	g.counts.add(label, detachedEnded, how)
}

// handOver gives the caller the server's answer.
func (s *Stream) handOver(headers [][2]string, body []byte) {
	var a Action
	defer s.contain(request, &a)
	status, out := 0, make([][2]string, 0, len(headers))
	for _, l := range headers {
		switch {
		case l[0] == ":status":
			for _, c := range []byte(l[1]) {
				status = status*10 + int(c-'0')
			}
		case isOneOf(l[0], hopByHop), strings.HasPrefix(l[0], "x-envoy-"):
		default:
			out = append(out, l)
		}
	}
	s.answer(status, out, body)
}

// answerLost tells the caller that nobody knows what became of its call.
func (s *Stream) answerLost() {
	var a Action
	defer s.contain(request, &a)
	s.state(stateRefusal, mcp.Lost.Type)
	s.g.counts.add(s.label(), refusals, mcp.Lost.Type)
	s.tell(&mcp.Lost, "")
}

// leaveCallout notes that the caller has left: the call goes on.
func (s *Stream) leaveCallout() {
	if d := s.callout; d != nil {
		d.caller, d.host.caller, s.callout = nil, nil, nil
	}
}

// lookAtDetached is a tick's: of calls whose answers the proxy has lost, and of those that were cancelled.
func (g *Guard) lookAtDetached(now ledger.Mono) {
	for id, d := range g.detached.byID {
		cause := ""
		switch {
		case now > d.until:
			cause = byTimeout
		case d.call.tool.CancelStops && d.wasCancelled():
			cause = byCancelled
		default:
			continue
		}
		d.enterCaller()
		g.loseCall(id, d, cause)
	}
}

// calloutHost is the proxy as the stream of such a call sees it: an answer, and nothing else.
type calloutHost struct {
	headers [][2]string
	chunk   []byte
	caller  Host // nil once it has left
}

var errNoRequest = errors.New("a call of the filter's own has no request")

func (*calloutHost) HasRequestHeader(string) bool            { return false }
func (*calloutHost) RequestHeaders() ([][2]string, error)    { return nil, errNoRequest }
func (*calloutHost) Crowded() bool                           { return false }
func (*calloutHost) RequestBody(int) ([]byte, error)         { return nil, errNoRequest }
func (*calloutHost) SetRequestHeader(_, _ string) error      { return errNoRequest }
func (*calloutHost) RemoveRequestHeader(string) error        { return errNoRequest }
func (*calloutHost) ReplaceRequestBody([]byte) error         { return errNoRequest }
func (*calloutHost) RemoveResponseHeader(string) error       { return errNoRequest }
func (*calloutHost) ReplaceResponseBody([]byte) error        { return errNoRequest }
func (*calloutHost) Reply(int, [][2]string, []byte) error    { return errNoRequest }
func (*calloutHost) Resume() error                           { return errNoRequest }
func (*calloutHost) TotalSize() uint64                       { return 0 }
func (*calloutHost) Enter() error                            { return nil }
func (*calloutHost) Wake()                                   {} // who ends a call looks itself
func (*calloutHost) Attribute([]string) ([]byte, Presence)   { return nil, Missing }
func (h *calloutHost) ResponseHeaders() ([][2]string, error) { return h.headers, nil }
func (h *calloutHost) ResponseBody(size int) ([]byte, error) {
	return h.chunk[:min(size, len(h.chunk))], nil
}

// Property tells the server's answers from the proxy's: only through a server's goes the time that it took. Nothing else is known of a
// call, so none of the proxy's own proves that it was not sent.
func (h *calloutHost) Property(path []string) ([]byte, bool) {
	if &path[0] != &propDetails[0] {
		return nil, false
	}
	for _, l := range h.headers {
		if l[0] == "x-envoy-upstream-service-time" {
			return []byte(viaUpstream), true
		}
	}
	return []byte("callout"), true
}

// SetState publishes of the caller's stream, while that is there.
func (h *calloutHost) SetState(name, value string) {
	if h.caller != nil {
		h.caller.SetState(name, value)
	}
}

// How a call of the filter's own ended, as label values.
const (
	detachedAnswered = "answered" // its caller was there
	detachedLeft     = "left"     // its caller had left
)

var propCluster = []string{"xds", "cluster_name"}
