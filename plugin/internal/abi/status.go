package abi

import "strconv"

// status is what a host function returns.
type status uint32

const (
	statusOK            status = 0
	statusNotFound      status = 1
	statusParseFailure  status = 4
	statusInvalidMemory status = 6
	statusCASMismatch   status = 8
)

// Error implements error.
func (s status) Error() string {
	names := [...]string{
		0: "ok", 1: "not found", 2: "bad argument", 3: "serialization failure", 4: "parse failure", 5: "bad expression",
		6: "invalid memory access", 7: "empty", 8: "cas mismatch", 9: "result mismatch", 10: "internal failure",
		11: "broken connection", 12: "unimplemented",
	}
	text := "the proxy returned status " + strconv.FormatUint(uint64(s), 10)
	if int(s) < len(names) {
		text += " (" + names[s] + ")"
	}
	return text
}

// err is nil where the host did what it was asked for.
func (s status) err() error {
	if s == statusOK {
		return nil
	}
	return s
}
