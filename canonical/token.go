package canonical

import "math/bits"

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
	end := i + len(word)
	if end > len(d.src) || string(d.src[i:end]) != word {
		for k := range len(word) {
			if i+k == len(d.src) || d.src[i+k] != word[k] {
				return i + k, WantLiteral
			}
		}
	}
	e, _ := d.push()
	e.set(kind, verbatim, i, end, parent)
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
	for i+8 <= len(src) {
		x := load(src[i:i+8]) ^ '0'*ones
		if marks := (x&^tops + (0x7f-9)*ones | x) & tops; marks != 0 {
			return i + bits.TrailingZeros64(marks)>>3
		}
		i += 8
	}
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

// readName reads a member's name, the colon and the white space around it; want is
// the reason when no name begins at i.
func (d *Doc) readName(i int, object Node, want Reason) (int, Reason) {
	src := d.src
	if i == len(src) || src[i] != '"' {
		return i, want
	}
	end, f := skipPlain(src, i+1), verbatim
	plain := end < len(src) && src[end] == '"'
	if plain {
		end++
	} else {
		var reason Reason
		end, f, reason = d.readText(end)
		if f&lone != 0 {
			return d.lone, LoneSurrogate // before whatever else is wrong with it
		}
		if reason != NoReason {
			return end, reason
		}
		if f&verbatim == 0 {
			d.flaw = i
		}
	}
	e, n := d.push()
	e.set(memberName, f, i, end, object)
	var h uint64
	switch start := i + 1; {
	case f&escaped != 0:
		d.decode(e)
		h = head(d.text[e.aux:e.tail])
	case plain && start+8 <= len(src):
		h = load(src[start : start+8])
		if l := end - 1 - start; l < 8 {
			h &= 1<<(8*l) - 1
		}
		h = bits.ReverseBytes64(h)
		e.setHead(h)
	default:
		h = head(src[start : end-1])
		e.setHead(h)
	}
	o := &d.tape[object]
	if last := Node(o.aux); last != none {
		if before := d.head(last); before > h || before == h && CompareNames(d.decoded(last), d.decoded(n)) >= 0 {
			o.flags |= unsorted
		}
	}
	o.aux = int32(n)

	i = end
	if i < len(src) && src[i] <= ' ' {
		i = d.skipFlaw(i)
	}
	if i == len(src) || src[i] != ':' {
		return i, WantColon
	}
	i++
	if i < len(src) && src[i] <= ' ' {
		i = d.skipFlaw(i)
	}
	return i, NoReason
}

// decoded is the text of a name, or of a string that was decoded if it has escapes, in
// entry n. What lies behind it, up to its capacity, is not part of it.
func (d *Doc) decoded(n Node) []byte {
	e := &d.tape[n]
	if e.flags&escaped != 0 {
		return d.text[e.aux:e.tail]
	}
	return d.src[e.start+1 : e.end-1]
}

// decode writes the text of a string or name with escapes behind d.text.
func (d *Doc) decode(e *entry) {
	e.aux = int32(len(d.text))
	d.text = appendDecoded(d.text, d.src[e.start:e.end])
	e.tail = int32(len(d.text))
}
