package guard

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

const (
	hintPolicy = `{"namespace":"ns","policies":{"p":{"server":"srv","principal":["header:x-user"],"reply":"http","trust_hints":true%s,"tools":[{"match":"named"}]}},"default":"p"}`
	readOnly   = `"annotations":{"readOnlyHint":true}`
)

func trusting(more string) string { return fmt.Sprintf(hintPolicy, more) }

func callOf(tool string) string {
	return `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"` + tool + `","arguments":{}}}`
}

// toolsAre is what a server lists: pairs of a name and the rest of the tool.
func toolsAre(tools ...string) string {
	var out []string
	for i := 0; i < len(tools); i += 2 {
		more := ""
		if tools[i+1] != "" {
			more = "," + tools[i+1]
		}
		out = append(out, `{"name":"`+tools[i]+`","inputSchema":{"type":"object","properties":{}}`+more+`}`)
	}
	return `{"jsonrpc":"2.0","id":9,"result":{"tools":[` + strings.Join(out, ",") + `]}}`
}

func asks(cursor string) string {
	if cursor != "" {
		return `{"jsonrpc":"2.0","id":9,"method":"tools/list","params":{"cursor":"` + cursor + `"}}`
	}
	return `{"jsonrpc":"2.0","id":9,"method":"tools/list"}`
}

// guards says whether a keyed call of a tool is guarded.
func guards(x *exchange) bool {
	x.t.Helper()
	x.wantSent()
	is := x.state[stateOutcome] == outFirst
	x.answer(200, "application/json", okResult)
	return is
}

func wantGuards(t *testing.T, w *world, g *Guard, want map[string]bool, headers ...string) {
	t.Helper()
	for tool, want := range want {
		w.ids++
		if got := guards(w.send(g, callOf(tool), append([]string{user, "ada", "idempotency-key", fmt.Sprint("k", w.ids)}, headers...)...)); got != want {
			t.Errorf("%s: guarded %v, want %v", tool, got, want)
		}
	}
}

// A server lists its tools, as JSON or events, and those of its hints that count take the guard off tools that no entry names.
func TestHintsAreLearned(t *testing.T) {
	list := toolsAre("get", readOnly, "put", `"annotations":{"idempotentHint":true}`, "both", `"annotations":{"readOnlyHint":true,"destructiveHint":true}`,
		"kill", `"annotations":{"idempotentHint":true,"destructiveHint":true}`, "charge", "", "named", readOnly, strings.Repeat("n", 129), readOnly)
	want := map[string]bool{"get": false, "put": false, "both": true, "kill": true, "charge": true, "named": true, "unheard": true}
	for kind, body := range map[string]string{"application/json": list, "text/event-stream": "data: {\"method\":\"n\"}\n\nevent: message\ndata: " + list + "\n\n"} {
		w := newWorld(t)
		g := w.worker(trusting(""))
		wantGuards(t, w, g, map[string]bool{"get": true})
		x := w.send(g, asks(""), user, "ada")
		x.answer(200, kind, body)
		for _, l := range x.request {
			if l[0] == "accept-encoding" {
				t.Errorf("%s: it may come compressed", kind)
			}
		}
		wantGuards(t, w, g, want)
		if n, off := w.count("callonce_hints_total", "how=.=learned"), w.count("callonce_hints_total", "how=.=off"); n != 1 || off != 2 {
			t.Errorf("%s: learned %d, off %d", kind, n, off)
		}
		if len(w.logs) != 1 || !strings.Contains(w.logs[0], "of 6 tools that the server lists 2 are not guarded") {
			t.Errorf("%s: logged %q", kind, w.logs)
		}
		// Another caller, another path and another cluster were told nothing.
		for _, other := range [][]string{{user, "bob"}, {user, "ada", ":path", "/mcp?tools=few"}, {user, "ada", ":path", "/other"}} {
			if !guards(w.send(g, callOf("get"), append(other, "idempotency-key", "o"+strings.Join(other, ""))...)) {
				t.Errorf("%s: what one was told counts for %v", kind, other)
			}
		}
		for _, property := range []string{"xds.cluster_name", "xds.route_name"} {
			x := w.open(g, user, "ada", "idempotency-key", property)
			x.properties[property] = "canary"
			if x.arrive(callOf("get")); !guards(x) {
				t.Errorf("%s: what one server said counts for another %s", kind, property)
			}
		}
		// It does not count for ever.
		w.pass(time.Hour + time.Second)
		wantGuards(t, w, g, map[string]bool{"get": true})
		if len(g.hints.views) != 0 || g.hints.bytes != 0 {
			t.Errorf("%s: left over: %d views of %d bytes", kind, len(g.hints.views), g.hints.bytes)
		}
	}
}

// Off unless the policy says otherwise, and never against an entry that fits all.
func TestHintsAreNotTrusted(t *testing.T) {
	for _, config := range []string{
		strings.Replace(trusting(""), `"trust_hints":true,`, ``, 1),
		strings.Replace(trusting(""), `"match":"named"`, `"match":"*"`, 1),
	} {
		w := newWorld(t)
		g := w.worker(config)
		w.send(g, asks(""), user, "ada").answer(200, "application/json", toolsAre("get", readOnly))
		wantGuards(t, w, g, map[string]bool{"get": true})
	}
}

// Whatever a new answer says replaces the old one, and what cannot be read, or is none, leaves tools guarded.
func TestHintsAreForgotten(t *testing.T) {
	list := toolsAre("get", readOnly)
	for _, c := range []struct {
		name, kind, body string
		headers          []string
		status           int
		keeps            bool
		leftOut          uint64
	}{
		{"the same", "application/json", list, nil, 200, true, 0},
		{"without the tool", "application/json", toolsAre("other", readOnly), nil, 200, false, 0},
		{"without the hint", "application/json", toolsAre("get", ""), nil, 200, false, 0},
		{"named twice", "application/json", toolsAre("get", readOnly, "get", ""), nil, 200, false, 0},
		{"an error", "application/json", `{"jsonrpc":"2.0","id":9,"error":{"code":-32603,"message":"x"}}`, nil, 200, false, 1},
		{"another's answer", "application/json", strings.Replace(list, `"id":9`, `"id":8`, 1), nil, 200, false, 1},
		{"compressed", "application/json", list, []string{"content-encoding", "gzip"}, 200, false, 1},
		{"of another type", "text/html", list, nil, 200, false, 1},
		{"cut short", "application/json", list[:40], nil, 200, false, 1},
		{"events without it", "text/event-stream", "data: {\"method\":\"n\"}\n\n", nil, 200, false, 1},
		{"too long", "application/json", strings.Replace(list, `{"name"`, `{"title":"`+strings.Repeat("x", mostHintAnswer)+`","name"`, 1), nil, 200, false, 1},
		{"too long an event", "text/event-stream", "data: " + strings.Replace(list, `{"name"`, `{"title":"`+strings.Repeat("x", mostHintAnswer)+`","name"`, 1) + "\n\n", nil, 200, false, 1},
		{"too many tools", "application/json", manyTools(2000), nil, 200, false, 1},
		{"an error's status", "application/json", list, nil, 500, true, 0},
	} {
		w := newWorld(t)
		g := w.worker(trusting(""))
		w.send(g, asks(""), user, "ada").answer(200, "application/json", list)
		wantGuards(t, w, g, map[string]bool{"get": false})
		x := w.send(g, asks(""), user, "ada")
		x.begin(c.status, c.kind, c.headers...)
		x.chunks(c.body, 1<<16)
		x.stream.ResponseBody(0, true)
		x.stream.Done()
		if n := w.count("callonce_hints_total", "how=.=left_out"); n != c.leftOut {
			t.Errorf("%s: left out %d, want %d", c.name, n, c.leftOut)
		}
		w.ids++
		if got := guards(w.send(g, callOf("get"), user, "ada", "idempotency-key", "later")); got == c.keeps {
			t.Errorf("%s: guarded %v", c.name, got)
		}
		x = w.send(g, asks(""), user, "ada")
		x.properties["response.code_details"] = "direct_response"
		x.begin(200, "application/json")
		if x.chunks(toolsAre("get", readOnly, "mine", readOnly), 64); guardedNow(w, g, "mine") == false {
			t.Errorf("%s: an answer of the proxy's own counts", c.name)
		}
	}
}

func guardedNow(w *world, g *Guard, tool string) bool {
	w.ids++
	return guards(w.send(g, callOf(tool), user, "ada", "idempotency-key", fmt.Sprint("now", w.ids)))
}

func manyTools(n int) string {
	var tools []string
	for i := range n {
		tools = append(tools, fmt.Sprint("tool", i), readOnly)
	}
	return toolsAre(append(tools, "get", readOnly)...)
}

// Pages count together, each until it comes anew; a later page counts only beside the first that it was asked for with.
func TestHintsOfPages(t *testing.T) {
	w := newWorld(t)
	g := w.worker(trusting(""))
	page := func(cursor, list string) { w.send(g, asks(cursor), user, "ada").answer(200, "application/json", list) }
	page("two", toolsAre("b", readOnly))
	wantGuards(t, w, g, map[string]bool{"b": true})
	page("", toolsAre("a", readOnly))
	page("two", toolsAre("b", readOnly))
	page("three", toolsAre("a", "", "c", readOnly))
	wantGuards(t, w, g, map[string]bool{"a": true, "b": false, "c": false})
	page("three", toolsAre("c", ""))
	wantGuards(t, w, g, map[string]bool{"a": false, "b": false, "c": true})
	late := w.send(g, asks("two"), user, "ada")
	page("", toolsAre("a", readOnly))
	late.answer(200, "application/json", toolsAre("b", readOnly))
	wantGuards(t, w, g, map[string]bool{"a": false, "b": true, "c": true})
	// A page that cannot be read might have said that a tool destroys.
	page("two", `{`)
	wantGuards(t, w, g, map[string]bool{"a": true})
}

// Whatever callers and servers send, what is kept is bounded, and the oldest goes.
func TestHintsAreBounded(t *testing.T) {
	w := newWorld(t)
	g := w.worker(trusting(""))
	for i := range mostHintViews + 44 {
		w.send(g, asks(""), user, fmt.Sprint("user", i)).answer(200, "application/json", toolsAre("get", readOnly))
		w.send(g, callOf("get"), user, "user0", "idempotency-key", fmt.Sprint("k", i)).stream.Done()
	}
	if n := len(g.hints.views); n != mostHintViews {
		t.Errorf("%d views, want %d", n, mostHintViews)
	}
	if guards(w.send(g, callOf("get"), user, "user0", "idempotency-key", "last")) {
		t.Error("the one that is used went before the others")
	}
	if !guards(w.send(g, callOf("get"), user, "user1", "idempotency-key", "last")) {
		t.Error("the oldest stayed")
	}
	for i := range 64 {
		w.send(g, asks(""), user, fmt.Sprint("user", i)).answer(200, "application/json", manyTools(1000))
	}
	if g.hints.bytes > mostHintBytes || g.hints.bytes < mostHintBytes/2 {
		t.Errorf("%d bytes, want at most %d", g.hints.bytes, mostHintBytes)
	}
	for view := range g.hints.views {
		g.hints.forget(view)
	}
	if g.hints.bytes != 0 {
		t.Errorf("%d bytes of nothing", g.hints.bytes)
	}
	// Servers that never come to the end of their lists.
	var open []*exchange
	for range 3 * mostListingsBytes / mostHintAnswer {
		x := w.send(g, asks(""), user, "slow")
		x.begin(200, "application/json")
		x.chunks(`{"x":"`+strings.Repeat("x", mostHintAnswer/2), 1<<16)
		open = append(open, x)
	}
	if g.hints.buffered > mostListingsBytes || w.count("callonce_hints_total", "how=.=left_out") == 0 {
		t.Errorf("%d bytes of answers under way", g.hints.buffered)
	}
	for range mostListings + 9 {
		open = append(open, w.send(g, asks(""), user, "slow"))
	}
	if g.hints.listings != mostListings {
		t.Errorf("%d answers are read", g.hints.listings)
	}
	for _, x := range open {
		x.stream.Done()
	}
	if g.hints.buffered != 0 || g.hints.listings != 0 {
		t.Errorf("left over: %d bytes, %d answers", g.hints.buffered, g.hints.listings)
	}
	// A list in more pages than there is room for.
	w.send(g, asks(""), user, "ada").answer(200, "application/json", toolsAre("get", readOnly))
	for i := range 3000 {
		x := w.send(g, asks(fmt.Sprint(i)), user, "ada")
		x.begin(200, "application/json")
		x.chunks(toolsAre("t", readOnly), 1<<16)
		x.stream.Done()
	}
	if g.hints.bytes > mostHintBytes || !guardedNow(w, g, "t") {
		t.Errorf("%d bytes; a list that does not fit counts", g.hints.bytes)
	}
}

// What hangs on the guard in other presets: derived keys, strays that are refused, the argument that is advertised and stripped.
func TestHintsInPresets(t *testing.T) {
	w := newWorld(t)
	g := w.worker(preset("derived", `,"trust_hints":true`))
	for _, headers := range [][]string{nil, {"mcp-method", "tools/list"}} {
		x := w.send(g, asks(""), append(headers, user, "ada")...)
		x.begin(200, "application/json")
		x.chunk = []byte(toolsAre("get", readOnly, "charge", ""))
		x.stream.ResponseBody(len(x.chunk), true)
		if got := string(x.chunk); strings.Count(got, `"idempotency_key":`) != 1 || strings.Index(got, "idempotency_key") < strings.Index(got, "charge") {
			t.Errorf("%v: advertised %s", headers, got)
		}
		x.stream.Done()
	}
	read := w.send(g, callOf("get"), user, "ada")
	read.wantSent()
	if read.state[stateOutcome] != "" || read.state[stateHint] != "readOnlyHint" || read.state[stateTool] != "get" {
		t.Errorf("published %v", read.state)
	}
	if x := w.send(g, callOf("charge"), user, "ada"); x.state[stateOutcome] != outFirst {
		t.Errorf("no key was derived: %v", x.state)
	}
	// Who was told another list sends a key all the same. It is not the server's.
	x := w.send(g, strings.Replace(callOf("get"), `"arguments":{}`, `"arguments":{"idempotency_key":"k","a":1}`, 1), user, "ada")
	x.wantSent()
	if strings.Contains(string(x.body), "idempotency_key") || !strings.Contains(string(x.body), `"a":1`) {
		t.Errorf("the server gets %s", x.body)
	}

	w = newWorld(t)
	g = w.worker(trusting(""))
	w.send(g, asks(""), user, "ada", "mcp-method", "tools/list").answer(200, "application/json", toolsAre("get", readOnly))
	wantGuards(t, w, g, map[string]bool{"get": false})

	w = newWorld(t)
	g = w.worker(preset("gateway", `,"trust_hints":true`))
	w.send(g, asks(""), user, "ada", "mcp-method", "tools/list").answer(200, "application/json", toolsAre("get", readOnly))
	if !guards(w.send(g, callOf("get"), user, "ada", "idempotency-key", "k")) {
		t.Error("a key was sent, and stands for nothing")
	}
	w.send(g, callOf("get"), user, "ada").wantSent()

	w = newWorld(t)
	g = w.worker(strings.Replace(preset("derived", `,"trust_hints":true`), `"preset"`, `"mode":"observe","preset"`, 1))
	list := w.send(g, asks(""), user, "ada")
	list.answer(200, "application/json", toolsAre("get", readOnly))
	if !hasHeader(list.request, "accept-encoding") {
		t.Error("observe edits")
	}
	if x := w.send(g, callOf("get"), user, "ada"); x.state[stateOutcome] != "" {
		t.Errorf("observed as guarded: %v", x.state)
	}
}

func hasHeader(lines [][2]string, name string) bool {
	for _, l := range lines {
		if l[0] == name {
			return true
		}
	}
	return false
}

// Without an identity nothing is learned, and the call is refused as ever.
func TestHintsWantAnIdentity(t *testing.T) {
	w := newWorld(t)
	g := w.worker(trusting(""))
	w.send(g, asks("")).answer(200, "application/json", toolsAre("get", readOnly))
	if len(g.hints.views) != 0 {
		t.Error("learned for nobody")
	}
	w.send(g, callOf("get"), "idempotency-key", "k").wantRefused(400, "idempotency_requires_verified_identity")
}
