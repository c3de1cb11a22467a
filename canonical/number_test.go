package canonical_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"math/big"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/callonce/callonce/canonical"
)

// formOfNumber also checks that a token alone and the token in a text give the same.
func formOfNumber(t rapid.TB, token string) string {
	t.Helper()
	form := string(canonical.AppendNumber([]byte("x"), []byte(token)))[1:]
	if inText := mustForm(t, []byte("["+token+"]")); inText != "["+form+"]" {
		t.Fatalf("%s alone gives %s, in an array %s", token, form, inText)
	}
	return form
}

// TestNumberGrammar writes numbers in all the ways that the pieces allow, around the
// places where the form changes, and checks with exact fractions that the value is
// kept and that one value has one form.
func TestNumberGrammar(t *testing.T) {
	wholes := []string{"0", "1", "5", "9", "10", "12", "90", "100", "123456789012345678901", "999999999999999999999",
		"100000000000000000000", "1000000000000000000000", "1234567890123456789012", "9007199254740993"}
	fractions := []string{"", ".0", ".1", ".5", ".10", ".01", ".00", ".000001", ".0000001", ".00000010", ".00000001", ".123456",
		".999999999999999999999", ".000000000000000000000", ".0000000000000000000001"}
	exponents := []string{"", "e0", "E-0", "e+0", "e1", "e-1", "E+2", "e-2", "e5", "e-5", "e6", "e-6", "e7", "e-7", "e-8",
		"e19", "e20", "e21", "e22", "e-19", "e-20", "e-21", "e-22", "e-27", "e-28", "e007", "e-0007"}
	forms := map[string]string{}  // by value
	values := map[string]string{} // by form
	count := 0
	for _, sign := range []string{"", "-"} {
		for _, whole := range wholes {
			for _, fraction := range fractions {
				for _, exponent := range exponents {
					count++
					token := sign + whole + fraction + exponent
					form := formOfNumber(t, token)
					value, back := rational(t, token), rational(t, form)
					if value != back {
						t.Fatalf("%s gave %s: %s became %s", token, form, value, back)
					}
					if other, ok := forms[value]; ok && other != form {
						t.Fatalf("%s gave %s, another spelling of the value gave %s", token, form, other)
					}
					if other, ok := values[form]; ok && other != value {
						t.Fatalf("%s gave %s, as did another value", token, form)
					}
					forms[value], values[form] = form, value
					if want := decimalOf(token).canonical(); form != want {
						t.Fatalf("%s gave %s, want %s", token, form, want)
					}
				}
			}
		}
	}
	if count != 2*len(wholes)*len(fractions)*len(exponents) || len(forms) < 1000 {
		t.Errorf("%d tokens, %d values", count, len(forms))
	}
}

func rational(t *testing.T, token string) string {
	t.Helper()
	r, ok := new(big.Rat).SetString(token)
	if !ok {
		t.Fatalf("math/big cannot read %s", token)
	}
	return r.RatString()
}

// TestNumberTokens tries every text of up to six characters of a small alphabet: it is
// accepted if and only if it is a number by the grammar of RFC 8259.
func TestNumberTokens(t *testing.T) {
	const alphabet = "019.e+-"
	var doc canonical.Doc
	numbers := 0
	var try func(token []byte)
	try = func(token []byte) {
		if len(token) > 0 {
			want := numberToken.Match(token)
			if got := doc.Parse(token) == nil; got != want {
				t.Fatalf("%s accepted: %v, want %v", token, got, want)
			}
			if want {
				numbers++
				form := doc.Append(nil, doc.Root())
				if reference := decimalOf(string(token)).canonical(); string(form) != reference {
					t.Fatalf("%s gave %s, want %s", token, form, reference)
				}
			}
		}
		if len(token) < 6 {
			for i := range len(alphabet) {
				try(append(token[:len(token):len(token)], alphabet[i]))
			}
		}
	}
	try(nil)
	if numbers < 4000 {
		t.Errorf("only %d numbers among the tokens", numbers)
	}
}

func TestNumbersFromTheField(t *testing.T) {
	for _, same := range [][]string{
		{"1", "1.0", "1e0", "10e-1", "0.1E+1", "1.000e000"},
		{"0", "-0", "-0.0e5", "0e999999999", "-0.000E-99999999999999999999"},
		{"1e99999999999999999999", "10e99999999999999999998", "0.1e100000000000000000000", "1e+099999999999999999999"},
		{"1e-99999999999999999999", "0.1e-99999999999999999998", "10e-100000000000000000000"},
		{"1e1000000000000000000", "10e999999999999999999", "0.01e1000000000000000002", "100e0999999999999999998"},
		{"1e-1000000000000000000", "0.1e-999999999999999999", "100e-1000000000000000002"},
		{"1e9223372036854775807", "0.1e9223372036854775808", "10e9223372036854775806"},
		{"1e-9223372036854775808", "0.1e-9223372036854775807", "10e-9223372036854775809"},
		{"123e999999999999999999999", "1.23e1000000000000000000001"},
		{"123e-999999999999999999999", "1.23e-999999999999999999997", "0.0123e-999999999999999999995"},
	} {
		for _, token := range same {
			if got, want := formOfNumber(t, token), formOfNumber(t, same[0]); got != want {
				t.Errorf("%s gave %s, %s gave %s", same[0], want, token, got)
			}
			if got, want := formOfNumber(t, token), decimalOf(token).canonical(); got != want {
				t.Errorf("%s gave %s, want %s", token, got, want)
			}
		}
	}
	different := []string{"1", `"1"`, "0", "1e400", "1e500", "2e400", "1e-400", "9007199254740992", "9007199254740993",
		"1e999999999", "1e99999999999999999999", "1e99999999999999999998", "1e-99999999999999999999", "-1e99999999999999999999",
		"1.1e99999999999999999999", "1e9999999999999999999", "1e999999999999999999999"}
	forms := map[string]string{}
	for _, token := range different {
		form := mustForm(t, []byte(token))
		if other, ok := forms[form]; ok {
			t.Errorf("%s and %s both gave %s", token, other, form)
		}
		forms[form] = token
	}
}

func TestNumberSpellings(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := anyDecimal.Draw(t, "number")
		r := anyRand.Draw(t, "spelling")
		for range 20 {
			token := d.spell(r)
			if got := formOfNumber(t, token); got != d.canonical() {
				t.Fatalf("%s gave %s, want %s", token, got, d.canonical())
			}
		}
	})
}

// TestLongTokens has numbers with a million digits in each of the places.
func TestLongTokens(t *testing.T) {
	zeros, nines := strings.Repeat("0", 1e6), strings.Repeat("9", 1e6)
	for _, c := range []struct{ name, token, want string }{
		{"zero with exponent", "0e" + nines, "0"},
		{"zeros behind the point", "1." + zeros, "1"},
		{"zeros before the exponent's digits", "1e" + zeros + "7", "10000000"},
		{"exponent", "1e" + nines, "1e+" + nines},
		{"negative exponent", "1e-" + nines, "1e-" + nines},
		{"carry through the exponent", "10e" + nines, "1e+1" + zeros},
		{"borrow through the exponent", "0.1e1" + zeros, "1e+" + nines},
		{"borrow through a negative exponent", "10e-1" + zeros, "1e-" + nines},
		{"carry through a negative exponent", "0.1e-" + nines, "1e-1" + zeros},
		{"integer", "1" + zeros, "1e+1000000"},
		{"integer of nines", nines, "9." + nines[1:] + "e+999999"},
		{"fraction", "0." + zeros + "1", "1e-1000001"},
		{"integer against exponent", "1" + zeros + "e-1000000", "1"},
		{"fraction against exponent", "0." + zeros + "1e1000001", "1"},
	} {
		if got := formOfNumber(t, c.token); got != c.want {
			t.Errorf("%s: gave %d bytes %.40s…, want %d bytes %.40s…", c.name, len(got), got, len(c.want), c.want)
		}
	}
}

// TestNumberOfAnything: AppendNumber promises nothing for what is no number, but it
// must come back.
func TestNumberOfAnything(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		canonical.AppendNumber(nil, rapid.SliceOf(rapid.SampledFrom([]byte("-+.eE0123456789x\xff"))).Draw(t, "token"))
	})
	for _, token := range []string{"", "-", ".", "e", "-e", "1e", "1e+", "1.", "é", "1x5", "1e5x"} {
		canonical.AppendNumber(nil, []byte(token))
	}
}

// exactDouble reports whether RFC 8785 as written, by way of a double, keeps the
// value of token.
func exactDouble(token string) bool {
	f, ok := new(big.Float).SetString(token)
	if !ok {
		return false
	}
	v, _ := f.Float64()
	if math.IsInf(v, 0) {
		return false
	}
	shortest, _ := json.Marshal(v)
	return decimalOf(string(shortest)).canonical() == decimalOf(token).canonical()
}

// TestManyNumbersInOneText checks numbers at every place of an array.
func TestManyNumbersInOneText(t *testing.T) {
	var text, want bytes.Buffer
	for i := range 2000 {
		comma := ","
		if i == 0 {
			comma = "["
		}
		fmt.Fprintf(&text, "%s %d.50e-%d", comma, i, i%30)
		fmt.Fprintf(&want, "%s%s", comma, decimalOf(fmt.Sprintf("%d.50e-%d", i, i%30)).canonical())
	}
	if got := mustForm(t, append(text.Bytes(), ']')); got != want.String()+"]" {
		t.Errorf("gave %.200s…", got)
	}
}
