package hostsim

import "errors"

// Numbers that stand for a worker where the code runs on the main thread, as [Hooks], Config.Log and [Record] see them.
const (
	// MainThread is the VM that Envoy keeps on its main thread: it starts before any worker, ticks, and serves no stream.
	MainThread = -1
	// Trial is the short-lived VM in which a configuration is tried before any other VM sees it.
	Trial = -2
)

// Call is one call of a host function by the module. Only the fields that the function has are set. A hook may change
// Key, Value and CAS of a proxy_set_shared_data before it happens; all other fields are for reading.
type Call struct {
	Worker   int    // 0 and up, or MainThread, or Trial
	Context  uint32 // the context whose callback runs, not the effective one
	Function string // the import's name, such as "proxy_set_shared_data"
	Key      []byte // shared data: the key; queues: the value sent
	Value    []byte // shared data: the value to set
	CAS      uint32 // shared data: the cas given
}

// Verdict says what becomes of a host call. The zero value lets it happen.
type Verdict struct {
	kind   verdictKind
	status Status
}

type verdictKind uint8

const (
	proceed verdictKind = iota
	fail
	crash
)

// Proceed lets the call happen.
func Proceed() Verdict { return Verdict{} }

// Fail keeps the call from happening and gives the module s as its result.
func Fail(s Status) Verdict { return Verdict{kind: fail, status: s} }

// Crash ends the VM at this call, as a trap in the module would: nothing after it runs.
func Crash() Verdict { return Verdict{kind: crash} }

var errCrash = errors.New("crashed by a test hook")

// Hooks lets a test watch and steer a host. All of them run on the goroutine of the worker concerned and may block: that
// worker, and no other, stands still until they return. A nil hook costs nothing.
type Hooks struct {
	// Before runs before every host function that is named in the ABI (not WASI's).
	Before func(*Call) Verdict
	// Hands runs where a host function hands bytes over: what it returns is handed over in their place. So a test plays a host that
	// hands over what no real one does.
	Hands func(c *Call, b []byte) []byte
	// After runs once the call has its result, also when Before made it fail; not after a crash.
	After func(*Call, Status)
	// Failed runs when a VM has ended by itself: by a panic or another trap, by too much memory, or as an Envoy would die. printed is what
	// the module wrote to its standard error in the callback that ended it, 64 KiB at most: of a filter in Go the panic and its stack.
	// It does not run for a VM that a test has ended (Crash, [Host.Crash]).
	Failed func(worker int, err error, printed string)
	// Event runs before each step of a worker's event loop. The name says what kind of step: "headers", "tick", "queue", …
	Event func(worker int, name string)
	// Posted runs before a step is queued for a worker's event loop, on the goroutine that queues it, and must not block. Steps are taken
	// in the order in which they are queued.
	Posted func(worker int, name string)
	// Idle runs when a worker has done all its steps. More may have been posted since.
	Idle func(worker int)
}
