package record

// Elder is an entry version before this build's own. A build reads it, so that a
// change of code loses nothing: Read turns the bytes of such an entry, whose prefix is
// sound, into one of EntryVersion, or returns nil where it cannot.
type Elder struct {
	Version byte
	Read    func(old Entry) Entry
}

// Previous is the one that this build reads.
var Previous = Elder{Version: 1, Read: fromFirst}

const firstSize = 179 // bytes of an entry of the first version

// fromFirst reads an entry that does not say which tool was called, nor why it settled.
func fromFirst(old Entry) Entry {
	if len(old) != firstSize {
		return nil
	}
	e := append(make(Entry, 0, EntrySize), old...)
	e = append(e, make([]byte, EntrySize-firstSize)...)
	e[offVersion] = EntryVersion
	le.PutUint16(e, EntrySize)
	return e
}

// Current gives an entry in this build's version where it can; else as it is, which
// is then not readable: it refuses until it expires. What is not changed stays as
// stored: only the way that an event changes is written anew.
func Current(e Entry) Entry {
	if e[offVersion] == EntryVersion || Previous.Read == nil || e[offVersion] != Previous.Version {
		return e
	}
	n := Previous.Read(e)
	if len(n) != EntrySize || !n.Readable() || n.ID() != e.ID() {
		return e
	}
	return n
}
