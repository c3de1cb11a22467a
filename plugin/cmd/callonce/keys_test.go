package main

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// interfaceOf is the operators' interface with two pages of keys, as docs/operators.md has it.
func interfaceOf(t *testing.T, acts *[]string) string {
	row := func(op, at string) string {
		return `{"path":"/ops/keys/` + op + `?at=` + at + `","operation":"` + op + `","state":"outcome_unknown","attempt":2,"age_ms":91234,"settled_ms_ago":90000,` +
			`"expires_in_ms":209999,"tool":"charge","scope":"9d1c7a40b2e6f385","cause":"status_5xx","status":502}`
	}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		answer := func(status int, text string) {
			w.WriteHeader(status)
			fmt.Fprint(w, text)
		}
		q := r.URL.Query()
		switch at := q.Get("at"); {
		case r.Header.Get("Authorization") != "Bearer t":
			answer(403, `{"error":"no identity that was verified fits"}`)
		case r.URL.Path == "/page":
			w.Header().Set("Content-Type", "text/html")
			answer(200, "<html>")
		case r.Method == "POST":
			*acts = append(*acts, r.URL.Path+"?"+r.URL.RawQuery)
			if q.Get("to") == "refused" {
				answer(409, `{"error":"this key cannot be resolved so","is":`+row("00000000000000aa", "7")+`}`)
				return
			}
			answer(200, `{"resolved":"`+q.Get("to")+`","was":`+row("00000000000000aa", "7")+`}`)
		case r.URL.Path == "/ops/keys" && q.Get("state") == "completed":
			answer(200, `{"keys":[]}`)
		case r.URL.Path == "/ops/keys" && at == "":
			answer(200, `{"keys":[`+row("00000000000000aa", "7")+`],"next":"8"}`)
		case r.URL.Path == "/ops/keys":
			answer(200, `{"keys":[`+row("00000000000000bb", "9")+`],"unreadable":3}`)
		case r.URL.Path == "/ops/keys/00000000000000bb" && at == "":
			answer(404, `{"error":"not found in this piece of the table","page":{"keys":[],"next":"8"}}`)
		case r.URL.Path == "/ops/keys/00000000000000aa", r.URL.Path == "/ops/keys/00000000000000bb":
			answer(200, row(r.URL.Path[len("/ops/keys/"):], "7"))
		default:
			answer(404, `{"error":"there is no such key"}`)
		}
	}))
	t.Cleanup(s.Close)
	return s.URL
}

// Keys are listed over all pages, shown wherever they lie, and resolved after a word.
func TestKeys(t *testing.T) {
	const line = "00000000000000aa  outcome_unknown  charge  1m31s  3m29s    2        status_5xx 502  9d1c7a40b2e6f385\n"
	const prompt = "00000000000000aa will be released: the next repeat of this call RUNS the tool.\nSay yes to go on: "
	const head = "OPERATION         STATE            TOOL    AGE    ENDS IN  ATTEMPT  HOW             SCOPE\n"
	for _, c := range []struct {
		args, stdin string
		out         string // the whole of it, "" = whatever
		err         string // a part of it
		acts        int
	}{
		{"list", "", head + line + strings.Replace(line, "aa", "bb", 1) + "2 keys; 3 that this build cannot read\n", "", 0},
		{"list --most 1", "", head + line + "1 key, and perhaps more: see --most\n", "", 0},
		{"list --state completed", "", "0 keys\n", "", 0},
		{"list --json --most 1", "", `{"path":"/ops/keys/00000000000000aa?at=7","operation":"00000000000000aa","state":"outcome_unknown","attempt":2,"age_ms":91234,"settled_ms_ago":90000,"expires_in_ms":209999,"tool":"charge","scope":"9d1c7a40b2e6f385","cause":"status_5xx","status":502}` + "\n", "", 0},
		{"show 00000000000000bb", "", head + strings.Replace(line, "aa", "bb", 1), "", 0},
		{"show 00000000000000cc", "", "", "there is no such key", 0},
		{"resolve 00000000000000aa --to released --reason looked", "yes\n", head + line + prompt + "00000000000000aa is released: the next repeat of this call RUNS the tool\n", "", 1},
		{"resolve 00000000000000aa --to released --reason looked", "y\n", head + line + prompt, "nothing was done", 0},
		{"resolve 00000000000000aa --to released --reason looked", "", head + line + prompt, "nothing was done", 0},
		{"resolve 00000000000000aa --to released --reason looked --yes", "", "00000000000000aa is released: the next repeat of this call RUNS the tool\n", "", 1},
		{"resolve 00000000000000aa --to refused --reason looked --yes", "", "", "this key cannot be resolved so (it is outcome_unknown now)", 1},
		{"resolve 00000000000000aa --to free --reason looked --yes", "", "", "--to: want completed_elsewhere, released or refused", 0},
		{"resolve 00000000000000aa --to released --yes", "", "", "and --reason", 0},
		{"resolve --to released --reason r --yes", "", "", "want an operation", 0},
		{"forget", "", "", `unknown command "forget"`, 0},
		{"", "", "", "want list, show or resolve", 0},
	} {
		var acts []string
		base := interfaceOf(t, &acts)
		args := strings.Fields(c.args)
		if c.args != "" && c.args != "forget" {
			args = append(args, "--url", base+"/ops/keys", "--header", "Authorization: Bearer t")
		}
		var stdout, stderr bytes.Buffer
		err := runKeys(context.Background(), args, strings.NewReader(c.stdin), &stdout, &stderr)
		if (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) {
			t.Errorf("%s: %v, want %q", c.args, err, c.err)
		}
		if c.out != "" && stdout.String() != c.out {
			t.Errorf("%s:\n%s\nwant\n%s", c.args, stdout.String(), c.out)
		}
		if len(acts) != c.acts || c.acts == 1 && !strings.HasPrefix(acts[0], "/ops/keys/00000000000000aa?at=7&reason=looked&to=re") {
			t.Errorf("%s: acts %q", c.args, acts)
		}
	}
	var acts []string
	base := interfaceOf(t, &acts)
	for args, want := range map[string]string{
		"list --url " + base + "/ops/keys":                                  "403 Forbidden: no identity that was verified fits",
		"list --url " + base + "/page --header Authorization:Bearer\u00a0t": "",
		"list --url nonsense":                                               "--url: want http://HOST/PATH",
		"list":                                                              "want --url",
		"list --url http://127.0.0.1:1/callonce/keys --ca keys_test.go": "no certificate in",
	} {
		var out bytes.Buffer
		words := strings.Fields(args)
		for i := range words {
			words[i] = strings.ReplaceAll(words[i], "\u00a0", " ")
		}
		if err := runKeys(context.Background(), words, strings.NewReader(""), &out, &out); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", args, err, want)
		}
	}
}
