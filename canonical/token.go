package canonical

// The readers of tokens take the offset at which a token begins, and return the
// offset behind it, or the offset of a defect and its reason.

func (d *Doc) readLiteral(i int, parent Node) (int, Reason) {
	word, kind := "null", Null
	switch d.src[i] {
	case 't':
		word, kind = "true", True
	case 'f':
		word, kind = "false", False
	}
	for k := range len(word) {
		if i+k == len(d.src) || d.src[i+k] != word[k] {
			return i + k, WantLiteral
		}
	}
	end := i + len(word)
	e, _ := d.push()
	e.set(kind, verbatim, i, end, parent)
	return end, NoReason
}

func (d *Doc) readNumber(i int, parent Node) (int, Reason) {
	end, plain, reason := scanNumber(d.src, i)
	if reason != NoReason {
		return end, reason
	}
	e, _ := d.push()
	e.set(Number, 0, i, end, parent)
	if plain {
		e.flags = verbatim
	}
	return end, NoReason
}

// scanNumber reads the number token at src[i]. It also reports whether the token is
// plain: without an exponent, and its own canonical form.
func scanNumber(src []byte, i int) (end int, plain bool, reason Reason) {
	negative := src[i] == '-'
	if negative {
		i++
	}
	start := i
	i = skipDigits(src, i)
	whole := i - start
	if whole == 0 {
		return i, false, WantDigit
	}
	zero := src[start] == '0'
	if zero && whole > 1 {
		return start + 1, false, LeadingZero
	}
	plain = whole <= maxPoint && !(zero && negative)
	if i < len(src) && src[i] == '.' {
		start = i + 1
		i = skipDigits(src, start)
		if i == start {
			return i, false, WantDigit
		}
		plain = whole <= maxPoint && src[i-1] != '0' && !(zero && tiny(src[start:i]))
	}
	if i < len(src) && (src[i] == 'e' || src[i] == 'E') {
		i++
		if i < len(src) && (src[i] == '+' || src[i] == '-') {
			i++
		}
		start = i
		i = skipDigits(src, start)
		if i == start {
			return i, false, WantDigit
		}
		plain = false
	}
	return i, plain, NoReason
}

func skipDigits(src []byte, i int) int {
	for i < len(src) && src[i]-'0' <= 9 {
		i++
	}
	return i
}

// tiny reports whether 0.fraction is too small to be written without an exponent.
func tiny(fraction []byte) bool {
	for k := 0; k < len(fraction) && k < -minPoint; k++ {
		if fraction[k] != '0' {
			return false
		}
	}
	return true
}

func (d *Doc) readString(i int, parent Node) (int, Reason) {
	end, text, reason := d.readQuoted(i)
	if reason != NoReason {
		return end, reason
	}
	e, _ := d.push()
	d.setText(e, String, i, end, text, parent)
	if d.lone != none {
		e.flags |= lone
		d.lone = none
	}
	return end, NoReason
}

// readName reads a member's name, the colon and the white space around it; want is
// the reason when no name begins at i.
func (d *Doc) readName(i int, object Node, want Reason) (int, Reason) {
	if i == len(d.src) || d.src[i] != '"' {
		return i, want
	}
	end, text, reason := d.readQuoted(i)
	if d.lone != none {
		return d.lone, LoneSurrogate // before whatever else is wrong with it
	}
	if reason != NoReason {
		return end, reason
	}
	e, n := d.push()
	d.setText(e, memberName, i, end, text, object)
	o := &d.tape[object]
	if o.aux != none && CompareNames(d.decoded(Node(o.aux)), d.decoded(n)) >= 0 {
		o.flags |= unsorted
	}
	o.aux = int32(n)

	i = skipSpace(d.src, end)
	if i == len(d.src) || d.src[i] != ':' {
		return i, WantColon
	}
	return skipSpace(d.src, i+1), NoReason
}

// decoded is the text of the string or name in entry n. What lies behind it, up to
// its capacity, is not part of it.
func (d *Doc) decoded(n Node) []byte {
	e := &d.tape[n]
	if e.flags&escaped != 0 {
		return d.text[e.aux:e.tail]
	}
	return d.src[e.start+1 : e.end-1]
}
