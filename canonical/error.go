package canonical

import "strconv"

// Reason says which rule a text breaks.
type Reason uint8

// The reasons of an [Error]. Those named Want… mean that the byte at the offset, or
// the end of the text, stands where the grammar of RFC 8259 wants something else.
const (
	// NoReason is the zero value; no Error carries it.
	NoReason Reason = iota
	// WantValue: no value begins here.
	WantValue
	// WantElement: after '[', neither a value nor ']' begins here.
	WantElement
	// WantMember: after '{', neither a member name nor '}' begins here.
	WantMember
	// WantName: after ',', no member name begins here.
	WantName
	// WantColon: a member name is not followed by ':'.
	WantColon
	// WantMemberEnd: a member's value is followed by neither ',' nor '}'.
	WantMemberEnd
	// WantElementEnd: an element is followed by neither ',' nor ']'.
	WantElementEnd
	// WantEnd: the one value of the text is followed by something.
	WantEnd
	// WantLiteral: a word that begins like true, false or null goes on otherwise.
	WantLiteral
	// WantDigit: a digit is missing after '-', '.', or in an exponent.
	WantDigit
	// LeadingZero: a digit follows a number's leading zero.
	LeadingZero
	// WantQuote: the text ends inside a string.
	WantQuote
	// WantEscape: a backslash is followed by none of "\/bfnrtu.
	WantEscape
	// WantHex: \u is not followed by four hexadecimal digits.
	WantHex
	// ControlCharacter: a byte below 0x20 stands in a string unescaped.
	ControlCharacter
	// LoneSurrogate: an escape in a member's name is one half of a surrogate pair
	// without the other. The offset is that of its backslash. In a value it is no
	// defect.
	LoneSurrogate
	// NotUTF8: the bytes from here on are not well-formed UTF-8 (Unicode 16, table
	// 3-7). The offset is that of the first byte of the ill-formed sequence.
	NotUTF8
	// ByteOrderMark: the text begins with U+FEFF.
	ByteOrderMark
	// DuplicateName: a member's name is that of an earlier member of the same
	// object. The offset is that of the later name's opening quote.
	DuplicateName
	// TooDeep: a container is opened inside MaxDepth others.
	TooDeep
	// TooLong: the text is longer than MaxLength bytes.
	TooLong
	// TooMany: the text has more values and member names than Doc.Limit allows. The
	// offset is that of the first value, or object member, beyond it.
	TooMany
)

// wanted holds, for each reason that is a break of the grammar, what was expected.
var wanted = [...]string{
	WantValue:        "a value",
	WantElement:      "a value or ']'",
	WantMember:       "a member name or '}'",
	WantName:         "a member name",
	WantColon:        "':' after a member name",
	WantMemberEnd:    "',' or '}' after a member",
	WantElementEnd:   "',' or ']' after an element",
	WantEnd:          "nothing after the value",
	WantLiteral:      "true, false or null",
	WantDigit:        "a digit",
	LeadingZero:      "no digit after a leading zero",
	WantQuote:        "the closing quote of a string",
	WantEscape:       "one of \"\\/bfnrtu after a backslash",
	WantHex:          "four hexadecimal digits after \\u",
	ControlCharacter: "an escape for a control character",
	LoneSurrogate:    "both halves of a surrogate pair",
	NotUTF8:          "well-formed UTF-8",
	ByteOrderMark:    "no byte order mark",
	DuplicateName:    "a name not used before in its object",
	TooDeep:          "at most " + maxDepthText + " containers inside one another",
	TooLong:          "at most " + maxLengthText + " bytes of text",
	TooMany:          "no more values than the reader is to take",
}

// String says what the rule demands, without a full stop.
func (r Reason) String() string {
	if r == NoReason || int(r) >= len(wanted) {
		return "reason " + strconv.Itoa(int(r))
	}
	return wanted[r]
}

// EndOfText is the value of [Error.Found] when the text ends at the offset.
const EndOfText = -1

// Error is the refusal of a text. It never quotes the text beyond one byte, so that
// it can be logged where the text itself may not be.
type Error struct {
	// Offset of the earliest defect, in bytes from the start of the text; the
	// length of the text when it ends too early.
	Offset int
	Reason Reason
	// Found is the byte at Offset, or EndOfText.
	Found int
	// First is the offset of the opening quote of the name that a DuplicateName
	// repeats; 0 for other reasons.
	First int
}

// Error says what was expected, what was found, and where.
func (e *Error) Error() string {
	buf := make([]byte, 0, 96)
	buf = append(buf, "JSON: at byte "...)
	buf = strconv.AppendInt(buf, int64(e.Offset), 10)
	buf = append(buf, ": expected "...)
	buf = append(buf, e.Reason.String()...)
	buf = append(buf, ", found "...)
	return string(e.appendFound(buf))
}

func (e *Error) appendFound(buf []byte) []byte {
	switch {
	case e.Reason == DuplicateName:
		buf = append(buf, "the name at byte "...)
		return append(strconv.AppendInt(buf, int64(e.First), 10), " again"...)
	case e.Reason == LoneSurrogate:
		return append(buf, "one half alone"...)
	case e.Found < 0:
		return append(buf, "the end of the text"...)
	case e.Found > ' ' && e.Found < 0x7f:
		return append(buf, '\'', byte(e.Found), '\'')
	default:
		const hex = "0123456789abcdef"
		return append(buf, '0', 'x', hex[e.Found>>4&15], hex[e.Found&15])
	}
}
