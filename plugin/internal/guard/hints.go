package guard

import (
	"crypto/sha256"
	"strconv"
	"time"

	"github.com/callonce/callonce/plugin/internal/ledger"
	"github.com/callonce/callonce/plugin/internal/mcp"
	"github.com/callonce/callonce/plugin/internal/policy"
	"github.com/callonce/callonce/plugin/internal/scratch"
)

// With trust_hints the answers to tools/list that pass are read along. A tool that no entry of the configuration names, and that the
// server calls read-only or idempotent there, is not guarded then. What one caller was told counts for that caller alone (its scope), at the
// server that said it (route, cluster and path with query), in the worker that the answer came through, for an hour at most, and until the
// server says it anew. Whatever cannot be read, or kept, leaves tools guarded.

// hints are what servers said of their tools, as far as this worker has heard.
type hints struct {
	views  map[[32]byte]*hintView
	bytes  int    // of all of them, about
	clock  uint64 // counts uses of views
	rounds uint64 // counts first pages

	listings int // answers that are being read
	buffered int // bytes that they may keep
}

// hintView is what one caller was told of one server's tools.
type hintView struct {
	pages map[[32]byte]map[string]mcp.Hint // by the digest of the cursor that each was asked with
	round uint64
	asked uint64 // when its first page was asked for
	bytes int
	used  uint64
	until ledger.Mono
}

const (
	mostHintViews     = 256
	mostHintBytes     = 1 << 20
	mostHintViewBytes = mostHintBytes / 8
	mostHintName      = 128 // bytes of a tool's name: a longer one is not kept, and guarded
	hintOverhead      = 96  // about what an entry, or a page, takes besides its name, in bytes
	mostHintAnswer    = 1 << 20
	// A server chooses how slowly it lists: as many such answers are read at a time in this VM, and so many bytes of them all.
	mostListings      = 1024
	mostListingsBytes = 8 << 20
	hintsFor          = ledger.Mono(time.Hour)
)

// What became of hints, as label values.
const (
	hintsLearned = "learned"  // an answer was read
	hintsLeftOut = "left_out" // one could not be read, or kept: its tools are guarded
	hintsOff     = "off"      // a call went on unguarded for a hint
)

// hintNames are published of the calls that go on for them.
var hintNames = [...]string{mcp.ReadOnlyHint: "readOnlyHint", mcp.IdempotentHint: "idempotentHint"}

// listing is the answer to a tools/list on its way.
type listing struct {
	view   [32]byte
	page   [32]byte // zero for the first
	round  uint64   // of the view, when a later page was asked for
	id     []byte
	form   form
	body   mcp.Text
	events mcp.Events
	expect int // Content-Length, -1 = not given
	got    int
	kept   int    // bytes of it that are counted
	asked  uint64 // when, in the order of listings
}

// listens notes that a request asks for the server's tools, whose answer is to be read along.
func (s *Stream) listens(r *mcp.Request) {
	if !s.policy.TrustHints || string(r.Method()) != mcp.MethodTools || len(r.ID) == 0 {
		return
	}
	view, ok := s.hintView()
	if !ok {
		return
	}
	if s.g.hints.listings >= mostListings {
		s.g.counts.add(s.label(), hintsHeard, hintsLeftOut)
		s.g.hints.forget(view)
		return
	}
	s.g.hints.listings++
	s.g.hints.clock++
	l := &listing{asked: s.g.hints.clock, view: view, id: mcp.RetainID(append([]byte(nil), r.ID...)), expect: -1}
	if cursor := r.Cursor(); cursor != nil {
		l.page = sha256.Sum256(cursor)
		if v := s.g.hints.views[view]; v != nil {
			l.round = v.round
		}
	}
	if !s.wait.wentAhead() && !s.policy.Observe {
		_ = s.host.RemoveRequestHeader("accept-encoding") // what comes encoded all the same is left out
	}
	s.listing = l
}

// hintView names what a caller is told of a server's tools.
func (s *Stream) hintView() (view [32]byte, ok bool) {
	scope, refusal, _ := s.scopeOf()
	if refusal != nil {
		return view, false
	}
	b := append(s.g.buf[:0], scope.text...)
	for _, path := range [][]string{propRouteName, propCluster} {
		name, _ := s.host.Property(path)
		b = append(strconv.AppendInt(append(b, 0), int64(len(name)), 10), 0)
		b = append(b, name...)
	}
	for _, l := range s.head.lines {
		if l[0] == ":path" {
			b = append(append(b, 0), l[1]...)
		}
	}
	s.g.buf = scratch.Keep(b)
	return sha256.Sum256(b), true
}

// hint is what the server told this caller of the tool that it calls, where no entry names the tool.
func (s *Stream) hint(r *mcp.Request) mcp.Hint {
	h := &s.g.hints
	if !s.policy.TrustHints || s.call.tool != &s.policy.Unlisted || len(h.views) == 0 {
		return mcp.NoHint
	}
	view, ok := s.hintView()
	if !ok {
		return mcp.NoHint
	}
	return s.g.hintOf(view, string(r.Name))
}

// mayGuard gives what says of a tool whether its calls may be guarded. Hints of the very answer that lists it count: a key in an argument of
// a tool that nothing guards would go on to the server.
func (s *Stream) mayGuard() func(tool string) bool {
	p, g := s.policy, s.g
	if s.listing == nil {
		return func(tool string) bool { return p.Tool(tool).Guard != policy.GuardOff }
	}
	view := s.listing.view
	return func(tool string) bool {
		t := p.Tool(tool)
		return t.Guard != policy.GuardOff && (t != &p.Unlisted || g.hintOf(view, tool) == mcp.NoHint)
	}
}

// hintOf is the hint that all pages agree on which name a tool.
func (g *Guard) hintOf(view [32]byte, tool string) (hint mcp.Hint) {
	h := &g.hints
	v := h.views[view]
	if v == nil {
		return mcp.NoHint
	}
	if g.now() > v.until {
		h.forget(view)
		return mcp.NoHint
	}
	h.use(v)
	for _, page := range v.pages {
		switch its, is := page[tool]; {
		case !is:
		case its == mcp.NoHint:
			return mcp.NoHint
		default:
			hint = max(hint, its)
		}
	}
	return hint
}

// hinted lets a call go on unguarded, because the server's hint makes a guard needless. A key in an argument that strip takes out is no more
// the server's than in a guarded call: its caller cannot know which of them are guarded.
func (s *Stream) hinted(r *mcp.Request, body []byte, hint mcp.Hint) Action {
	s.g.counts.add(s.label(), hintsHeard, hintsOff)
	s.state(stateHint, hintNames[hint])
	if !s.policy.LogUnkeyed {
		s.publishCall(r)
	}
	return s.keylessCall(r, body)
}

// beginListing looks at the head of the answer. What it replaces is forgotten here, whatever comes of it.
func (s *Stream) beginListing(end bool) {
	l := s.listing
	lines, err := s.host.ResponseHeaders()
	details, _ := s.host.Property(propDetails)
	if err != nil || string(details) != viaUpstream {
		s.dropListing()
		return
	}
	status, contentType, encoding := 0, "", ""
	for _, line := range lines {
		switch line[0] {
		case ":status":
			status, _ = strconv.Atoi(line[1])
		case "content-type":
			contentType = line[1]
		case "content-encoding":
			encoding = join(encoding, line[1])
		case "content-length":
			if n, err := strconv.Atoi(line[1]); err == nil {
				l.expect = n
			}
		}
	}
	if status < 200 || status > 299 {
		s.dropListing() // no answer of the server's that lists anything
		return
	}
	s.g.hints.replaced(l)
	switch {
	case end || !mcp.IsIdentity(encoding):
		s.leaveOutListing()
	case mcp.IsEventStream(contentType):
		l.form, l.events.Cap = asEvents, mostHintAnswer
	case mcp.IsJSON(contentType):
		l.form, l.body.Cap = asJSON, mostHintAnswer
	default:
		s.leaveOutListing()
	}
}

// readListing reads what passes of the answer.
func (s *Stream) readListing(size int, end bool) {
	l, h := s.listing, &s.g.hints
	l.got += size
	h.buffered += min(l.got, mostHintAnswer) - l.kept
	if l.kept = min(l.got, mostHintAnswer); h.buffered > mostListingsBytes {
		s.leaveOutListing()
		return
	}
	if size > 0 {
		chunk, err := s.host.ResponseBody(size)
		if err != nil || len(chunk) != size {
			s.leaveOutListing()
			return
		}
		if l.form == asEvents {
			l.events.Feed(chunk, s.readListingEvent)
		} else {
			l.body.Add(chunk)
		}
	}
	switch {
	case s.listing == nil:
	case l.form == asJSON && l.body.Over:
		s.leaveOutListing()
	case l.form == asJSON && (end || l.got == l.expect):
		// Not before its end: it may be cut, or more may follow, and then it says nothing.
		if !s.learn(l.body.Bytes()) {
			s.leaveOutListing()
		}
	case end:
		s.leaveOutListing()
	}
}

// readListingEvent looks at one event of the answer; true ends the reading.
func (s *Stream) readListingEvent(data []byte) bool {
	if s.listing == nil {
		return true
	}
	if s.listing.events.Cut {
		s.leaveOutListing()
		return true
	}
	return s.learn(mcp.Trim(data))
}

// endListing is for an answer that trailers end.
func (s *Stream) endListing() {
	if l := s.listing; l.form != asJSON || !s.learn(l.body.Bytes()) {
		s.leaveOutListing()
	}
}

// learn keeps what a message lists. ok is false where it is not the answer.
func (s *Stream) learn(message []byte) (ok bool) {
	l, page, size, off := s.listing, map[string]mcp.Hint{}, hintOverhead, 0
	defer s.g.response.Release()
	ok = s.g.response.Hints(message, l.id, func(name []byte, hint mcp.Hint) {
		if len(name) > mostHintName {
			return
		}
		its, twice := page[string(name)]
		switch {
		case !twice && size <= mostHintViewBytes:
			size += hintOverhead + len(name)
			page[string(name)] = hint
		case twice && its != hint:
			page[string(name)] = mcp.NoHint
		}
	})
	if !ok {
		return false
	}
	if size > mostHintViewBytes || !s.g.hints.keep(l, page, size, s.g.now()) {
		s.leaveOutListing()
		return true
	}
	for name, hint := range page {
		if hint != mcp.NoHint && s.policy.Tool(name) == &s.policy.Unlisted {
			off++
		}
	}
	s.g.counts.add(s.label(), hintsHeard, hintsLearned)
	if s.g.once.first(remark{topic: aboutHints, name: s.policy.Name}) {
		s.g.log("policy " + strconv.QuoteToASCII(s.policy.Name) + " trusts hints: of " + itoa(len(page)) + " tools that the server lists " + itoa(off) +
			" are not guarded, which no entry names and the server calls read-only or idempotent. callonce_hints_total counts the calls")
	}
	s.dropListing()
	return true
}

// leaveOutListing gives an answer up that cannot be read, or kept: what it replaced is forgotten, and all that the view holds besides, since
// what is missing might have said that a tool destroys.
func (s *Stream) leaveOutListing() {
	s.g.counts.add(s.label(), hintsHeard, hintsLeftOut)
	s.g.hints.forget(s.listing.view)
	s.dropListing()
}

// dropListing ends the reading of such an answer.
func (s *Stream) dropListing() {
	if s.forgetListing(); s.stage == listed {
		s.stage = passing
	}
}

// forgetListing lets go of what was kept of such an answer.
func (s *Stream) forgetListing() {
	if l := s.listing; l != nil {
		s.g.hints.listings--
		s.g.hints.buffered -= l.kept
		s.listing = nil
	}
}

func (h *hints) use(v *hintView) {
	h.clock++
	v.used = h.clock
}

func (h *hints) forget(view [32]byte) {
	if v := h.views[view]; v != nil {
		h.bytes -= v.bytes
		delete(h.views, view)
	}
}

// replaced forgets what the answer to come says anew: all pages, or a later one.
func (h *hints) replaced(l *listing) {
	if l.page == [32]byte{} {
		if v := h.views[l.view]; v == nil || v.asked <= l.asked {
			h.forget(l.view)
		}
		return
	}
	if v := h.views[l.view]; v != nil && v.round == l.round {
		delete(v.pages, l.page) // its bytes stay counted until the first page comes anew
	}
}

// keep keeps a page. ok is false where there is no room. A later page counts only beside the first page that it was asked for with.
func (h *hints) keep(l *listing, page map[string]mcp.Hint, size int, now ledger.Mono) (ok bool) {
	v := h.views[l.view]
	first := l.page == [32]byte{}
	if !first && (v == nil || v.round != l.round) {
		return true
	}
	if first && v != nil && v.asked > l.asked {
		return true // the server has said it anew since
	}
	if first {
		h.forget(l.view)
		h.rounds++
		v = &hintView{asked: l.asked, pages: map[[32]byte]map[string]mcp.Hint{}, round: h.rounds, until: now + hintsFor}
	}
	if v.bytes+size > mostHintViewBytes {
		return false
	}
	if first {
		if h.views == nil {
			h.views = map[[32]byte]*hintView{}
		}
		h.views[l.view] = v
	}
	v.pages[l.page] = page
	v.bytes += size
	h.bytes += size
	h.use(v)
	for len(h.views) > mostHintViews || h.bytes > mostHintBytes {
		h.forgetOldest()
	}
	return true
}

// forgetOldest makes room.
func (h *hints) forgetOldest() {
	var oldest [32]byte
	used := uint64(0)
	for view, v := range h.views {
		if used == 0 || v.used < used {
			oldest, used = view, v.used
		}
	}
	h.forget(oldest)
}
