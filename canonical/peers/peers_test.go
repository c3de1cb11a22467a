package peers

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"

	"github.com/cyberphone/json-canonicalization/go/src/webpki.org/jsoncanonicalizer"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/gowebpki/jcs"

	"github.com/callonce/callonce/canonical"
)

// form gives a function that appends the canonical form of a text, and may keep memory from call to call.
type form func() func(dst, text []byte) ([]byte, error)

var forms = []struct {
	name string
	form form
}{
	{"callonce", func() func(dst, text []byte) ([]byte, error) {
		var doc canonical.Doc
		return func(dst, text []byte) ([]byte, error) {
			if err := doc.Parse(text); err != nil {
				return dst, err
			}
			return doc.Append(dst, doc.Root()), nil
		}
	}},
	{"gowebpki-jcs", func() func(dst, text []byte) ([]byte, error) {
		return func(dst, text []byte) ([]byte, error) {
			out, err := jcs.Transform(text)
			return append(dst, out...), err
		}
	}},
	{"cyberphone", func() func(dst, text []byte) ([]byte, error) {
		return func(dst, text []byte) ([]byte, error) {
			out, err := jsoncanonicalizer.Transform(text)
			return append(dst, out...), err
		}
	}},
	// It writes over the text that it is given, so it is given the copy.
	{"jsontext", func() func(dst, text []byte) ([]byte, error) {
		return func(dst, text []byte) ([]byte, error) {
			v := jsontext.Value(append(dst, text...))
			err := v.Canonicalize()
			return v, err
		}
	}},
}

var texts = []struct {
	name string
	text []byte
}{
	{"call-400B", call(1, 400)},
	{"call-4K", call(2, 4<<10)},
	{"call-64K", call(3, 64<<10)},
	{"call-512K", call(4, 512<<10)},
	{"rows-64K", rows(5, 64<<10)},
	{"escapes-64K", prose(6, 64<<10, `line \"one\"\n\t`, `caf\u00e9 \ud83d\ude00 `, `C:\\dir\/x `)},
	{"numbers-64K", numbers(7, 64<<10)},
	{"unicode-64K", prose(8, 64<<10, "冪等性キーは再試行を安全にします。", "Schlüssel für größere Übertragungen. ", "ключ идемпотентности ", "🙂 ")},
}

// call is a tools/call as clients send it: members in the order in which a program has them, compact, and a third of it prose, a third
// rows of values.
func call(seed uint64, size int) []byte {
	r := rand.New(rand.NewPCG(seed, 1))
	var b bytes.Buffer
	fmt.Fprintf(&b, `{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"create_invoice","arguments":{"customer_id":"cus_%08x",`+
		`"amount":%d,"currency":"EUR","capture":true,"metadata":{"order":"2026-%07d","channel":"web"},"note":"Leave it with the neighbour.\nThanks`,
		r.IntN(1000), r.Uint32(), r.IntN(1_000_000), r.IntN(1_000_000))
	for b.Len() < size/2-100 {
		b.WriteString([]string{" The parcel is for the second floor.", ` Ring twice at \"Miller\".`, "\\n\\nNothing else is due before Friday."}[r.IntN(3)])
	}
	b.WriteString(`","lines":[`)
	for i := 0; i == 0 || b.Len() < size-170; i++ {
		if i > 0 {
			b.WriteByte(',')
		}
		row(&b, r, i)
	}
	b.WriteString(`]},"_meta":{"progressToken":"tok-17","traceparent":"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"}}}`)
	return b.Bytes()
}

func row(b *bytes.Buffer, r *rand.Rand, i int) {
	fmt.Fprintf(b, `{"sku":"sku-%05d","quantity":%d,"price":%d.%02d,"tags":["a","new"],"gift":%v,"note":null}`, r.IntN(100_000), i%7+1, r.IntN(300), r.IntN(9)*10+5, i%2 == 0)
}

func rows(seed uint64, size int) []byte {
	r := rand.New(rand.NewPCG(seed, 1))
	b := bytes.NewBufferString("[")
	for i := 0; b.Len() < size; i++ {
		if i > 0 {
			b.WriteByte(',')
		}
		row(b, r, i)
	}
	b.WriteByte(']')
	return b.Bytes()
}

func prose(seed uint64, size int, pieces ...string) []byte {
	r := rand.New(rand.NewPCG(seed, 1))
	var b strings.Builder
	for b.Len() < size {
		if b.Len() > 0 {
			b.WriteByte(',')
		}
		b.WriteByte('"')
		for range 8 {
			b.WriteString(pieces[r.IntN(len(pieces))])
		}
		b.WriteByte('"')
	}
	return []byte(`{"texts":[` + b.String() + `]}`)
}

// numbers are points: whole numbers, coordinates with all digits of a double, and some with exponents.
func numbers(seed uint64, size int) []byte {
	r := rand.New(rand.NewPCG(seed, 1))
	b := []byte(`{"points":[`)
	for i := 0; len(b) < size; i++ {
		if i > 0 {
			b = append(b, ',')
		}
		b = strconv.AppendInt(append(b, '['), r.Int64N(1<<40), 10)
		b = strconv.AppendFloat(append(b, ','), r.Float64()*180-90, 'g', -1, 64)
		b = strconv.AppendFloat(append(b, ','), float64(r.IntN(100_000))/100, 'f', -1, 64)
		if i%4 == 0 {
			b = strconv.AppendFloat(append(b, ','), r.Float64()*1e9, 'e', 3, 64)
		}
		b = append(b, ']')
	}
	return append(b, "]}"...)
}

// What is compared in time is the same in result: where every number is that of a double, all give the same bytes.
func TestForms(t *testing.T) {
	for _, text := range texts {
		var first []byte
		for _, f := range forms {
			got, err := f.form()(nil, bytes.Clone(text.text))
			if err != nil {
				t.Fatalf("%s: %s: %v", text.name, f.name, err)
			}
			if first == nil {
				first = got
			}
			if !bytes.Equal(got, first) {
				t.Errorf("%s: %s differs from %s", text.name, f.name, forms[0].name)
			}
		}
	}
}

func BenchmarkForm(b *testing.B) {
	for _, text := range texts {
		for _, f := range forms {
			b.Run(text.name+"/"+f.name, func(b *testing.B) {
				form := f.form()
				var out []byte
				b.SetBytes(int64(len(text.text)))
				b.ReportAllocs()
				for b.Loop() {
					var err error
					if out, err = form(out[:0], text.text); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}
