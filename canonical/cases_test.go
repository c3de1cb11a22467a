package canonical_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"os"
	"testing"

	"github.com/callonce/callonce/canonical"
)

// field is a row of testdata/canonical.jsonl: two texts that are equal or different,
// one text that is refused, or one text and its canonical form.
type field struct {
	Name      string
	A         string
	B         *string
	Want      string
	Canonical *string
}

func TestFieldCases(t *testing.T) {
	file, err := os.Open("testdata/canonical.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	rows := 0
	for lines := bufio.NewScanner(file); lines.Scan(); rows++ {
		decoder := json.NewDecoder(bytes.NewReader(lines.Bytes()))
		decoder.DisallowUnknownFields()
		var row field
		if err := decoder.Decode(&row); err != nil {
			t.Fatalf("row %d: %v", rows+1, err)
		}
		t.Run(row.Name, func(t *testing.T) { row.check(t) })
	}
	if rows < 51 {
		t.Errorf("%d rows in the file, expected the 51 that were there at first", rows)
	}
}

func (f field) check(t *testing.T) {
	form, err := canonical.Append(nil, []byte(f.A))
	if f.Want == "refused" {
		if err == nil {
			t.Fatalf("%q accepted as %q", f.A, form)
		}
		return
	}
	if err != nil {
		t.Fatalf("%q refused: %v", f.A, err)
	}
	switch {
	case f.Canonical != nil:
		if string(form) != *f.Canonical {
			t.Errorf("%q gave %q, want %q", f.A, form, *f.Canonical)
		}
	case f.Want == "equal", f.Want == "different":
		other, err := canonical.Append(nil, []byte(*f.B))
		if err != nil {
			t.Fatalf("%q refused: %v", *f.B, err)
		}
		if bytes.Equal(form, other) != (f.Want == "equal") {
			t.Errorf("%q and %q gave %q and %q, want %s", f.A, *f.B, form, other, f.Want)
		}
		a, _ := canonical.Fingerprint([]byte(f.A))
		b, _ := canonical.Fingerprint([]byte(*f.B))
		if (a == b) != (f.Want == "equal") {
			t.Errorf("%q and %q: fingerprints not %s", f.A, *f.B, f.Want)
		}
	default:
		t.Fatalf("a row that says nothing: %+v", f)
	}
}
