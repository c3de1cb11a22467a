package canonical

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"
	"unsafe"
)

// TestSizes holds on machines with 32-bit words too, where some are smaller.
func TestSizes(t *testing.T) {
	if unsafe.Sizeof(entry{}) > entrySize || unsafe.Sizeof(sortable{}) > sortableSize ||
		unsafe.Sizeof(replacement{}) > replacementSize {
		t.Errorf("entry %d, sortable %d, replacement %d bytes",
			unsafe.Sizeof(entry{}), unsafe.Sizeof(sortable{}), unsafe.Sizeof(replacement{}))
	}
}

const smallCall = `{"jsonrpc":"2.0","id":42,"method":"tools/call","params":{"name":"charge_card",
	"arguments":{"customer_id":"cus_8Fh2kQ","amount":12.50,"rate":1e-9,"big":12345678901234567890123,"currency":"EUR",
	"note":"caf\u00e9 \"x\"\n","metadata":{"z":1,"order":"2026-0001742","cart":["sku-118","sku-220",null,true,false]},
	"\u0061bc":0,"idempotency_key":"k"},"_meta":{"progressToken":"tok-17"}}}`

// use goes through all that is done with a request.
func use(t *testing.T, doc *Doc, out, text []byte) []byte {
	if err := doc.Parse(text); err != nil {
		t.Fatal(err)
	}
	root := doc.Root()
	params := doc.Member(root, "params")
	doc.Omit(doc.Pointer(root, "/params/arguments/idempotency_key"))
	doc.Omit(doc.Member(params, "_meta"))
	doc.Replace(doc.Pointer(root, "/params/arguments/amount"), []byte("10"))
	doc.Sorted(root)
	for n := doc.First(root); n != NoNode; n = doc.Next(n) {
		doc.Name(n)
		doc.Text(n)
	}
	return doc.Append(out, root)
}

// TestWarmDocAllocatesNothing counts exactly: an average would hide memory that grows
// now and then.
func TestWarmDocAllocatesNothing(t *testing.T) {
	for _, text := range [][]byte{[]byte(smallCall), []byte(`{"a":["cut \ud83d","\n"]}`), []byte(`{"b":[` + strings.Repeat(`{"y":1,"x":"\n"},`, 4000) + `0],"a":1}`)} {
		var doc Doc
		out := use(t, &doc, nil, text)
		warm := doc.held()
		const runs = 200
		if perRun := testing.AllocsPerRun(runs, func() { out = use(t, &doc, out[:0], text) }); perRun != 0 {
			t.Errorf("%d bytes: %v allocations a run", len(text), perRun)
		}
		if held := doc.held(); held != warm {
			t.Errorf("%d bytes: %d bytes of memory became %d in %d runs", len(text), warm, held, runs)
		}
	}
}

// TestMemoryFollowsTheLargestText uses one Doc for texts of other shapes, each with
// marks on other nodes.
func TestMemoryFollowsTheLargestText(t *testing.T) {
	var doc Doc
	var out []byte
	most := 0
	for i := range 4000 {
		text := "[" + strings.Repeat("0,", i%500) + strings.Repeat(`{"b":"\u0041","a":`, i%100) + "1" + strings.Repeat("}", i%100) + "]"
		if err := doc.Parse([]byte(text)); err != nil {
			t.Fatal(err)
		}
		doc.Replace(doc.Pointer(0, "/"+strconv.Itoa(i%500)), []byte("true"))
		out = doc.Append(out[:0], 0)
		if i == 1000 {
			most = doc.held()
		}
		if len(doc.replacements) > 1 {
			t.Fatalf("%d replacements after text %d", len(doc.replacements), i)
		}
	}
	if held := doc.held(); held != most {
		t.Errorf("%d bytes after 1000 texts, %d after 4000 of the same kinds", most, held)
	}
}

// TestRefusalAllocatesTheErrorOnly allows the one object that a caller may keep.
func TestRefusalAllocatesTheErrorOnly(t *testing.T) {
	var doc Doc
	text := []byte(`{"b":1,"a":2,"b":3}`)
	doc.Parse(text)
	if allocs := testing.AllocsPerRun(20, func() { doc.Parse(text) }); allocs != 1 {
		t.Errorf("%v allocations", allocs)
	}
}

func allocated(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

func TestHugeExponentsCostNoMemory(t *testing.T) {
	for _, token := range []string{"1e999999999", "1e-999999999", "123.456e99999999999999999999", "0e999999999"} {
		var form []byte
		bytes := allocated(func() { form, _ = Append(nil, []byte(token)) })
		if bytes > 8<<10 || len(form) > len(token)+4 {
			t.Errorf("%s: %d bytes allocated, form %.40s", token, bytes, form)
		}
	}
}

// hostile gives texts of about n bytes that want to be expensive.
func hostile(n int) map[string][]byte {
	r := rand.New(rand.NewPCG(1, 1))
	repeat := func(before, piece, after string) []byte {
		return []byte(before + strings.Repeat(piece, n/len(piece)) + after)
	}
	members := func(count int, name func(i int) string) []byte {
		var b strings.Builder
		for i := range count {
			fmt.Fprintf(&b, `,"%s":0`, name(i))
		}
		return []byte("{" + b.String()[1:] + "}")
	}
	count := n / 12
	random := r.Perm(count)
	long := strings.Repeat("p", 200)
	const digits = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz-_"
	return map[string][]byte{
		"members descending":         members(count, func(i int) string { return fmt.Sprintf("%07d", count-i) }),
		"members in random order":    members(count, func(i int) string { return fmt.Sprintf("%07d", random[i]) }),
		"members of one name":        members(count, func(int) string { return "aaaaaaa" }),
		"members, one twice":         members(count, func(i int) string { return fmt.Sprintf("%07d", random[i]%(count-1)) }),
		"members of one long prefix": members(n/212, func(i int) string { return fmt.Sprintf("%s%07d", long, random[i]) }),
		"members in pairs":           members(count, func(i int) string { return fmt.Sprintf("%07d", i^1) }),
		"members, organ pipe":        members(count, func(i int) string { return fmt.Sprintf("%06d%d", min(i, count-i), i&1) }),
		"members of short names":     members(n/8, func(i int) string { return string([]byte{digits[i>>12&63], digits[i>>6&63], digits[i&63]}) }),
		"names with escapes":         members(n/17, func(i int) string { return fmt.Sprintf(`\u0061%06d`, random[i]) }),
		"empty names and objects":    repeat("[", `{"":0},`, "0]"),
		"one digit each":             repeat("[", "0,", "0]"),
		"empty arrays":               repeat("[", "[],", "0]"),
		"depth":                      repeat("[", strings.Repeat("[", 127)+strings.Repeat("]", 127)+",", "0]"),
		"unclosed with a duplicate":  repeat(strings.Repeat(`{"b":1,"a":2,"b":`, 127)+`{"z":0,"a":"`, "x", ""),
		"wide at every depth":        []byte(strings.Repeat(string(members(n/128/12, func(i int) string { return fmt.Sprintf("%07d", random[i]) })[:n/128/12*12])+`,"x":`, 127)),
		"one long string":            repeat(`"`, "x", `"`),
		"string of escapes":          repeat(`"`, `\n`, `"`),
		"string of pairs":            repeat(`"`, `\ud83d\ude00`, `"`),
		"string of lone halves":      repeat(`"`, `\ud83d`, `"`),
		"string of runes":            repeat(`"`, "é", `"`),
		"unclosed string":            repeat(`"`, `\"`, ""),
		"white space":                repeat("[", " ", "]"),
		"long integer":               repeat("", "9", ""),
		"long fraction":              repeat("0.", "0", "1"),
		"long exponent":              repeat("1e", "9", ""),
		"many long exponents":        repeat("[", "10e99999999999999999999,", "0]"),
	}
}

// TestHostileTextsTakeLinearTime compares with a text of the same length that is
// nothing but small numbers. What is measured is a ratio, of the best of several runs
// each, in texts so long that a quadratic step would be a thousand times over.
func TestHostileTextsTakeLinearTime(t *testing.T) {
	const n = 1 << 20
	cost := func(text []byte) time.Duration {
		best := time.Duration(1 << 62)
		var doc Doc
		var out []byte
		for range 3 {
			start := time.Now()
			doc.Parse(text)
			out = doc.Append(out[:0], doc.Root())
			doc.Sorted(doc.Root())
			best = min(best, time.Since(start))
		}
		return best
	}
	texts := hostile(n)
	ordinary := cost(texts["one digit each"])
	for name, text := range texts {
		if len(text) > 2*n || len(text) < n/2 {
			t.Errorf("%s: %d bytes", name, len(text))
		}
		if ratio := float64(cost(text)) / float64(ordinary); ratio > 50 {
			t.Errorf("%s: %.1f times the time of an ordinary text", name, ratio)
		} else {
			t.Logf("%-28s %5.2f", name, ratio)
		}
	}
}

// memoryBound is what doc.go states, in bytes of scratch for each byte of text.
const memoryBound = 20

func TestMemoryBound(t *testing.T) {
	const n = 1 << 20
	for name, text := range hostile(n) {
		var doc Doc
		if err, refused := doc.Parse(text).(*Error); refused && err.Reason != DuplicateName && err.Offset < len(text) {
			t.Errorf("%s: %v, before its end at %d", name, err, len(text))
		}
		doc.Sorted(doc.Root())
		if got := float64(doc.held()) / float64(len(text)); got > memoryBound {
			t.Errorf("%s: %.2f bytes for a byte of text", name, got)
		} else {
			t.Logf("%-28s %5.2f", name, got)
		}
	}
}

// TestShortTextsGrowTheTape has texts that are nothing but opening brackets, which
// need more room than any that are closed.
func TestShortTextsGrowTheTape(t *testing.T) {
	for n := range 140 {
		for _, text := range []string{strings.Repeat("[", n), strings.Repeat("[", n) + strings.Repeat("]", n), strings.Repeat(`{"":`, n),
			"[" + strings.Repeat("0,", n) + "0]", "[" + strings.Repeat("[],", n) + "0"} {
			var doc Doc
			doc.Parse([]byte(text))
		}
	}
}

func TestShrink(t *testing.T) {
	var doc Doc
	small := []byte(smallCall)
	doc.Parse(small)
	warm := doc.held()
	doc.Shrink(1 << 16)
	if doc.held() != warm || doc.Root() != NoNode || doc.src != nil {
		t.Errorf("a small Doc: %d bytes became %d, root %d", warm, doc.held(), doc.Root())
	}
	doc.Parse(hostile(1 << 20)["one digit each"])
	if doc.held() < 1<<20 {
		t.Fatalf("only %d bytes", doc.held())
	}
	doc.Shrink(1 << 16)
	if doc.held() != 0 || doc.Root() != NoNode || doc.src != nil {
		t.Errorf("a large Doc holds %d bytes, root %d", doc.held(), doc.Root())
	}
	if err := doc.Parse(small); err != nil {
		t.Error(err)
	}
}
