package guard

import "testing"

// A list asked for earlier, whose answer is late, says nothing against what the server has said since.
func TestHintsOfAnOlderList(t *testing.T) {
	w := newWorld(t)
	g := w.worker(trusting(""))
	older := w.send(g, asks(""), user, "ada")
	newer := w.send(g, asks(""), user, "ada")
	newer.answer(200, "application/json", toolsAre("get", ""))
	older.answer(200, "application/json", toolsAre("get", readOnly))
	wantGuards(t, w, g, map[string]bool{"get": true})
}

// No strict JSON, since more follows.
func TestHintsOfAListWithMoreBehind(t *testing.T) {
	w := newWorld(t)
	g := w.worker(trusting(""))
	x := w.send(g, asks(""), user, "ada")
	x.begin(200, "application/json")
	x.chunks(toolsAre("get", readOnly), 1<<20)
	x.chunks(toolsAre("get", ""), 1<<20)
	x.stream.ResponseBody(0, true)
	x.stream.Done()
	wantGuards(t, w, g, map[string]bool{"get": true})
}

// A body that is cut before the length it announced says nothing, and what was said before is forgotten: the server began to say it anew.
func TestHintsOfAListCut(t *testing.T) {
	w := newWorld(t)
	g := w.worker(trusting(""))
	w.send(g, asks(""), user, "ada").answer(200, "application/json", toolsAre("get", readOnly))
	wantGuards(t, w, g, map[string]bool{"get": false})
	x := w.send(g, asks(""), user, "ada")
	x.begin(200, "application/json", "content-length", "5000")
	x.chunks(toolsAre("get", readOnly), 1<<20)
	x.stream.Done()
	wantGuards(t, w, g, map[string]bool{"get": true})
}

// A list that the proxy answers with in the server's stead is none of the server's.
func TestHintsOfTheProxy(t *testing.T) {
	w := newWorld(t)
	g := w.worker(trusting(""))
	x := w.open(g, user, "ada")
	x.properties["response.code_details"] = "direct_response"
	x.arrive(asks(""))
	x.answer(200, "application/json", toolsAre("get", readOnly))
	wantGuards(t, w, g, map[string]bool{"get": true})
}
