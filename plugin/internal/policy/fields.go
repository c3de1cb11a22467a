package policy

import (
	"github.com/callonce/callonce/canonical"
)

// Fields are those of access logs and traces that are published only where a policy's log names them. Each costs a call of the host.
type Fields uint16

const (
	FieldTool Fields = 1 << iota
	FieldArguments
	FieldRequest
	FieldSession
	FieldAttempt
	FieldSource
	FieldSettled
	FieldSettledBy
)

// usualFields are published where a policy does not say which.
const usualFields = FieldTool | FieldSource | FieldSettled

// fieldNames are the names of all fields, and which of them can be left out. The others cost nothing where they do not apply: an
// instance of the filter behind this one reads the first five, and the last four are there where another member of the configuration
// asks for them.
var fieldNames = []struct {
	name   string
	chosen Fields
}{
	{"outcome", 0}, {"refusal", 0}, {"key_hash", 0}, {"mode", 0}, {"key_taken", 0},
	{"tool", FieldTool}, {"duplicate_source", FieldSource}, {"settled", FieldSettled},
	{"settled_by", FieldSettledBy}, {"arguments_hash", FieldArguments}, {"request_id", FieldRequest}, {"session_hash", FieldSession}, {"attempt", FieldAttempt},
	{"repeats", 0}, {"waited", 0}, {"result_id", 0}, {"hint", 0},
}

// Has reports whether one of the fields is published.
func (f Fields) Has(one Fields) bool { return f&one != 0 }

// fields reads a list of names.
func (r *reader) fields(n canonical.Node, at string) (out Fields) {
	words := make([]string, len(fieldNames))
	for i := range fieldNames {
		words[i] = fieldNames[i].name
	}
	r.each(n, at, func(n canonical.Node, at string) {
		if i, ok := r.choice(n, at, words...); ok {
			out |= fieldNames[i].chosen
		}
	})
	return out
}
