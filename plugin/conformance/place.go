package conformance

import (
	"encoding/json"
	"net/http"
	"strings"
	"sync"
	"testing"
)

// keyInTheBody hands keys on as members of the body. The server loses each first answer,
// deduplicates by what it gets there, and is called again.
func keyInTheBody(t *testing.T, f Front) {
	const config = `{"namespace":"cases","policies":{
		"p":{"server":"s","anonymous":true,"keys":["header:Idempotency-Key"],"forward_key":"json:/params/arguments/request_id",
			"tools":[{"match":"made_up","guard":"derived","on_unknown":"retry"},{"match":"*","on_unknown":"retry"}]},
		"m":{"server":"m","anonymous":true,"forward_key":"json:/params/_meta/example.com~1marker","strip":true,
			"tools":[{"match":"*","on_unknown":"retry"}]}},
		"routes":{"meta":"m"},"default":"p"}`
	at := func(s seen) (key string) {
		var m struct {
			Params struct {
				Arguments map[string]any
				Meta      map[string]any `json:"_meta"`
			}
		}
		_ = json.Unmarshal([]byte(s.Body), &m)
		if key, _ = m.Params.Arguments["request_id"].(string); key == "" {
			key, _ = m.Params.Meta["example.com/marker"].(string)
		}
		return key
	}
	var mu sync.Mutex
	charges := map[string]int{}
	u := newUpstream(t, func(w http.ResponseWriter, s seen) {
		mu.Lock()
		key := at(s)
		charges[key]++
		first := charges[key] == 1
		mu.Unlock()
		if first {
			hangUp(w)
			return
		}
		asJSON(w, s)
	})
	for _, noHold := range []bool{false, true} {
		p := f.Start(t, Setup{Config: config, Upstream: u.URL, NoHoldHeaders: noHold, Routes: []Route{{When: "meta"}}})
		c := newClient(t, p)
		mu.Lock()
		clear(charges)
		mu.Unlock()
		for n, story := range []struct {
			name   string
			params string // as the caller sends them
			h      headers
			want   string // as the server gets them; KEY stands for the key
			key    string // "" = a derived one
		}{
			{"an argument", `"name":"charge","arguments":{"cents": 5}`, headers{"Idempotency-Key", "k1"}, `"name":"charge","arguments":{"request_id":"KEY","cents": 5}`, "k1"},
			{"the caller's own", `"name":"charge","arguments":{"request_id":"mine"}`, headers{"Idempotency-Key", "k2"}, `"name":"charge","arguments":{"request_id":"KEY"}`, "k2"},
			{"no arguments", `"name":"charge"`, headers{"Idempotency-Key", "k3"}, `"arguments":{"request_id":"KEY"},"name":"charge"`, "k3"},
			{"an empty list", `"name":"charge","arguments":[]`, headers{"Idempotency-Key", "k4"}, `"name":"charge","arguments":{"request_id":"KEY"}`, "k4"},
			{"derived", `"name":"made_up","arguments":{ "to":"é" }`, nil, `"name":"made_up","arguments":{"request_id":"KEY", "to":"é" }`, ""},
			{"_meta", `"name":"charge","arguments":{"idempotency_key":"two words","a":1}`, headers{"X-Route", "meta"}, `"_meta":{"example.com/marker":"KEY"},"name":"charge","arguments":{"a":1}`, "two words"},
			{"_meta that is there", `"name":"charge","_meta":{"progressToken":1},"arguments":{"idempotency_key":"k5"}`, headers{"X-Route", "meta"}, `"name":"charge","_meta":{"example.com/marker":"KEY","progressToken":1},"arguments":{}`, "k5"},
		} {
			before := u.Runs()
			send := func() reply {
				return c.post(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{`+story.params+`}}`, story.h...)
			}
			if r := send(); r.Err == nil && r.Status == 200 {
				t.Fatalf("%s: the answer was to be lost: %s", story.name, r.Body)
			}
			wantFirst(t, send())
			wantReplay(t, send())
			if got := u.Runs() - before; got != 2 {
				t.Errorf("%s: the server was called %d times, expected 2", story.name, got)
			}
			seen := u.Seen()
			for _, s := range seen[len(seen)-2:] {
				key := at(s)
				if story.key != "" && key != story.key || story.key == "" && len(key) != 64 {
					t.Errorf("%s: the key went on as %q", story.name, key)
				}
				want := `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{` + strings.Replace(story.want, "KEY", key, 1) + `}}`
				if s.Body != want {
					t.Errorf("%s, headers not buffered %v:\n got %s\nwant %s", story.name, noHold, s.Body, want)
				}
				if s.Header.Get("Idempotency-Key") != "" {
					t.Errorf("%s: the header went on", story.name)
				}
			}
			mu.Lock()
			if len(charges) != n+1 {
				t.Errorf("%s: %d charges in all, expected %d", story.name, len(charges), n+1)
			}
			mu.Unlock()
		}
	}
}
