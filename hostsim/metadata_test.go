package hostsim

import (
	"bytes"
	"testing"
)

// What Properties say below metadata is text, in the whole too, once it was asked for: only then is it known where a filter's name
// ends.
func TestSaidMetadata(t *testing.T) {
	s := &stream{info: streamInfo{
		metadata: func() map[string]any { return map[string]any{"a.b": map[string]any{"n": 1.0}} },
		properties: func(path string) ([]byte, bool) {
			return []byte("user1234"), path == "metadata.filter_metadata.a.b.payload.sub"
		},
	}}
	c := &guestContext{stream: s, vm: &vm{host: &Host{}}}
	whole := func() []byte {
		b, st := c.property([]string{"metadata"})
		if st != StatusOK {
			t.Fatal(st)
		}
		return b
	}
	if b := whole(); bytes.Contains(b, []byte("user1234")) || !bytes.Contains(b, []byte("a.b")) {
		t.Errorf("before: %q", b)
	}
	if v, st := c.property([]string{"metadata", "filter_metadata", "a.b", "payload", "sub"}); st != StatusOK || string(v) != "user1234" {
		t.Errorf("%q %v", v, st)
	}
	want := appendMetadata(nil, map[string]any{"a.b": map[string]any{"n": 1.0, "payload": map[string]any{"sub": "user1234"}}})
	if b := whole(); !bytes.Equal(b, want) {
		t.Errorf("got %q, want %q", b, want)
	}
}
