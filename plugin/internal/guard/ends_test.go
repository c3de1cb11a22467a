package guard

import (
	"fmt"
	"strings"
	"testing"
)

// relay is what a proxy does with a response's body around one filter: what it buffers
// while it is told to pause, it shows again with what comes, and to the trailers.
type relay struct {
	*exchange
	buffered string
	paused   bool
	got      string // what the client has
}

func (r *relay) data(b string, end bool) {
	r.chunk = []byte(r.buffered + b)
	r.paused = r.stream.ResponseBody(len(r.chunk), end) == Pause
	if r.buffered = string(r.chunk); !r.paused {
		r.got, r.buffered = r.got+r.buffered, ""
	}
}

func (r *relay) trailers() {
	r.chunk, r.bodyGone = []byte(r.buffered), !r.paused
	if r.stream.ResponseTrailers() == Pause {
		r.t.Error("trailers were held back")
	}
	if r.paused {
		r.got += string(r.chunk)
	}
}

// ends are the ways in which an answer can end.
var ends = map[string]func(r *relay, last string){
	"with the last bytes": func(r *relay, last string) { r.data(last, true) },
	"after them":          func(r *relay, last string) { r.data(last, false); r.data("", true) },
	"by trailers":         func(r *relay, last string) { r.data(last, false); r.trailers() },
}

const shortList = `{"jsonrpc":"2.0","id":1,"result":{"tools":[{"name":"charge","inputSchema":{}}]}}`

const withAdvert = `{"jsonrpc":"2.0","id":1,"result":{"tools":[{"name":"charge","inputSchema":{"properties":{"idempotency_key":`

// However an answer ends that may gain an advert, and wherever its chunks part, its bytes
// arrive, and nothing of it stays behind.
func TestAdvertisedToTheEnd(t *testing.T) {
	events := "event: message\ndata: " + shortList + "\n\n"
	for name, c := range map[string]struct {
		content, body string
		gains         bool
	}{
		"a list":                       {"application/json", shortList, true},
		"a list and white space":       {"application/json", " " + shortList + "\r\n ", true},
		"cut short":                    {"application/json", shortList[:25], false},
		"a string":                     {"application/json", `"{not an object"`, false},
		"a number":                     {"application/json", "7", false},
		"a batch":                      {"application/json", "[" + shortList + "]", false},
		"white space":                  {"application/json", " \n", false},
		"nothing":                      {"application/json", "", false},
		"events":                       {"text/event-stream", events, true},
		"events, not ended":            {"text/event-stream", events[:len(events)-1], false},
		"events, one begun":            {"text/event-stream", events + events[:30], true},
		"events, fields behind":        {"text/event-stream", events + "retry: 5\n: hb\n", true},
		"events, a field's line begun": {"text/event-stream", events + "retr", true},
		"events, all lines CR LF":      {"text/event-stream", strings.ReplaceAll(events, "\n", "\r\n"), true},
		"events, cut in their data":    {"text/event-stream", events[:40], false},
	} {
		for _, framing := range [][]string{nil, {"transfer-encoding", "chunked"}} {
			for how, end := range ends {
				for _, n := range []int{1, 7, 60, 1000} {
					t.Run(fmt.Sprint(name, "/", how, framing, n), func(t *testing.T) {
						w := newWorld(t)
						g := w.worker(preset("forward", ""))
						r := &relay{exchange: w.send(g, `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`, user, "ada")}
						r.wantSent()
						r.begin(200, c.content, framing...)
						rest := c.body
						for len(rest) > n {
							r.data(rest[:n], false)
							rest = rest[n:]
						}
						end(r, rest)
						r.stream.Done()
						if !c.gains && r.got != c.body {
							t.Errorf("expected %q, found %q", c.body, r.got)
						}
						if c.gains && !strings.Contains(r.got, withAdvert) {
							t.Errorf("no advert in %q", r.got)
						}
						// What stands around the advert is there too.
						before, after, _ := strings.Cut(c.body, `"inputSchema":{`)
						if got := lines(r.got); c.gains && !(strings.HasPrefix(got, lines(before)) && strings.HasSuffix(got, lines(after))) {
							t.Errorf("expected %q … %q, found %q", before, after, got)
						}
						if g.adverts != 0 || g.advertBuffered != 0 {
							t.Errorf("%d answers are still held, with %d bytes", g.adverts, g.advertBuffered)
						}
					})
				}
			}
		}
	}
}

// lines makes all line ends one, and leaves those at the end away.
func lines(s string) string {
	return strings.TrimRight(strings.NewReplacer("\r\n", "\n", "\r", "\n").Replace(s), "\n")
}

// With a length no trailers end a body before it is whole, and over HTTP/1 a proxy may
// read more at once than it can buffer: it is not told to pause.
func TestAdvertisedWithoutPausing(t *testing.T) {
	long := strings.Replace(shortList, `"name"`, `"pad":"`+strings.Repeat("x", 5000)+`","name"`, 1)
	for name, c := range map[string]struct {
		body    string
		headers []string
		pauses  bool
	}{
		"a length":                 {shortList, []string{"content-length", fmt.Sprint(len(shortList))}, false},
		"HTTP/1, long":             {long, []string{"transfer-encoding", "chunked"}, false},
		"HTTP/1, until it closes":  {long, []string{"connection", "close"}, false},
		"HTTP/1, short":            {shortList, []string{"transfer-encoding", "chunked"}, true},
		"HTTP/2":                   {long, nil, true},
		"HTTP/1, trailers to come": {shortList, []string{"transfer-encoding", "chunked", "trailer", "x-sum"}, false},
	} {
		w := newWorld(t)
		r := &relay{exchange: w.send(w.worker(preset("forward", "")), `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`, user, "ada")}
		r.begin(200, "application/json", c.headers...)
		cut := len(c.body) * 9 / 10
		r.data(c.body[:cut], false)
		if r.paused != c.pauses {
			t.Errorf("%s: paused %v", name, r.paused)
		}
		r.data(c.body[cut:], true)
		if want := !strings.HasSuffix(name, "to come"); strings.Contains(r.got, "idempotency_key") != want || len(r.got) < len(c.body) {
			t.Errorf("%s: found %.300s", name, r.got)
		}
	}
}

// What has gone on is not shown again by a pause.
func TestAdvertisedPartOfAChunk(t *testing.T) {
	w := newWorld(t)
	r := &relay{exchange: w.send(w.worker(preset("forward", "")), `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`, user, "ada")}
	r.begin(200, "text/event-stream", "transfer-encoding", "chunked")
	note := `data: {"jsonrpc":"2.0","method":"n","params":"` + strings.Repeat("x", 3000) + "\"}\n\n"
	r.data(note+"data: "+shortList[:9], false)
	if r.got != note {
		t.Fatalf("expected the whole event to go on, found %.300q", r.got)
	}
	r.data(shortList[9:]+"\n\n", false)
	r.data("", true)
	if !strings.HasPrefix(r.got, note+"data: "+withAdvert) || strings.Count(r.got, "xxx\"") != 1 {
		t.Errorf("found %.300q", r.got[len(note):])
	}
}

// A response that is reset cannot be flushed; a fault of our own can.
func TestAdvertisedAndCut(t *testing.T) {
	for name, cut := range map[string]func(r *relay) (want string){
		"reset": func(r *relay) string { return "" },
		"a fault": func(r *relay) string {
			r.panicsIn = "ReplaceResponseBody"
			r.data("b", false)
			r.data("c", true)
			return "abc"
		},
		"a fault, not read":  func(r *relay) string { r.panicsIn = "ResponseBody"; r.data("b", false); r.data("c", true); return "bc" },
		"a fault in headers": func(r *relay) string { r.panicsIn = "ResponseHeaders"; return "" },
	} {
		w := newWorld(t)
		g := w.worker(preset("forward", ""))
		r := &relay{exchange: w.send(g, `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`, user, "ada")}
		want := ""
		if strings.HasSuffix(name, "headers") {
			want = cut(r)
		}
		r.begin(200, "text/event-stream")
		if !strings.HasSuffix(name, "headers") {
			r.data("a", false)
			want = cut(r)
		}
		r.stream.Done()
		if r.got != want {
			t.Errorf("%s: expected %q, found %q", name, want, r.got)
		}
		if g.adverts != 0 || g.advertBuffered != 0 {
			t.Errorf("%s: %d answers are still held, with %d bytes", name, g.adverts, g.advertBuffered)
		}
	}
}

// A claimed call settles the same whatever ends its answer. A reset settles too.
func TestSettledAtEveryEnd(t *testing.T) {
	event := "data: " + okResult + "\n\n"
	for name, c := range map[string]struct{ content, body, want string }{
		"a result":               {"application/json", okResult, "completed"},
		"cut short":              {"application/json", okResult[:20], "outcome_unknown"},
		"nothing":                {"application/json", "", "outcome_unknown"},
		"an event":               {"text/event-stream", event, "completed"},
		"an event and one begun": {"text/event-stream", event + "data: {", "completed"},
		"an event not ended":     {"text/event-stream", event[:len(event)-1], "outcome_unknown"},
		"no event":               {"text/event-stream", "", "outcome_unknown"},
	} {
		for how, end := range ends {
			for _, n := range []int{1, 7, 1000} {
				w := newWorld(t)
				g := w.worker(plain)
				r := &relay{exchange: w.send(g, toolCall("1", `{}`), "idempotency-key", "k")}
				r.begin(200, c.content)
				rest := c.body
				for len(rest) > n {
					r.data(rest[:n], false)
					rest = rest[n:]
				}
				end(r, rest)
				if w.count("callonce_settled_total", "how=.="+c.want) != 1 {
					t.Errorf("%s, ended %s: expected %s before the stream's end, found %v", name, how, c.want, w.counts)
				}
				r.stream.Done()
				if w.count("callonce_settled_total") != 1 || r.got != c.body {
					t.Errorf("%s, ended %s: found %v, %q", name, how, w.counts, r.got)
				}
			}
		}
	}
}

// What answers that gain an advert buffer together is bounded, and so is their number. More
// pass as they came, and are counted.
func TestAdvertsAreBounded(t *testing.T) {
	w := newWorld(t)
	g := w.worker(preset("forward", ""))
	list := func() *relay {
		r := &relay{exchange: w.send(g, `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`, user, "ada")}
		r.wantSent()
		return r
	}
	piece := `{"jsonrpc":"2.0","id":1,"result":{"pad":"` + strings.Repeat("x", maxAdvertised*3/4)
	var open []*relay
	for range 20 {
		r := list()
		r.begin(200, "application/json")
		r.data(piece, false)
		open = append(open, r)
		if g.advertBuffered > mostAdvertBuffered {
			t.Fatalf("%d bytes are held", g.advertBuffered)
		}
	}
	passed := 0
	for _, r := range open {
		if r.got != "" {
			passed++
		}
		r.data(`"}}`, true)
		if r.got != piece+`"}}` {
			t.Errorf("%d bytes arrived, expected %d", len(r.got), len(piece)+3)
		}
		r.stream.Done()
	}
	if passed < 5 || passed > 15 || w.count("callonce_adverts_left_out_total", "server=.=srv") != uint64(passed) {
		t.Errorf("%d of 20 passed as they came; counted %v", passed, w.counts)
	}
	open = nil
	for range mostAdverts + 3 {
		open = append(open, list())
	}
	if g.adverts != mostAdverts || w.count("callonce_adverts_left_out_total") != uint64(passed)+3 {
		t.Errorf("%d answers are to gain an advert; counted %v", g.adverts, w.counts)
	}
	for _, r := range open {
		r.begin(200, "application/json")
		r.data(shortList, true)
		r.stream.Done()
	}
	if g.adverts != 0 || g.advertBuffered != 0 {
		t.Errorf("%d answers are still held, with %d bytes", g.adverts, g.advertBuffered)
	}
}
