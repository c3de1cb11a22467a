package mcp_test

import (
	"bytes"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/callonce/callonce/canonical"
	"github.com/callonce/callonce/plugin/internal/mcp"
)

// fields are the lines of an event that are neither data nor empty, as a client sees
// them.
func fields(event []byte) (kept []string) {
	text := strings.TrimPrefix(string(event), "\uFEFF")
	for _, line := range strings.FieldsFunc(text, func(c rune) bool { return c == '\n' || c == '\r' }) {
		if name, _, _ := strings.Cut(line, ":"); name != "data" {
			kept = append(kept, line)
		}
	}
	return kept
}

// checkEventAdvert wants of one whole event that its data gains what a message gains,
// and that nothing else of it changes.
func checkEventAdvert(t *testing.T, event []byte, advert *mcp.Advert) {
	t.Helper()
	var r mcp.Response
	out, ok := r.AppendEventAdvert([]byte("before"), event, nil, advert)
	if !ok {
		if string(out) != "before" {
			t.Fatalf("%q: passes as it came, but %q was appended", event, out)
		}
		return
	}
	out = out[len("before"):]
	data := parseEvents(event)
	want, _ := r.AppendAdvert(nil, []byte(data[0]), nil, advert)
	if got := parseEvents(out); len(got) != 1 || got[0] != string(want) {
		t.Fatalf("%q became %q\n got %q\nwant %q", event, out, got, want)
	}
	if !slices.Equal(fields(out), fields(event)) {
		t.Fatalf("%q became %q: fields %q", event, out, fields(out))
	}
	if mcp.EventEnd(out, 0) != len(out) {
		t.Fatalf("%q became %q, of which %d bytes are the event", event, out, mcp.EventEnd(out, 0))
	}
}

var capabilities = &mcp.Advert{Method: mcp.MethodInitialize}

func TestEventAdvertOfEveryShape(t *testing.T) {
	const message = `{"id":1,"result":{"capabilities":{"tools":{}}}}`
	for _, end := range []string{"\n", "\r", "\r\n"} {
		for _, event := range []string{
			"data: " + message + "\n\n",
			"data:" + message + "\n\n",
			"\n\ndata: " + message + "\n\n",
			": note\nevent: message\nid: 7\ndata: " + message + "\nretry: 5\n: data: x\n\n",
			"data: {\"id\":1,\ndata: \"result\":{\"capabilities\":\ndata:{\"tools\":{}}}}\n\n",
			"data\ndata: " + message + "\ndata\n\n",
			"database: x\ndata: " + message + "\ndatax\n\n",
		} {
			event = strings.ReplaceAll(event, "\n", end)
			var r mcp.Response
			if _, ok := r.AppendEventAdvert(nil, []byte(event), nil, capabilities); !ok {
				t.Errorf("%q: no advert", event)
			}
			checkEventAdvert(t, []byte(event), capabilities)
		}
	}
}

// A byte order mark is data's only at the start of a stream, which one event does not
// know: such an event passes as it came.
func TestEventAdvertBehindMark(t *testing.T) {
	var r mcp.Response
	for _, event := range []string{
		"\uFEFFdata: {\"id\":1,\"result\":{\"capabilities\":{\"tools\":{}}}}\n\n",
		"\uFEFFid: 1\ndata: {\"id\":1,\"result\":{\"capabilities\":{\"tools\":{}}}}\n\n",
	} {
		if out, ok := r.AppendEventAdvert(nil, []byte(event), nil, capabilities); ok || out != nil {
			t.Errorf("%q became %q", event, out)
		}
	}
}

// EventEnd finds the same end in whatever pieces the stream comes; only whether a line
// feed follows a last carriage return can be open.
func TestEventEndInPieces(t *testing.T) {
	for _, c := range streams {
		whole := mcp.EventEnd([]byte(c.stream), 0)
		for n := range len(c.stream) {
			switch got := mcp.EventEnd([]byte(c.stream[:n]), 0); {
			case got == 0 && (whole == 0 || n < whole), got == whole:
			case got == n && c.stream[n-1] == '\r' && c.stream[n] == '\n':
			default:
				t.Errorf("%q: %d after %d bytes, %d in the whole", c.stream, got, n, whole)
			}
			if mcp.EventEnd([]byte(c.stream[:n]), 0) > 0 {
				continue
			}
			if got := mcp.EventEnd([]byte(c.stream), n); got != whole {
				t.Errorf("%q: %d when %d bytes are known, %d in the whole", c.stream, got, n, whole)
			}
		}
	}
}

// What is put in goes in and nothing is lost: by the canonical form of the rest.
func checkAdvert(t *testing.T, message []byte, advert *mcp.Advert) {
	t.Helper()
	was := bytes.Clone(message)
	var r mcp.Response
	out, ok := r.AppendAdvert([]byte("before"), message, nil, advert)
	if !bytes.Equal(message, was) || !bytes.HasPrefix(out, []byte("before")) || !ok && len(out) > len("before") {
		t.Fatalf("%q became %q, and %q was appended", was, message, out)
	}
	if !ok {
		return
	}
	out = out[len("before"):]
	if _, err := canonical.Append(nil, out); err != nil || len(out) <= len(message) {
		t.Fatalf("%q became %q: %v", message, out, err)
	}
	if again, ok := r.AppendAdvert(nil, out, nil, advert); ok {
		t.Fatalf("%q became %q, and that once more %q", message, out, again)
	}
	rest := out
	for _, c := range message {
		k := bytes.IndexByte(rest, c)
		if k < 0 {
			t.Fatalf("%q became %q: a byte of it is gone", message, out)
		}
		rest = rest[k+1:]
	}
}

// An id that is cut stays text.
func TestResultIDIsText(t *testing.T) {
	for _, text := range []string{strings.Repeat("é", 200), "x" + strings.Repeat("é", 200), strings.Repeat("😀", 50), "xyz" + strings.Repeat("鍵", 60)} {
		var r mcp.Response
		message := []byte(`{"id":1,"result":{"id":"` + text + `"}}`)
		r.Read(message, []byte("1"))
		got := r.ResultID(message, "/id", 128)
		if !utf8.ValidString(got) || len(got) > 128 || len(got) <= 124 || !strings.HasPrefix(text, got) {
			t.Errorf("%q… was cut to %q", text[:10], got)
		}
	}
}
