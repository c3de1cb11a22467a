package hostsim

import "github.com/callonce/callonce/hostsim/internal/abi"

// Status is what a host call returns to the module (WasmResult in the ABI). Its String names it in words.
type Status = abi.Status

// The results of the ABI that a host function here can return.
const (
	StatusOK              = abi.OK
	StatusNotFound        = abi.NotFound
	StatusBadArgument     = abi.BadArgument
	StatusSerialization   = abi.Serialization
	StatusParseFailure    = abi.ParseFailure
	StatusInvalidMemory   = abi.InvalidMemory
	StatusEmpty           = abi.Empty
	StatusCasMismatch     = abi.CasMismatch
	StatusInternalFailure = abi.InternalFailure
	StatusBrokenConn      = abi.BrokenConn
	StatusUnimplemented   = abi.Unimplemented
)

// LogLevel is the level of a line that a module logs. Its String names it as Envoy's log does.
type LogLevel = abi.LogLevel

// The levels of the ABI, least severe first.
const (
	LogTrace    = abi.LogTrace
	LogDebug    = abi.LogDebug
	LogInfo     = abi.LogInfo
	LogWarn     = abi.LogWarn
	LogError    = abi.LogError
	LogCritical = abi.LogCritical
)
