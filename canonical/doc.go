// Package canonical reads JSON strictly, writes it in one canonical form, and
// takes fingerprints of it.
//
// It is for deciding whether two JSON texts say the same thing, where a wrong
// "same" answers one request with another's reply, and a wrong "different" runs a
// tool twice. Two texts have the same canonical form if and only if they hold the
// same values: member order, white space, string escapes and the spelling of
// numbers do not count, everything else does.
//
// # Reading
//
// [Doc.Parse] accepts exactly the texts of RFC 8259 that every careful reader
// understands in the same way. On top of the grammar it demands well-formed UTF-8
// without a byte order mark, no lone surrogates in the escapes of names, no two members
// of one object with the same name (compared after unescaping), and at most [MaxDepth]
// containers inside one another. A refusal is an [*Error] with the byte offset of
// the earliest defect.
//
// A lone surrogate in a value is taken, since JavaScript writes one wherever it cuts a
// text in the middle of an emoji; it equals itself and nothing else ([Doc.Lone]).
//
// # Canonical form
//
// RFC 8785 (JCS), except that a number keeps its exact decimal value instead of
// passing through an IEEE 754 double: 9007199254740993 is not 9007199254740992,
// and 1e400 is a number. Where the shortest decimal spelling of the nearest double
// has the value of the number itself, the form is byte for byte that of RFC 8785;
// all other numbers follow the same rules with all their digits. A lone surrogate,
// which RFC 8785 refuses, is written as JSON.stringify does (ECMA-262), as an escape in
// lower case. Strings are not normalised.
//
// # Cost
//
// Reading, looking up and writing are iterative, so no input can exhaust the
// stack. A [Doc] that has grown to the size of its texts allocates nothing. Work is
// O(n) in the length of the text, and O(n log n) for the members of objects that
// are not sorted yet. A Doc takes less than 20 bytes of memory for each byte of the
// largest text it has read (measured: an array of one-digit numbers 12, an object of
// many short names 17, a tool call of 400 bytes 8); [Doc.Shrink] gives it back, and
// [Doc.Limit] bounds it.
//
// # What it must not know
//
// Nothing of JSON-RPC, MCP, keys, policies or proxies: which members count is said
// by its caller with [Doc.Omit] and [Doc.Replace]. It does no input or output,
// starts no goroutines, and imports neither fmt nor reflect nor encoding/json,
// since it is compiled into a wasm module that reads every request.
package canonical
