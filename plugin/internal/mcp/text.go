package mcp

// Text gathers a JSON text that comes in pieces. White space between its tokens does not
// count towards Cap: where the text would be too long with it, it is left out, and the
// value stays the same. The zero value with a Cap is ready.
type Text struct {
	Cap  int  // most bytes that are kept
	Over bool // the text is longer; what is kept is its beginning

	kept     []byte
	squeezes bool // white space is left out from the beginning on
	quoted   bool
	escaped  bool
	gap      bool // white space was left out before what comes next
}

// Bytes is what is kept, good until the next call.
func (t *Text) Bytes() []byte { return t.kept }

// Len is the length of what is kept, in bytes.
func (t *Text) Len() int { return len(t.kept) }

// Add takes the next piece.
func (t *Text) Add(piece []byte) {
	switch {
	case t.Over:
		return
	case t.squeezes:
		t.squeeze(piece)
		return
	case len(t.kept)+len(piece) <= t.Cap:
		t.kept = append(t.kept, piece...)
		return
	}
	t.squeezes = true
	whole := t.kept
	t.kept = whole[:0] // never overtakes what is read
	t.squeeze(whole)
	t.squeeze(piece)
}

// Reset begins another text in the same memory.
func (t *Text) Reset() { *t = Text{Cap: t.Cap, kept: t.kept[:0]} }

func (t *Text) squeeze(piece []byte) {
	for _, c := range piece {
		switch {
		case t.escaped:
			t.escaped = false
		case t.quoted:
			t.escaped = c == '\\'
			t.quoted = c != '"'
		case isSpace(c):
			t.gap = true
			continue
		default:
			t.quoted = c == '"'
			if t.gap && len(t.kept) > 0 && !t.part(c) {
				return
			}
			t.gap = false
		}
		if len(t.kept) >= t.Cap {
			t.Over = true
			return
		}
		t.kept = append(t.kept, c)
	}
}

// part keeps two words apart that would be one without the white space between them.
func (t *Text) part(next byte) bool {
	if isMark(next) || isMark(t.kept[len(t.kept)-1]) {
		return true
	}
	if len(t.kept) >= t.Cap {
		t.Over = true
		return false
	}
	t.kept = append(t.kept, ' ')
	return true
}

// isMark reports a byte that is a token, or ends one, by itself.
func isMark(c byte) bool {
	switch c {
	case '{', '}', '[', ']', ',', ':', '"':
		return true
	}
	return false
}
