package canonical_test

import (
	"bytes"
	"fmt"
	"iter"
	"math/big"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"unicode/utf16"
	"unicode/utf8"

	"pgregory.net/rapid"
)

// The tests' own idea of a JSON value, and its canonical form by the shortest road,
// without any code of the package.

// model is nil, a bool, a decimal, a string, an array or an object.
type model any

type array []model

type object []member

type member struct {
	name  string
	value model
}

// decimal is ±digits × 10^exponent; digits do not end in 0, and are empty for zero.
type decimal struct {
	negative bool
	digits   string
	exponent *big.Int
}

var numberToken = regexp.MustCompile(`^(-?)(0|[1-9][0-9]*)(?:\.([0-9]+))?(?:[eE]([+-]?[0-9]+))?$`)

// decimalOf gives nil for what is no JSON number.
func decimalOf(token string) *decimal {
	parts := numberToken.FindStringSubmatch(token)
	if parts == nil {
		return nil
	}
	exponent := new(big.Int)
	if parts[4] != "" {
		exponent.SetString(parts[4], 10)
	}
	exponent.Sub(exponent, big.NewInt(int64(len(parts[3]))))
	all := parts[2] + parts[3]
	digits := strings.TrimRight(all, "0")
	exponent.Add(exponent, big.NewInt(int64(len(all)-len(digits))))
	digits = strings.TrimLeft(digits, "0")
	if digits == "" {
		return &decimal{exponent: new(big.Int)}
	}
	return &decimal{parts[1] == "-", digits, exponent}
}

// canonical follows the steps of Number::toString in ECMA-262.
func (d *decimal) canonical() string {
	if d.digits == "" {
		return "0"
	}
	sign := ""
	if d.negative {
		sign = "-"
	}
	k := len(d.digits)
	point := new(big.Int).Add(d.exponent, big.NewInt(int64(k)))
	n := 1000
	if point.IsInt64() && point.Int64() > -100 && point.Int64() < 100 {
		n = int(point.Int64())
	}
	switch {
	case k <= n && n <= 21:
		return sign + d.digits + strings.Repeat("0", n-k)
	case 0 < n && n <= 21:
		return sign + d.digits[:n] + "." + d.digits[n:]
	case -6 < n && n <= 0:
		return sign + "0." + strings.Repeat("0", -n) + d.digits
	}
	exponent := new(big.Int).Sub(point, big.NewInt(1))
	mantissa := d.digits[:1]
	if k > 1 {
		mantissa += "." + d.digits[1:]
	}
	return fmt.Sprintf("%s%se%+d", sign, mantissa, exponent)
}

// spell writes the same value in one of the many ways there are.
func (d *decimal) spell(r *rand.Rand) string {
	digits, exponent := d.digits, new(big.Int).Set(d.exponent)
	if digits == "" {
		digits = "0"
		exponent.SetInt64(int64(r.IntN(2000) - 1000))
	}
	zeros := r.IntN(4)
	digits += strings.Repeat("0", zeros)
	exponent.Sub(exponent, big.NewInt(int64(zeros)))
	if exponent.IsInt64() && exponent.Int64() > 0 && exponent.Int64() < 40 && r.IntN(2) == 0 {
		digits += strings.Repeat("0", int(exponent.Int64()))
		exponent.SetInt64(0)
	}
	// digits[:point] stands before the decimal point; negative: zeros between them.
	point := len(digits)
	if r.IntN(3) > 0 {
		point = r.IntN(len(digits)+6) - 5
		if e := exponent.Int64(); exponent.IsInt64() && e < 0 && e > -40 && r.IntN(2) == 0 {
			point = len(digits) + int(e)
		}
		exponent.Add(exponent, big.NewInt(int64(len(digits)-point)))
	}
	whole, fraction := "0", ""
	if point <= 0 {
		fraction = strings.Repeat("0", -point) + digits
	} else {
		whole, fraction = digits[:point], digits[point:]
		whole = strings.TrimLeft(whole, "0")
		if whole == "" {
			whole = "0"
		}
	}
	var b strings.Builder
	if d.negative || d.digits == "" && r.IntN(2) == 0 {
		b.WriteByte('-')
	}
	b.WriteString(whole)
	if fraction != "" {
		b.WriteByte('.')
		b.WriteString(fraction)
	}
	if exponent.Sign() != 0 || r.IntN(4) == 0 {
		b.WriteByte("eE"[r.IntN(2)])
		text := new(big.Int).Abs(exponent).String()
		switch {
		case exponent.Sign() < 0:
			b.WriteByte('-')
		case r.IntN(2) == 0:
			b.WriteByte('+')
		}
		b.WriteString(strings.Repeat("0", r.IntN(3)))
		b.WriteString(text)
	}
	return b.String()
}

// runes are those of a text in UTF-8, and of the halves of surrogate pairs in it that
// are three bytes each.
func runes(s string) iter.Seq[rune] {
	return func(yield func(rune) bool) {
		for len(s) > 0 {
			c, size := utf8.DecodeRuneInString(s)
			if s[0] == 0xed && s[1] >= 0xa0 {
				c, size = 0xd000|rune(s[1]&0x3f)<<6|rune(s[2]&0x3f), 3
			}
			if !yield(c) {
				return
			}
			s = s[size:]
		}
	}
}

// half is half of a surrogate pair as three bytes.
func half(c rune) string {
	return string([]byte{0xe0 | byte(c>>12), 0x80 | byte(c>>6&0x3f), 0x80 | byte(c&0x3f)})
}

// noHalves is s with U+FFFD for each half of a surrogate pair, which is what encoding/json
// makes of one.
func noHalves(s string) string {
	var b strings.Builder
	for c := range runes(s) {
		b.WriteRune(c)
	}
	return b.String()
}

// withoutHalves is v with such texts, for comparing with what knows no other.
func withoutHalves(v model) model {
	switch v := v.(type) {
	case string:
		return noHalves(v)
	case array:
		for i := range v {
			v[i] = withoutHalves(v[i])
		}
	case object:
		for i := range v {
			v[i].value = withoutHalves(v[i].value)
		}
	}
	return v
}

func canonicalString(s string) string {
	var b strings.Builder
	b.WriteByte('"')
	for c := range runes(s) {
		switch {
		case utf16.IsSurrogate(c):
			fmt.Fprintf(&b, `\u%04x`, c)
		case c == '"' || c == '\\':
			b.WriteByte('\\')
			b.WriteRune(c)
		case strings.ContainsRune("\b\t\n\f\r", c):
			b.WriteByte('\\')
			b.WriteByte("btn?fr"[c-'\b'])
		case c < 0x20:
			fmt.Fprintf(&b, `\u%04x`, c)
		default:
			b.WriteRune(c)
		}
	}
	b.WriteByte('"')
	return b.String()
}

func compareUTF16(a, b string) int {
	return slices.Compare(utf16.Encode([]rune(a)), utf16.Encode([]rune(b)))
}

func canonicalOf(v model) string {
	var b strings.Builder
	writeCanonical(&b, v)
	return b.String()
}

func writeCanonical(b *strings.Builder, v model) {
	switch v := v.(type) {
	case nil:
		b.WriteString("null")
	case bool:
		fmt.Fprint(b, v)
	case *decimal:
		b.WriteString(v.canonical())
	case string:
		b.WriteString(canonicalString(v))
	case array:
		b.WriteByte('[')
		for i, element := range v {
			if i > 0 {
				b.WriteByte(',')
			}
			writeCanonical(b, element)
		}
		b.WriteByte(']')
	case object:
		sorted := slices.Clone(v)
		slices.SortFunc(sorted, func(a, b member) int { return compareUTF16(a.name, b.name) })
		b.WriteByte('{')
		for i, m := range sorted {
			if i > 0 {
				b.WriteByte(',')
			}
			b.WriteString(canonicalString(m.name))
			b.WriteByte(':')
			writeCanonical(b, m.value)
		}
		b.WriteByte('}')
	default:
		panic(fmt.Sprintf("no model: %T", v))
	}
}

// spellText writes v with members in any order, white space, escapes and spellings
// of numbers as r has it.
func spellText(r *rand.Rand, v model) []byte {
	var b bytes.Buffer
	writeSpelt(&b, r, v)
	writeSpace(&b, r)
	return b.Bytes()
}

func writeSpace(b *bytes.Buffer, r *rand.Rand) {
	for r.IntN(4) == 0 {
		b.WriteByte(" \t\n\r"[r.IntN(4)])
	}
}

func writeSpelt(b *bytes.Buffer, r *rand.Rand, v model) {
	writeSpace(b, r)
	switch v := v.(type) {
	case *decimal:
		b.WriteString(v.spell(r))
	case string:
		writeSpeltString(b, r, v)
	case array:
		b.WriteByte('[')
		for i, element := range v {
			if i > 0 {
				b.WriteByte(',')
			}
			writeSpelt(b, r, element)
			writeSpace(b, r)
		}
		writeSpace(b, r)
		b.WriteByte(']')
	case object:
		b.WriteByte('{')
		for i, k := range r.Perm(len(v)) {
			if i > 0 {
				b.WriteByte(',')
			}
			writeSpace(b, r)
			writeSpeltString(b, r, v[k].name)
			writeSpace(b, r)
			b.WriteByte(':')
			writeSpelt(b, r, v[k].value)
			writeSpace(b, r)
		}
		writeSpace(b, r)
		b.WriteByte('}')
	default:
		b.WriteString(canonicalOf(v))
	}
}

func writeSpeltString(b *bytes.Buffer, r *rand.Rand, s string) {
	escapes := r.IntN(3)
	b.WriteByte('"')
	for c := range runes(s) {
		if utf16.IsSurrogate(c) {
			fmt.Fprintf(b, []string{`\u%04x`, `\u%04X`}[r.IntN(2)], c)
			continue
		}
		short := strings.IndexRune("\"\\/\b\f\n\r\t", c)
		must := c < 0x20 || c == '"' || c == '\\'
		switch {
		case !must && (escapes == 0 || r.IntN(4) > 0):
			b.WriteRune(c)
		case short >= 0 && r.IntN(2) == 0:
			b.WriteByte('\\')
			b.WriteByte(`"\/bfnrt`[short])
		default:
			for _, unit := range utf16.Encode([]rune{c}) {
				fmt.Fprintf(b, []string{`\u%04x`, `\u%04X`}[r.IntN(2)], unit)
			}
		}
	}
	b.WriteByte('"')
}

// Generators.

var anyRune = rapid.OneOf(
	rapid.RuneFrom([]rune("abcxyzAZ09 _-/~.")),
	rapid.RuneFrom([]rune("\"\\/\b\f\n\r\t\x00\x01\x1f\x7f")),
	rapid.RuneFrom([]rune("\u0080é\u07ff\u0800€\ud7ff\ue000\ufb33\ufeff\ufffd\uffff\U00010000😀\U0010ffff")),
	rapid.Custom(func(t *rapid.T) rune {
		c := rapid.Int32Range(0, 0x10ffff).Draw(t, "rune")
		if c >= 0xd800 && c <= 0xdfff {
			c = 0xfffd
		}
		return c
	}),
)

var anyText = rapid.OneOf(
	rapid.StringOfN(anyRune, 0, 4, -1),
	rapid.StringOfN(anyRune, 0, 40, -1),
	rapid.StringMatching(`[a-z_]{1,24}`),
)

// anyBroken draws texts with halves of surrogate pairs, none of which make a pair.
var anyBroken = rapid.Custom(func(t *rapid.T) string {
	s, high := "", false
	for range rapid.IntRange(1, 5).Draw(t, "pieces") {
		switch c := rapid.SampledFrom([]rune{0xd800, 0xd83d, 0xdbff, 0xdc00, 0xde00, 0xdfff, 'a', '\\', 0xfffd, '😀'}).Draw(t, "rune"); {
		case !utf16.IsSurrogate(c):
			s, high = s+string(c), false
		case c < 0xdc00 || !high:
			s, high = s+half(c), c < 0xdc00
		}
	}
	return s
})

var anyDecimal = rapid.Custom(func(t *rapid.T) *decimal {
	digits := strings.Trim(rapid.OneOf(
		rapid.StringMatching(`[1-9]?`),
		rapid.StringMatching(`[0-9]{1,8}`),
		rapid.StringMatching(`[0-9]{15,25}`),
	).Draw(t, "digits"), "0")
	exponent := rapid.OneOf(
		rapid.Int64Range(-30, 30),
		rapid.Int64Range(-400, 400),
		rapid.Int64(),
	).Draw(t, "exponent")
	d := &decimal{rapid.Bool().Draw(t, "negative"), digits, big.NewInt(exponent)}
	if rapid.IntRange(0, 9).Draw(t, "long") == 0 {
		d.exponent.Mul(d.exponent, big.NewInt(1e18))
	}
	if digits == "" {
		return &decimal{exponent: new(big.Int)}
	}
	return d
})

// anyModel draws a value with at most depth containers inside one another, and mostly
// with as many.
func anyModel(numbers *rapid.Generator[*decimal], depth int) *rapid.Generator[model] {
	return rapid.Custom(func(t *rapid.T) model {
		if depth == 0 || rapid.IntRange(0, 7).Draw(t, "scalar") == 5 {
			return anyScalar(numbers).Draw(t, "scalar")
		}
		if rapid.IntRange(0, 5).Draw(t, "array") > 3 {
			v := array{}
			for range rapid.IntRange(0, 5).Draw(t, "elements") {
				v = append(v, anyModel(numbers, depth-1).Draw(t, "element"))
			}
			return v
		}
		v := object{}
		names := rapid.OneOf(anyText, rapid.StringOfN(anyRune, 0, 2, -1))
		most := rapid.SampledFrom([]int{6, 3, 12, 40}).Draw(t, "most")
		for _, name := range rapid.SliceOfNDistinct(names, most/4, most, rapid.ID[string]).Draw(t, "names") {
			inside := depth - 1
			if most > 6 {
				inside = 0
			}
			v = append(v, member{name, anyModel(numbers, inside).Draw(t, "value")})
		}
		return v
	})
}

func anyScalar(numbers *rapid.Generator[*decimal]) *rapid.Generator[model] {
	return rapid.Custom(func(t *rapid.T) model {
		switch rapid.IntRange(0, 6).Draw(t, "kind") {
		case 0:
			return nil
		case 6:
			return anyBroken.Draw(t, "broken text")
		case 1:
			return rapid.Bool().Draw(t, "bool")
		case 2, 3:
			return numbers.Draw(t, "number")
		default:
			return anyText.Draw(t, "text")
		}
	})
}

// anyRand is a source of choices that need not shrink.
var anyRand = rapid.Custom(func(t *rapid.T) *rand.Rand {
	return rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))
})
