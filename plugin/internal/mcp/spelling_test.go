package mcp_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/callonce/callonce/canonical"
	"github.com/callonce/callonce/plugin/internal/mcp"
)

// object is a JSON object as a list of members, so that a test decides their order.
type object []member

type member struct {
	name  string
	value any // nil, bool, decimal, string, []any, object
}

// decimal is digits × 10^exponent.
type decimal struct {
	digits   int64
	exponent int
}

// author makes up values and spells them in one of the many ways that are one text to
// a strict reader.
type author struct{ *rand.Rand }

func (a author) value(depth int) any {
	switch k := a.IntN(8); {
	case k < 2 && depth > 0:
		list := make([]any, a.IntN(4))
		for i := range list {
			list[i] = a.value(depth - 1)
		}
		return list
	case k < 4 && depth > 0:
		return a.object(depth - 1)
	case k == 4:
		return nil
	case k == 5:
		return a.IntN(2) == 0
	case k == 6:
		return decimal{a.Int64N(2000) - 1000, a.IntN(50) - 25}
	default:
		return a.text()
	}
}

func (a author) object(depth int) object {
	var o object
	for _, i := range a.Perm(12)[:a.IntN(5)] {
		name := []string{"a", "b", "", "é", "\U0001F600", "\ufb33", "a/b", "m~n", "idempotency_key", "_meta", "name", "\x01\"\\"}[i]
		o = append(o, member{name, a.value(depth)})
	}
	return o
}

func (a author) text() string {
	var b strings.Builder
	for range a.IntN(6) {
		b.WriteRune([]rune{'a', '"', '\\', '/', '\n', 0, 0x1f, 0x7f, 'é', 0x2028, 0xfb33, 0xffff, 0x1F600, 0x10ffff}[a.IntN(14)])
	}
	return b.String()
}

func (a author) spell(v any) string {
	switch v := v.(type) {
	case nil:
		return "null"
	case bool:
		return fmt.Sprint(v)
	case decimal:
		return a.number(v)
	case string:
		return a.quote(v)
	case []any:
		parts := make([]string, len(v))
		for i := range v {
			parts[i] = a.space() + a.spell(v[i]) + a.space()
		}
		return "[" + strings.Join(parts, ",") + "]"
	case object:
		parts := make([]string, len(v))
		for i, k := range a.Perm(len(v)) {
			parts[i] = a.space() + a.quote(v[k].name) + a.space() + ":" + a.space() + a.spell(v[k].value) + a.space()
		}
		return "{" + strings.Join(parts, ",") + "}"
	}
	panic(fmt.Sprintf("%T", v))
}

func (a author) space() string {
	return strings.Repeat(" ", a.IntN(2)) + []string{"", "", "\n", "\r\n\t"}[a.IntN(4)]
}

func (a author) number(d decimal) string {
	sign := ""
	if d.digits < 0 || d.digits == 0 && a.IntN(2) == 0 {
		sign, d.digits = "-", -d.digits
	}
	zeros := a.IntN(4)
	digits := fmt.Sprint(d.digits)
	if d.digits != 0 {
		digits += strings.Repeat("0", zeros)
	}
	exponent := d.exponent - zeros
	if point := a.IntN(len(digits)); point > 0 {
		exponent += len(digits) - point
		digits = digits[:point] + "." + digits[point:] + strings.Repeat("0", a.IntN(3))
	}
	if exponent == 0 && a.IntN(2) == 0 {
		return sign + digits
	}
	return sign + digits + fmt.Sprintf("%c%+d", "eE"[a.IntN(2)], exponent)
}

func (a author) quote(s string) string {
	var b strings.Builder
	b.WriteByte('"')
	for _, c := range s {
		short := map[rune]string{'"': `\"`, '\\': `\\`, '\n': `\n`, '/': `\/`}[c]
		switch k := a.IntN(3); {
		case short != "" && k > 0:
			b.WriteString(short)
		case c >= ' ' && c != '"' && c != '\\' && k > 0:
			b.WriteRune(c)
		case c > 0xffff:
			c -= 0x10000
			fmt.Fprintf(&b, `\u%04X\u%04x`, 0xd800+c>>10, 0xdc00+c&0x3ff)
		default:
			fmt.Fprintf(&b, `\u%04x`, c)
		}
	}
	b.WriteByte('"')
	return b.String()
}

// change alters v in one place, so that it says something else.
func (a author) change(v any) any {
	switch v := v.(type) {
	case nil:
		return false
	case bool:
		return !v
	case decimal:
		return decimal{v.digits + 1, v.exponent}
	case string:
		return v + "x"
	case []any:
		i := a.IntN(len(v) + 1)
		changed := append([]any(nil), v...)
		if i == len(v) {
			return append(changed, nil)
		}
		changed[i] = a.change(v[i])
		return changed
	case object:
		i := a.IntN(len(v) + 1)
		changed := append(object(nil), v...)
		if i == len(v) {
			return append(changed, member{"another", nil})
		}
		if a.IntN(2) == 0 {
			return append(changed[:i], changed[i+1:]...)
		}
		changed[i].value = a.change(v[i].value)
		return changed
	}
	panic(fmt.Sprintf("%T", v))
}

// A fingerprint is the same for every spelling of a call, and another for every call
// that says something else.
func TestSpellings(t *testing.T) {
	for seed := range uint64(4000) {
		a := author{rand.New(rand.NewPCG(seed, 0))}
		arguments := a.object(3)
		spelled := func(arguments object, extra ...member) string {
			params := append(object{{"name", "pay"}, {"arguments", arguments}}, extra...)
			return a.spell(object{{"id", a.text()}, {"method", "tools/call"}, {"params", params}})
		}
		body := spelled(arguments)
		var r mcp.Request
		r.Read([]byte(body), nil)
		if r.Kind != mcp.ToolCall || !utf8.ValidString(body) {
			t.Fatalf("seed %d: %s: kind %d", seed, body, r.Kind)
		}
		want := r.AppendIntent(nil, mcp.Shape{})
		form, err := canonical.Append(nil, want)
		if err != nil || !bytes.Equal(form, want) {
			t.Fatalf("seed %d: %s is not canonical: %s, %v", seed, want, form, err)
		}
		again := spelled(arguments, member{"_meta", a.value(2)})
		r.Read([]byte(again), nil)
		if got := r.AppendIntent(nil, mcp.Shape{}); r.Kind != mcp.ToolCall || !bytes.Equal(got, want) {
			t.Fatalf("seed %d:\n%s\n%s\ngave\n%s\n%s", seed, body, again, want, got)
		}
		other := spelled(a.change(arguments).(object))
		r.Read([]byte(other), nil)
		if got := r.AppendIntent(nil, mcp.Shape{}); r.Kind != mcp.ToolCall || bytes.Equal(got, want) {
			t.Fatalf("seed %d:\n%s\n%s\nboth gave\n%s", seed, body, other, want)
		}
	}
}
