package hostsim

import "fmt"

// Status is what a host call returns to the module (WasmResult in the ABI).
type Status uint32

// The results of the ABI that a host function here can return.
const (
	StatusOK              Status = 0
	StatusNotFound        Status = 1
	StatusBadArgument     Status = 2
	StatusSerialization   Status = 3
	StatusParseFailure    Status = 4
	StatusInvalidMemory   Status = 6
	StatusEmpty           Status = 7
	StatusCasMismatch     Status = 8
	StatusInternalFailure Status = 10
	StatusBrokenConn      Status = 11
	StatusUnimplemented   Status = 12
)

var statusNames = map[Status]string{
	StatusOK: "ok", StatusNotFound: "not found", StatusBadArgument: "bad argument", StatusSerialization: "serialization failure",
	StatusParseFailure: "parse failure", StatusInvalidMemory: "invalid memory access", StatusEmpty: "empty",
	StatusCasMismatch: "cas mismatch", StatusInternalFailure: "internal failure", StatusBrokenConn: "broken connection",
	StatusUnimplemented: "unimplemented",
}

// String names the result in words.
func (s Status) String() string {
	if n, ok := statusNames[s]; ok {
		return n
	}
	return fmt.Sprintf("status %d", uint32(s))
}

// LogLevel is the level of a line that a module logs.
type LogLevel uint32

// The levels of the ABI, least severe first.
const (
	LogTrace LogLevel = iota
	LogDebug
	LogInfo
	LogWarn
	LogError
	LogCritical
)

var levelNames = [...]string{"trace", "debug", "info", "warning", "error", "critical"}

// String names the level as Envoy's log does.
func (l LogLevel) String() string {
	if int(l) < len(levelNames) {
		return levelNames[l]
	}
	return fmt.Sprintf("level %d", uint32(l))
}
