package canonical_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/callonce/callonce/canonical"
)

// toolCall is a tools/call request of about size bytes, as a client sends it.
func toolCall(size int) []byte {
	head := `{"jsonrpc":"2.0","id":42,"method":"tools/call","params":{"name":"charge_card","arguments":{"customer_id":"cus_8Fh2kQ","amount":1250,"currency":"EUR","capture":true,"metadata":{"order":"2026-0001742","cart":["sku-118","sku-220"],"note":"`
	tail := `"}},"_meta":{"progressToken":"tok-17","traceparent":"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"}}}`
	filler := strings.Repeat("Leave the parcel with the neighbour.\\n", (size-len(head)-len(tail))/38+1)
	return []byte(head + filler + tail)
}

var texts = []struct {
	name string
	text []byte
}{
	{"call400B", toolCall(400)},
	{"call64K", toolCall(64 << 10)},
	{"numbers", numberHeavy()},
	{"escapes", escapeHeavy()},
	{"wide", wide()},
	{"nested", nested()},
	{"cjk", cjk()},
	{"spaced", spaced()},
}

func numberHeavy() []byte {
	var b bytes.Buffer
	b.WriteString(`{"points":[`)
	for i := range 2000 {
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, `[%d,%g,%.3e,%g]`, i*7919, float64(i)*1.37, float64(i)*1e9, -float64(i)/3)
	}
	b.WriteString(`]}`)
	return b.Bytes()
}

func escapeHeavy() []byte {
	return []byte(`{"text":"` + strings.Repeat(`line \"one\"\n\tcaf\u00e9 \ud83d\ude00 C:\\dir\/x`, 1000) + `"}`)
}

func wide() []byte {
	var b bytes.Buffer
	for i, k := range rand.New(rand.NewPCG(1, 2)).Perm(1000) {
		fmt.Fprintf(&b, `,"member_%d":%d`, k, i)
	}
	return append(append([]byte{'{'}, b.Bytes()[1:]...), '}')
}

func nested() []byte {
	const row = `{"type":"text","id":17,"user":{"name":"Ada","id":"u-9","tags":["a","b"]},"done":false,"at":null}`
	return []byte("[" + strings.Repeat(row+",", 300) + row + "]")
}

func cjk() []byte {
	return []byte(`{"text":"` + strings.Repeat("冪等性キーは再試行を安全にします。", 400) + `"}`)
}

func spaced() []byte {
	var b bytes.Buffer
	line := "\n        "
	b.WriteString("[")
	for i := range 500 {
		fmt.Fprintf(&b, "%s{%s  \"index\": %d,%s  \"name\": \"row %d\"%s},", line, line, i, line, i, line)
	}
	b.WriteString("null\n]\n")
	return b.Bytes()
}

func BenchmarkCanonical(b *testing.B) {
	for _, t := range texts {
		b.Run(t.name, func(b *testing.B) {
			var doc canonical.Doc
			var out []byte
			b.SetBytes(int64(len(t.text)))
			b.ReportAllocs()
			for b.Loop() {
				if err := doc.Parse(t.text); err != nil {
					b.Fatal(err)
				}
				out = doc.Append(out[:0], doc.Root())
			}
		})
	}
}

func BenchmarkParse(b *testing.B) {
	for _, t := range texts {
		b.Run(t.name, func(b *testing.B) {
			var doc canonical.Doc
			b.SetBytes(int64(len(t.text)))
			b.ReportAllocs()
			for b.Loop() {
				if err := doc.Parse(t.text); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
