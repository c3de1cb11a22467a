package ledger

// previous is the entry version before this build's own. A build reads it, so that a
// change of code loses nothing: read turns the bytes of such an entry, whose prefix is
// sound, into one of entryVersion, or returns nil where it cannot. The first version
// has none before it.
var previous struct {
	version byte
	read    func(old entry) entry
}

// current gives an entry in this build's version where it can; else as it is, which
// is then not readable: it refuses until it expires. What is not changed stays as
// stored: only the way that an event changes is written anew.
func current(e entry) entry {
	if e[offVersion] == entryVersion || previous.read == nil || e[offVersion] != previous.version {
		return e
	}
	n := previous.read(e)
	if len(n) != entrySize || !n.readable() || n.id() != e.id() {
		return e
	}
	return n
}
