package mcp_test

import (
	"bytes"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/callonce/callonce/plugin/internal/mcp"
)

// parseEvents is WHATWG HTML section 9.2.6 word for word, for a whole stream: the
// data buffer of every event that is dispatched. It knows no chunks and no bounds.
func parseEvents(stream []byte) []string {
	text := strings.TrimPrefix(string(stream), "\uFEFF")
	text = strings.ReplaceAll(text, "\r\n", "\n")
	text = strings.ReplaceAll(text, "\r", "\n")
	lines := strings.Split(text, "\n")
	var events []string
	data := ""
	for _, line := range lines[:len(lines)-1] { // what follows the last line end is no line
		if line == "" {
			if data != "" {
				events = append(events, strings.TrimSuffix(data, "\n"))
			}
			data = ""
			continue
		}
		field, value, _ := strings.Cut(line, ":")
		if field == "data" {
			data += strings.TrimPrefix(value, " ") + "\n"
		}
	}
	return events
}

// bounded is what Events with a Cap must hand out of these events, and whether one
// was too long. An event without data is nobody's response: it is not handed out.
func bounded(events []string, limit int) (kept []string, oversize bool) {
	for _, e := range events {
		switch {
		case len(e) > limit && len(squeezed(e)) > limit:
			oversize = true
		case len(e) > limit && squeezed(e) != "":
			kept = append(kept, squeezed(e))
		case len(e) <= limit && e != "":
			kept = append(kept, e)
		}
	}
	return kept, oversize
}

// squeezed is a JSON text without the white space between its tokens.
func squeezed(text string) string {
	var b strings.Builder
	for text != "" {
		quote := strings.IndexByte(text, '"')
		if quote < 0 {
			quote = len(text)
		}
		last := byte('"')
		for _, word := range strings.FieldsFunc(text[:quote], func(r rune) bool { return strings.ContainsRune(" \t\r\n", r) }) {
			if !strings.ContainsRune(`{}[],:"`, rune(last)) && !strings.ContainsRune(`{}[],:"`, rune(word[0])) {
				b.WriteByte(' ')
			}
			b.WriteString(word)
			last = word[len(word)-1]
		}
		text = text[quote:]
		end := min(1, len(text))
		for end < len(text) {
			if end++; text[end-1] == '"' {
				break
			}
			if text[end-1] == '\\' {
				end = min(end+1, len(text))
			}
		}
		b.WriteString(text[:end])
		text = text[end:]
	}
	return b.String()
}

// feed gives stream to events in chunks that end at the given offsets.
func feed(events *mcp.Events, stream []byte, cuts []int) []string {
	var got []string
	from := 0
	for _, cut := range append(cuts, len(stream)) {
		// A chunk is the host's: once Feed has returned, its memory may be another's.
		chunk := bytes.Clone(stream[from:cut])
		events.Feed(chunk, func(data []byte) bool {
			if !events.Cut {
				got = append(got, string(data))
			} else if len(data) != events.Cap {
				got = append(got, "a beginning of the wrong length")
			}
			return false
		})
		for i := range chunk {
			chunk[i] = 'X'
		}
		from = cut
	}
	return got
}

func checkEvents(t *testing.T, stream []byte, limit int, cuts []int) {
	t.Helper()
	want, oversize := bounded(parseEvents(stream), limit)
	events := mcp.Events{Cap: limit}
	if got := feed(&events, stream, cuts); !slices.Equal(got, want) || events.Oversize != oversize {
		t.Fatalf("%q cut at %v, cap %d\n got %q oversize=%v\nwant %q oversize=%v", stream, cuts, limit, got, events.Oversize, want, oversize)
	}
}

// everyCut feeds a short stream whole, cut in two at every byte, and byte by byte.
func everyCut(t *testing.T, stream string, limit int) {
	t.Helper()
	checkEvents(t, []byte(stream), limit, nil)
	var all []int
	for cut := range len(stream) {
		checkEvents(t, []byte(stream), limit, []int{cut})
		all = append(all, cut)
	}
	checkEvents(t, []byte(stream), limit, all)
}

var streams = []struct {
	stream string
	want   []string
}{
	{"data: a\n\n", []string{"a"}},
	{"data: a\r\n\r\n", []string{"a"}},
	{"data: a\r\r", []string{"a"}},
	{"data: a\n\r\n", []string{"a"}},
	{"data: a\r\n\n", []string{"a"}},
	{"data:a\n\ndata:  b\n\n", []string{"a", " b"}},
	{"data: a\ndata: b\n\n", []string{"a\nb"}},
	{"data\ndata: b\n\n", []string{"\nb"}},
	{"data: a\ndata\n\n", []string{"a\n"}},
	{"\uFEFFdata: a\n\n", []string{"a"}},
	{"\uFEFF\uFEFFdata: a\n\ndata: b\n\n", []string{"b"}},
	{"data: a\n\n\uFEFFdata: b\n\n", []string{"a"}},
	{": comment\n\ndata: a\n: data: x\n\n", []string{"a"}},
	{"id: 1\nevent: message\nretry: 5\ndata: a\n\n", []string{"a"}},
	{"event: message\nid: 1\n\ndata: a\n\n", []string{"a"}},
	{"id: 1\ndata:\n\n", nil}, // case 8
	{"data\n\n", nil},
	{"data\ndata\n\n", []string{"\n"}},
	{"\n\n\n\ndata: a\n\n\n\n", []string{"a"}},
	{"data: a", nil},
	{"data: a\n", nil},
	{"data: a\r", nil},
	{"Data: a\n\nDATA: b\n\n", nil},
	{"data : a\n\n", nil},
	{" data: a\n\n", nil},
	{"datax: a\n\ndat: b\n\n", nil},
	{"data: a: b:c\n\n", []string{"a: b:c"}},
	{"data:\ta\n\n", []string{"\ta"}},
	{"data: a\x00b\x0b\x85\xe2\x80\xa8c\n\n", []string{"a\x00b\x0b\x85\xe2\x80\xa8c"}},
	{"", nil},
}

func TestEvents(t *testing.T) {
	for _, c := range streams {
		if got := parseEvents([]byte(c.stream)); strings.Join(dropEmpty(got), "|") != strings.Join(c.want, "|") {
			t.Fatalf("the reference reads %q as %q, want %q", c.stream, got, c.want)
		}
		for _, limit := range []int{0, 1, 2, 1000} {
			everyCut(t, c.stream, limit)
		}
	}
}

func dropEmpty(events []string) []string {
	return slices.DeleteFunc(events, func(e string) bool { return e == "" })
}

// Exactly the cap fits, one byte more does not (case 17), however the event is laid
// out in lines, fields and chunks; and what comes after it is read.
func TestEventsAtTheCap(t *testing.T) {
	for limit := range 12 {
		for length := max(0, limit-2); length <= limit+12; length++ {
			text := strings.Repeat("x", length)
			for _, stream := range []string{
				"data: " + text + "\n\n",
				"data:" + text + "\r\n\r\n",
				"\uFEFFdata: " + text + "\n\n",
				"\uFEFFdata:" + text + "\r\r",
				"event: message\nid: 5\ndata: " + text + "\n\n",
				": " + text + text + text + "\ndata: y\n\n",
				"data" + text + text + "\ndata: y\n\n",
				"id: " + text + text + text + "\ndata: y\n\n",
				"data: " + text[:length/2] + "\ndata: " + text[length/2:] + "\n\n",
				"data: " + text + "\ndata\n\n",
				"data\ndata: " + text + "\n\n",
			} {
				everyCut(t, stream, limit)
				everyCut(t, stream+"data: z\n\n", limit)
			}
		}
	}
}

// scraps are put together at random to streams.
var scraps = []string{
	"\n", "\n", "\n\n", "\r", "\r\n", "\r\n\r\n", "\r\r", "\n\r",
	"data: ", "data:", "data", "data: {\"id\":7}\n\n", "data: abc", "data: \n", "data:  ",
	"event: message\n", "event:", "id: 1\n", "id", "retry: 100\n", ": ping\n\n", ":", " ", "x", "\uFEFF", "\xEF\xBB", "\xBF", "\x00", "é", "xxxxxxxxxxxxxxxx",
}

func TestEventsAtRandom(t *testing.T) {
	for seed := range uint64(60_000) {
		r := rand.New(rand.NewPCG(seed, 0))
		var stream []byte
		for range r.IntN(14) {
			stream = append(stream, scraps[r.IntN(len(scraps))]...)
		}
		checkEvents(t, stream, r.IntN(24), randomCuts(r, len(stream)))
	}
}

func randomCuts(r *rand.Rand, length int) []int {
	var cuts []int
	for range r.IntN(6) {
		cuts = append(cuts, r.IntN(length+1))
	}
	slices.Sort(cuts)
	return cuts
}

// Reading stops for good at the event for which the caller says so.
func TestEventsStop(t *testing.T) {
	stream := []byte("data: a\n\ndata: b\n\ndata: c\n\n")
	events := mcp.Events{Cap: 100}
	var got []string
	events.Feed(stream, func(data []byte) bool {
		got = append(got, string(data))
		return string(data) == "b"
	})
	if !slices.Equal(got, []string{"a", "b"}) {
		t.Errorf("%q", got)
	}
	events.Feed([]byte("data: d\n\n"), func(data []byte) bool {
		got = append(got, string(data))
		return true
	})
	if !slices.Equal(got, []string{"a", "b", "d"}) {
		t.Errorf("after the stop: %q", got)
	}
}

// However long a line or an event is, no more of it is kept than the cap allows.
func TestEventsKeepLittle(t *testing.T) {
	for _, c := range []struct {
		unit     string
		oversize bool
	}{
		{"x", true},
		{"\ndata: x", true},
		{"\ndata", false},
		{" ", false},
		{"data: x", true},
		{"\n: x", false},
		{"\nid: x", false},
	} {
		events := mcp.Events{Cap: 1000}
		nothing := func([]byte) bool { return false }
		events.Feed([]byte("data: y"), nothing)
		chunk := bytes.Repeat([]byte(c.unit), 64<<10/len(c.unit))
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		for range 20 {
			events.Feed(chunk, nothing)
		}
		runtime.ReadMemStats(&after)
		if held := after.TotalAlloc - before.TotalAlloc; held > 20*1000 {
			t.Errorf("%q for ever: %d bytes taken for 1.3 MB", c.unit, held)
		}
		handed := 0
		events.Feed([]byte("\n\n"), func([]byte) bool { handed++; return false })
		if handed > 0 == c.oversize || events.Oversize != c.oversize {
			t.Errorf("%q for ever: handed out %d times, oversize %v", c.unit, handed, events.Oversize)
		}
	}
}
