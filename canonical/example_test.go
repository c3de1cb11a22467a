package canonical_test

import (
	"errors"
	"fmt"

	"github.com/callonce/callonce/canonical"
)

// Two spellings of one value have one fingerprint; two amounts that a double cannot tell apart have two.
func Example() {
	one, _ := canonical.Fingerprint([]byte(`{"to": "ada", "cents": 1e3}`))
	two, _ := canonical.Fingerprint([]byte(`{"cents":1000,"to":"\u0061da"}`))
	fmt.Println(one == two)

	one, _ = canonical.Fingerprint([]byte(`9007199254740992`))
	two, _ = canonical.Fingerprint([]byte(`9007199254740993`))
	fmt.Println(one == two)
	// Output:
	// true
	// false
}

func ExampleAppend() {
	form, err := canonical.Append(nil, []byte(` { "b" : 1.50, "a" : [ 1E21, -0 ] } `))
	fmt.Println(string(form), err)
	// Output: {"a":[1e+21,0],"b":1.5} <nil>
}

// What careful readers could understand in two ways is refused, with the place.
func ExampleError() {
	_, err := canonical.Append(nil, []byte(`{"to":"ada","to":"bob"}`))
	var where *canonical.Error
	if errors.As(err, &where) {
		fmt.Println(where.Offset)
	}
	// Output: 12
}

// A part of a text is left out of what is compared, and the text itself is not touched.
func ExampleDoc_Omit() {
	var doc canonical.Doc
	if err := doc.Parse([]byte(`{"to":"ada","cents":1200,"sent_at":"12:30"}`)); err != nil {
		fmt.Println(err)
		return
	}
	doc.Omit(doc.Pointer(doc.Root(), "/sent_at"))
	fmt.Println(string(doc.Append(nil, doc.Root())))
	// Output: {"cents":1200,"to":"ada"}
}

func ExampleDoc_Pointer() {
	var doc canonical.Doc
	if err := doc.Parse([]byte(`{"params":{"name":"charge"}}`)); err != nil {
		fmt.Println(err)
		return
	}
	n := doc.Pointer(doc.Root(), "/params/name")
	fmt.Println(string(doc.Text(n)), doc.Pointer(doc.Root(), "/params/id") == canonical.NoNode)
	// Output: charge true
}
