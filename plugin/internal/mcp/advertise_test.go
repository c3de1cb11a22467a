package mcp

import (
	"encoding/json"
	"strings"
	"testing"
)

func TestAdvert(t *testing.T) {
	tools := &Advert{Method: MethodTools, Argument: "idempotency_key", Guarded: func(tool string) bool { return tool != "get" }}
	initialize := &Advert{Method: MethodInitialize}
	property := string((&Response{}).must(t, `{"id":1,"result":{"tools":[{"name":"x","inputSchema":{"properties":{}}}]}}`, tools))
	property = property[strings.Index(property, `"idempotency_key"`) : len(property)-len(`}}]}}`)-1]
	for _, c := range []struct {
		advert   *Advert
		in, want string // "" = passes as it came
	}{
		{initialize, `{"id":1,"result":{"capabilities":{"tools":{}}}}`, `{"id":1,"result":{"capabilities":{"tools":{"idempotency":{}}}}}`},
		{initialize, `{"id":1,"result":{"capabilities":{"tools":{"listChanged":true}}}}`, `{"id":1,"result":{"capabilities":{"tools":{"idempotency":{},"listChanged":true}}}}`},
		{initialize, `{"id":1,"result":{"capabilities":{"tools":{"idempotency":{}}}}}`, ""},
		{initialize, `{"id":1,"result":{"capabilities":{}}}`, ""},
		{initialize, `{"id":1,"result":{"capabilities":{"tools":null}}}`, ""},
		{initialize, `{"id":2,"result":{"capabilities":{"tools":{}}}}`, ""},
		{initialize, `{"id":1,"method":"x","result":{"capabilities":{"tools":{}}}}`, ""},
		{initialize, `{"id":1,"error":{}}`, ""},
		{initialize, `{"id":1,"result":{"capabilities":{"tools":{},"tools":{}}}}`, ""},
		{tools, `{"id":1,"result":{"tools":[{"name":"get","inputSchema":{"properties":{}}}]}}`, ""},
		{tools, `{"id":1,"result":{"tools":[{"name":"x","inputSchema":{"properties":{"idempotency_key":{}}}}]}}`, ""},
		{tools, `{"id":1,"result":{"tools":[{"name":"x"},{"name":"y","inputSchema":true}]}}`, ""},
		{tools, `{"id":1,"result":{"tools":[{"name":"x","inputSchema":{"type":"object"}}]}}`, `{"id":1,"result":{"tools":[{"name":"x","inputSchema":{"properties":{` + property + `},"type":"object"}}]}}`},
		{
			tools, `{"id":1,"result":{"tools":[{"name":"x","inputSchema":{"properties":{"a":{}}}},{"inputSchema":{"properties":{}},"name":"y"}]}}`,
			`{"id":1,"result":{"tools":[{"name":"x","inputSchema":{"properties":{` + property + `,"a":{}}}},{"inputSchema":{"properties":{` + property + `}},"name":"y"}]}}`,
		},
	} {
		var r Response
		got, ok := r.AppendAdvert(nil, []byte(c.in), []byte("1"), c.advert)
		if ok != (c.want != "") || ok && string(got) != c.want {
			t.Errorf("%s:\nexpected %s\nfound    %s", c.in, c.want, got)
		}
		if ok && !json.Valid(got) {
			t.Errorf("broken JSON: %s", got)
		}
	}
	var schema map[string]struct{ Type, Description string }
	if err := json.Unmarshal([]byte("{"+property+"}"), &schema); err != nil || schema["idempotency_key"].Type != "string" || !strings.Contains(schema["idempotency_key"].Description, "same value again") {
		t.Errorf("not a property that tells a model when to send it: %v %s", err, property)
	}
}

func (r *Response) must(t *testing.T, in string, a *Advert) []byte {
	out, ok := r.AppendAdvert(nil, []byte(in), nil, a)
	if !ok {
		t.Fatal("no advert was put in")
	}
	return out
}

func TestEventAdvert(t *testing.T) {
	initialize := &Advert{Method: MethodInitialize}
	for in, want := range map[string]string{
		"event: message\ndata: {\"id\":1,\"result\":{\"capabilities\":{\"tools\":{}}}}\n\n":                   "event: message\ndata: {\"id\":1,\"result\":{\"capabilities\":{\"tools\":{\"idempotency\":{}}}}}\n\n",
		"id: 7\r\ndata: {\"id\":1,\r\ndata:\"result\":{\"capabilities\":{\"tools\":{}}}}\r\nretry: 1\r\n\r\n": "id: 7\nretry: 1\ndata: {\"id\":1,\ndata: \"result\":{\"capabilities\":{\"tools\":{\"idempotency\":{}}}}}\n\n",
		"data: {\"method\":\"notify\"}\n\n": "",
		": comment\n\n":                     "",
	} {
		if n := EventEnd([]byte(in+"data: more"), 0); n != len(in) {
			t.Errorf("%q: the event ends at %d, expected %d", in, n, len(in))
		}
		for i := range len(in) - 1 {
			if n := EventEnd([]byte(in[:i]), 0); n != 0 && n != i {
				t.Errorf("%q: an end at %d", in[:i], n)
			}
		}
		var r Response
		got, ok := r.AppendEventAdvert(nil, []byte(in), []byte("1"), initialize)
		if ok != (want != "") || string(got) != want {
			t.Errorf("%q: expected %q, found %q", in, want, got)
		}
	}
}
