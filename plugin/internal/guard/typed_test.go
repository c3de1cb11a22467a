package guard

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"maps"
	"math"
	"slices"
	"strings"
	"testing"
)

// asMetadata is what the proxy makes of the metadata of one filter, f: a JSON object, as
// protobuf.
func asMetadata(t testing.TB, object string) []byte {
	t.Helper()
	var v any
	if err := json.Unmarshal([]byte(object), &v); err != nil {
		t.Fatal(err)
	}
	return protoEntry("f", protoStruct(v.(map[string]any)))
}

func protoStruct(o map[string]any) (b []byte) {
	for _, name := range slices.Sorted(maps.Keys(o)) {
		b = append(b, protoEntry(name, protoValue(o[name]))...)
	}
	return b
}

func protoEntry(name string, value []byte) []byte {
	return protoBytes(1, append(protoBytes(1, []byte(name)), protoBytes(2, value)...))
}

func protoBytes(field int, b []byte) []byte {
	return append(binary.AppendUvarint([]byte{byte(field<<3 | 2)}, uint64(len(b))), b...)
}

func protoValue(v any) []byte {
	switch v := v.(type) {
	case float64:
		return binary.LittleEndian.AppendUint64([]byte{0x11}, math.Float64bits(v))
	case string:
		return protoBytes(3, []byte(v))
	case bool:
		return []byte{0x20, map[bool]byte{true: 1}[v]}
	case map[string]any:
		return protoBytes(5, protoStruct(v))
	case []any:
		var b []byte
		for _, e := range v {
			b = append(b, protoBytes(1, protoValue(e))...)
		}
		return protoBytes(6, b)
	}
	return []byte{0x08, 0}
}

func TestLookUp(t *testing.T) {
	const claims = `{"s":"abcdef2C","n":-2.5,"t":true,"f":false,"z":null,"o":{"s":"in","o":{"n":3}},"l":["a",["b",4]],"e":""}`
	b := asMetadata(t, claims)
	for path, want := range map[string]typed{
		"f/s":         {kind: kindText, bytes: []byte("abcdef2C")},
		"f/e":         {kind: kindText, bytes: []byte{}},
		"f/n":         {kind: kindNumber, bits: math.Float64bits(-2.5)},
		"f/t":         {kind: kindBool, bits: 1},
		"f/f":         {kind: kindBool},
		"f/z":         {kind: kindNull},
		"f/o/s":       {kind: kindText, bytes: []byte("in")},
		"f/o/o/n":     {kind: kindNumber, bits: math.Float64bits(3)},
		"f/l/0":       {kind: kindText, bytes: []byte("a")},
		"f/l/1/1":     {kind: kindNumber, bits: math.Float64bits(4)},
		"f/l/2":       {},
		"f/l/-1":      {},
		"f/l/x":       {},
		"f/none":      {},
		"g/s":         {},
		"f":           {},
		"f/s/s":       {},
		"f/o/none/no": {},
	} {
		got := lookUp(b, strings.Split(path, "/"))
		if got.kind != want.kind || got.bits != want.bits || !bytes.Equal(got.bytes, want.bytes) {
			t.Errorf("%s: expected %+v, found %+v", path, want, got)
		}
	}
	if got := lookUp(b, []string{"f", "o"}); got.kind != kindObject {
		t.Errorf("an object: found %+v", got)
	}
	if got := lookUp(b, []string{"f", "l"}); got.kind != kindList {
		t.Errorf("a list: found %+v", got)
	}
	// Unknown fields of every kind are passed over, and of an entry that is there twice the
	// last counts.
	odd := slices.Concat([]byte{0x18, 5, 0x21, 1, 2, 3, 4, 5, 6, 7, 8, 0x2d, 1, 2, 3, 4}, protoBytes(7, []byte("x")), b, asMetadata(t, `{"s":"last"}`))
	if got := lookUp(odd, []string{"f", "s"}); string(got.bytes) != "last" {
		t.Errorf("twice: found %+v", got)
	}
	for cut := range len(b) - 1 {
		if got := lookUp(b[:cut+1], []string{"f", "s"}); got.kind != kindNone {
			t.Fatalf("cut after %d of %d bytes: found %+v", cut+1, len(b), got)
		}
	}
	if n := testing.AllocsPerRun(10, func() { lookUp(b, []string{"f", "o", "o", "n"}) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// Whatever the bytes, reading ends, and gives what lies in them.
func FuzzLookUp(f *testing.F) {
	f.Add(asMetadata(f, `{"a":{"b":["c",1,true,null,{"d":"e"}]}}`), "f/a/b/4/d")
	f.Add([]byte{0x0a, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01}, "f/a")
	f.Fuzz(func(t *testing.T, b []byte, path string) {
		if v := lookUp(b, strings.Split(path, "/")); len(v.bytes) > len(b) {
			t.Errorf("%d bytes out of %d", len(v.bytes), len(b))
		}
	})
}

func TestSpell(t *testing.T) {
	for d, want := range map[float64]string{
		42: "42", -7: "-7", 0: "0", math.Copysign(0, -1): "0", 5179135242756705: "5179135242756705", 1<<53 - 1: "9007199254740991",
		-(1<<53 - 1): "-9007199254740991", 0.1: "0.1", -2.5: "-2.5", 1e-7: "1e-7",
		1 << 53: "", -(1 << 53): "", 1e300: "", math.Inf(1): "", math.Inf(-1): "", math.NaN(): "",
	} {
		if got, ok := spell(math.Float64bits(d)); got != want || ok != (want != "") {
			t.Errorf("%v: expected %q, found %q, %v", d, want, got, ok)
		}
	}
}

// Claims of every type, each apart from the string that looks like it, and from the string
// of the same bytes.
func TestTypedClaims(t *testing.T) {
	w := newWorld(t)
	g := w.worker(`{"policies":{"p":{"reply":"http","server":"s","principal":["metadata:f/uid","metadata:f/sub"],"scope":["metadata:f/org"]}},"default":"p"}`)
	send := func(claims string) *exchange {
		x := w.open(g, "idempotency-key", "k")
		x.metadata = asMetadata(t, claims)
		var o map[string]any
		if err := json.Unmarshal([]byte(claims), &o); err != nil {
			t.Fatal(err)
		}
		for name, v := range o {
			x.properties["metadata.filter_metadata.f."+name] = untyped(v)
		}
		x.arrive(toolCall("1", `{}`))
		return x
	}
	ids := map[string]string{}
	for _, claims := range []string{
		`{"sub":"ada"}`, `{"sub":"ada","org":42}`, `{"sub":"ada","org":"42"}`, `{"sub":"ada","org":42.5}`, `{"sub":"ada","org":"42.5"}`,
		`{"sub":"ada","org":true}`, `{"sub":"ada","org":"true"}`, `{"sub":"ada","org":1}`, `{"sub":"ada","org":false}`, `{"sub":"ada","org":0}`,
		`{"sub":"ada","org":5179135242756705}`, `{"sub":"ada","org":"abcdef2C"}`, `{"sub":"user1234"}`,
		`{"uid":7}`, `{"uid":"7"}`, `{"sub":"7"}`, `{"uid":true}`,
	} {
		x := send(claims)
		x.wantSent()
		id := x.state["callonce.key_hash"]
		if other := ids[id]; other != "" {
			t.Errorf("%s and %s are one scope", claims, other)
		}
		ids[id] = claims
		x.answer(200, "application/json", okResult)
		send(claims).wantReplayed(okResult)
	}
	if x := send(`{"sub":"ada","org":""}`); x.sent {
		t.Error("an empty claim is another scope than none")
	}
	for claims, word := range map[string]string{
		`{"sub":"ada","org":[1]}`:               `"metadata:f/org" is a list`,
		`{"sub":"ada","org":[]}`:                `"metadata:f/org" is a list`,
		`{"sub":"ada","org":{}}`:                `"metadata:f/org" is an object`,
		`{"sub":"ada","org":{"a":"b"}}`:         `"metadata:f/org" is an object`,
		`{"sub":"ada","org":{"a":null}}`:        `"metadata:f/org" is an object`,
		`{"sub":"ada","org":null}`:              `"metadata:f/org" is null`,
		`{"sub":"ada","org":9007199254740993}`:  `"metadata:f/org" is a number of 2^53 or more`,
		`{"sub":"ada","uid":null}`:              `"metadata:f/uid" is null`,
		`{"sub":"ada","uid":["a"]}`:             `"metadata:f/uid" is a list`,
		`{"sub":"ada","org":"two\nlines"}`:      "",
		`{"sub":"ada","org":"\u0001"}`:          "",
		`{"sub":"ada","org":"\u0000\u0000000"}`: "",
	} {
		x := send(claims)
		x.wantRefused(400, "idempotency_requires_verified_identity")
		text := strings.ReplaceAll(x.reply, `\"`, `"`)
		if !strings.Contains(text, word) || word == "" && strings.Contains(text, "metadata:") {
			t.Errorf("%s: expected %q in %s", claims, word, text)
		}
	}
	said := 0
	for _, line := range w.logs {
		if strings.Contains(line, `is refused: "metadata:f/org" is`) {
			said++
		}
	}
	if said != 1 {
		t.Errorf("said %d times, expected once: %q", said, w.logs)
	}
}

// untyped is a value as the proxy hands over its bytes.
func untyped(v any) string {
	switch v := v.(type) {
	case string:
		return v
	case float64:
		return string(binary.LittleEndian.AppendUint64(nil, math.Float64bits(v)))
	case bool:
		return string([]byte{map[bool]byte{true: 1}[v]})
	case []any:
		return string(binary.LittleEndian.AppendUint32(nil, uint32(len(v)))) + "\x01\x00"
	case map[string]any:
		for _, e := range v {
			if e == nil {
				return unreadableProperty
			}
		}
		return string(binary.LittleEndian.AppendUint32(nil, uint32(len(v)))) + "\x01\x00"
	}
	return unreadableProperty
}

// A text that cannot be anything else is not looked at twice.
func TestTypesAreReadWhereNeeded(t *testing.T) {
	w := newWorld(t)
	g := w.worker(`{"policies":{"p":{"reply":"http","server":"s","principal":["metadata:f/sub"]}},"default":"p"}`)
	x := w.open(g, "idempotency-key", "k")
	x.properties["metadata.filter_metadata.f.sub"] = "ada"
	x.metadata = []byte("no protobuf")
	x.arrive(toolCall("1", `{}`))
	x.wantSent()
	x = w.open(g, "idempotency-key", "k")
	x.properties["metadata.filter_metadata.f.sub"] = "user1234"
	x.metadata = []byte("no protobuf")
	x.arrive(toolCall("1", `{}`))
	x.wantRefused(400, "idempotency_requires_verified_identity")
}

// A route's metadata without a value is a slip too.
func TestNullPolicy(t *testing.T) {
	w := newWorld(t)
	g := w.worker(must)
	x := w.open(g)
	x.properties["xds.route_metadata.filter_metadata.callonce.policy"] = unreadableProperty
	x.arrive(toolCall("1", `{}`))
	if x.sent || x.status == 0 || !strings.Contains(strings.Join(w.logs, "\n"), "found no value") {
		t.Errorf("status %d, log %q", x.status, w.logs)
	}
}

// So is an empty name: an unset variable of a template, perhaps.
func TestEmptyPolicy(t *testing.T) {
	w := newWorld(t)
	g := w.worker(must)
	for range 2 {
		x := w.open(g)
		x.properties["xds.route_metadata.filter_metadata.callonce.policy"] = ""
		x.arrive(toolCall("1", `{}`))
		x.wantRefused(503, "idempotency_unavailable")
	}
	if len(w.logs) != 1 || !strings.Contains(w.logs[0], "found an empty name, expected") {
		t.Errorf("log %q", w.logs)
	}
}

// Nothing that names a server shares its name with another.
func TestServersAreApart(t *testing.T) {
	w := newWorld(t)
	ids, labels := map[string]string{}, map[string]bool{}
	for _, c := range [][2]string{{"a", "b/c"}, {"a/b", "c"}, {"a~1b", "c"}, {"a", "b~1c"}, {"a~b", "c"}, {`a","b`, "c"}} {
		name, _ := json.Marshal(c[1])
		g := w.worker(`{"policies":{` + string(name) + `:{"anonymous":true}},"default":` + string(name) + `}`)
		x := w.open(g, "idempotency-key", "k")
		x.properties["xds.virtual_host_name"] = c[0]
		x.arrive(toolCall("1", `{}`))
		x.wantSent()
		id := x.state["callonce.key_hash"]
		if other := ids[id]; other != "" {
			t.Errorf("%q and %s share keys", c, other)
		}
		ids[id] = c[0] + " with " + c[1]
		labels[x.stream.call.server] = true
		x.answer(200, "application/json", okResult)
	}
	if len(labels) != len(ids) {
		t.Errorf("%d labels for %d servers: %v", len(labels), len(ids), labels)
	}
	// A server that is named so is another one.
	g := w.worker(`{"policies":{"p":{"reply":"http","server":"a/c","anonymous":true}},"default":"p"}`)
	w.send(g, toolCall("1", `{}`), "idempotency-key", "k").wantSent()
}
