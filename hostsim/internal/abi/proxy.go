package abi

import (
	"time"

	"github.com/callonce/callonce/hostsim/internal/header"
)

// Proxy is what the functions ask. It answers for the context that acts: the one whose callback runs, or that the module chose.
type Proxy interface {
	// Watch is asked before each function of the ABI (not WASI's); nil = nobody watches.
	Watch() Watch
	Log(level LogLevel, text string)
	// Printed is told of what the module writes to its standard error, before the log is.
	Printed(b []byte)
	// Now is the wall clock, Mono a clock that never goes back.
	Now() time.Time
	Mono() time.Duration
	// Random fills b.
	Random(b []byte)

	// SetEffectiveContext chooses the context that acts, until the callback returns.
	SetEffectiveContext(id uint32) Status
	// Done is the end that a plugin context's on_done put off.
	Done() Status
	// SetTickPeriod lets the plugin context tick; 0 = no more.
	SetTickPeriod(d time.Duration)

	// Readable and Writable are the maps that may be read and changed at this moment; nil = out of reach.
	Readable(kind Map) *header.Map
	Writable(kind Map) *header.Map
	// Buffer is where the bytes of a buffer lie; fixed ones cannot be changed. ok is false where there is none.
	Buffer(kind Buffer) (b *[]byte, fixed, ok bool)
	// Property and SetProperty take a path of elements, and one whose elements are parted by zero bytes.
	Property(path []string) ([]byte, Status)
	SetProperty(path string, value []byte) Status

	// LocalReply, Continue and Close act once the running callback has returned. Those of a stream that there is not do nothing.
	LocalReply(Reply)
	Continue(Direction)
	Close(Direction)

	// Foreign calls a function by its name.
	Foreign(name string, argument []byte) ([]byte, Status)

	SharedData(key string) (value []byte, cas uint32, ok bool)
	SetSharedData(key string, value []byte, cas uint32) Status
	RegisterQueue(name string) (token uint32)
	// ResolveQueue gives 0 for a queue that nobody has registered. An empty vmID is the module's own.
	ResolveQueue(vmID, name string) (token uint32)
	Enqueue(token uint32, message []byte) Status
	Dequeue(token uint32) ([]byte, Status)

	DefineMetric(kind MetricKind, name string) (id uint32)
	IncrementMetric(id uint32, offset int64) Status
	RecordMetric(id uint32, value uint64) Status
	Metric(id uint32) (uint64, Status)

	// HTTPCall and GRPCCall begin a callout; a timeout of 0 is none. service is a cluster's name, or a GrpcService.
	HTTPCall(cluster string, headers, trailers []header.Line, body []byte, timeout time.Duration) (token uint32, st Status)
	GRPCCall(service []byte, name, method string, metadata []header.Line, message []byte, timeout time.Duration) (token uint32, st Status)
	GRPCCancel(token uint32) Status
	// CallStatus is what proxy_get_status says of the last callout that failed.
	CallStatus() (code Status, text string)
}

// Watch sees one call, before and after it happens.
type Watch interface {
	// Before may change the arguments. Unless it lets the call happen, its status is the call's result.
	Before(function string, a *Arguments) (st Status, happens bool)
	// Hands may hand over other bytes than the function would.
	Hands(b []byte) []byte
	After(Status)
}

// Arguments are those of a call that a watch may want to see. Only what the function has is set.
type Arguments struct {
	Key   []byte // shared data: the key
	Value []byte // shared data: the value to set; queues: the message
	CAS   uint32
}

// Reply is a local response.
type Reply struct {
	Status  int
	Details string
	Body    []byte
	Headers []header.Line
}

// Map is a map of header lines, by the number that the ABI gives it.
type Map uint32

// The maps.
const (
	RequestHeaders Map = iota
	RequestTrailers
	ResponseHeaders
	ResponseTrailers
	GRPCInitial
	GRPCTrailing
	CalloutHeaders
	CalloutTrailers
	mapCount
)

// Buffer is a buffer, by the number that the ABI gives it.
type Buffer uint32

// The buffers.
const (
	RequestBody Buffer = iota
	ResponseBody
	Downstream
	Upstream
	CalloutBody
	GRPCMessage
	VMConfig
	PluginConfig
	CallData
	bufferCount
)

// Direction is a half of a stream.
type Direction uint32

// The directions, and the last of those that the ABI has for connections.
const (
	Request  Direction = 0
	Response Direction = 1

	lastDirection Direction = 3
)

// MetricKind is a kind of metric.
type MetricKind uint32

// The kinds.
const (
	Counter MetricKind = iota
	Gauge
	Histogram
)

// The lowest two bits of a callout's token say what it stands for.
const (
	tokenKind   = 3
	TokenGRPC   = 1
	tokenStream = 2
	// TokenStep is from one token to the next of its kind.
	TokenStep = 4
)
