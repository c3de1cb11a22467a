package ledger

// Keys is what operators ask of a store: what it holds, and how an outcome that nobody knows is resolved. What has
// to wait is answered through KeysSink.
type Keys interface {
	// List looks at a bounded piece of what there is, from where a page before it ended. When the second result is false,
	// KeysSink.Listed follows, once.
	List(Token, Query) (Page, bool)
	// Resolve lets one of the Resolve events happen to a key, if it is what it was when it was listed. When the second
	// result is false, KeysSink.Resolved follows, once.
	Resolve(Token, Query, Event) (Resolution, bool)
	// At is where the entry of a stored id lies, as Row.At says it.
	At(id *[32]byte) string
}

// KeysSink takes the answers that came later.
type KeysSink interface {
	Listed(Token, Page)
	Resolved(Token, Resolution)
}

// Query says which keys are meant. A member that is zero leaves the choice open.
type Query struct {
	Policy    uint64 // always given: of its keys only
	States    uint8  // a bit for each State
	Tool      uint64
	Scope     uint64 // as Row.Scope has it
	Operation uint64 // the first eight bytes of the stored id, big endian
	MinAge    Mono   // since the claim
	From      string // where the page begins: Page.Next, or Row.At
	Only      bool   // the one piece that From names and no other
	Most      int    // rows from which on a page ends
	// Mine reports whether a tool is the asker's, where policies share a number. nil = any is.
	Mine func(tool uint64) bool
}

// Page is a piece of what a store holds.
type Page struct {
	Rows   []Row
	Next   string // where the next page begins, "" = this was the last
	Hidden int    // records that could not be read
	Failed bool   // the store did not answer: the rest is not known
}

// Row is what is shown of a key: nothing that a caller sent.
type Row struct {
	Operation uint64
	At        string // where it lies, for Query.From; "" = its operation says it
	State     State
	Tool      uint64 // as its Claim gave it, 0 = not known
	Scope     uint64 // digest, 0 = not known
	Attempt   int
	Claimed   Mono
	Settled   Mono // 0 = in flight
	Expires   Mono // 0 = not known, or not by time
	Why       Why
	Elsewhere bool // an operator said that the call ran
	Held      bool // an operator lets nobody take it over
}

// Resolution is what became of one act of an operator.
type Resolution struct {
	Found  bool
	Done   bool // else the key is not one that takes the event
	Failed bool // the store did not answer: it may have happened
	Row    Row  // as it was before
}

// Fits reports whether a row is one that is meant, its policy aside.
func (q *Query) Fits(r *Row, now Mono) bool {
	return (q.Mine == nil || q.Mine(r.Tool)) && (q.States == 0 || q.States&(1<<r.State) != 0) && (q.Tool == 0 || q.Tool == r.Tool) && (q.Scope == 0 || q.Scope == r.Scope) &&
		(q.Operation == 0 || q.Operation == r.Operation) && (q.MinAge == 0 || now-r.Claimed >= q.MinAge)
}
