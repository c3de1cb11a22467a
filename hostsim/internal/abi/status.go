package abi

import "fmt"

// Status is what a host call returns to the module (WasmResult in the ABI).
type Status uint32

// The results that a function here can return.
const (
	OK              Status = 0
	NotFound        Status = 1
	BadArgument     Status = 2
	Serialization   Status = 3
	ParseFailure    Status = 4
	InvalidMemory   Status = 6
	Empty           Status = 7
	CasMismatch     Status = 8
	InternalFailure Status = 10
	BrokenConn      Status = 11
	Unimplemented   Status = 12
)

var statusNames = map[Status]string{
	OK: "ok", NotFound: "not found", BadArgument: "bad argument", Serialization: "serialization failure",
	ParseFailure: "parse failure", InvalidMemory: "invalid memory access", Empty: "empty",
	CasMismatch: "cas mismatch", InternalFailure: "internal failure", BrokenConn: "broken connection",
	Unimplemented: "unimplemented",
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

// The levels, least severe first.
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
