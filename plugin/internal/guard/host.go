package guard

// Action is what a callback tells the proxy to do with what it was called for.
type Action bool

const (
	// Continue lets it go on.
	Continue Action = false
	// Pause buffers it: headers while the body is read, a body until it is whole.
	Pause Action = true
)

// Host is the proxy as one stream sees it. Errors mean that the proxy would not.
//
// What it hands over (headers, bodies, attributes, and what the ledger reads) lies in
// memory that it uses again: it is valid until the callback returns, request headers for
// as long as Stream.Waits. Copy what is needed for longer. What it is given it copies.
type Host interface {
	// HasRequestHeader reports whether there is a line of that name, in lower case. It costs
	// less than RequestHeaders.
	HasRequestHeader(name string) bool
	RequestHeaders() ([][2]string, error)
	// Crowded reports whether the headers of requests that wait take so much memory that no
	// other request may wait.
	Crowded() bool
	// RequestBody gives the first size bytes of what is buffered of the body.
	RequestBody(size int) ([]byte, error)
	// SetRequestHeader replaces every line of a header.
	SetRequestHeader(name, value string) error
	RemoveRequestHeader(name string) error
	// ReplaceRequestBody puts another body in place of the one that is buffered.
	ReplaceRequestBody(body []byte) error

	ResponseHeaders() ([][2]string, error)
	// ResponseBody gives the chunk that is passing.
	ResponseBody(size int) ([]byte, error)
	RemoveResponseHeader(name string) error
	// ReplaceResponseBody puts other bytes in place of the chunk that is passing; in the
	// trailers' callback, of what is buffered, where the last body callback paused. Elsewhere it
	// fails.
	ReplaceResponseBody(chunk []byte) error

	// Property reads one of the proxy's attributes; ok is false where there is none.
	Property(path []string) (value []byte, ok bool)
	// Attribute is Property, and tells what is not there from what the proxy cannot hand over:
	// a null, and a list or an object that holds one.
	Attribute(path []string) (value []byte, is Presence)
	// SetState publishes a value to access logs and traces. It keeps a copy.
	SetState(name, value string)
	// Reply answers the request in the server's stead.
	Reply(status int, headers [][2]string, body []byte) error
	// Resume lets a paused request go on.
	Resume() error

	// TotalSize is the bytes of the request that have arrived, headers included.
	TotalSize() uint64
	// Enter makes the other methods work outside the stream's callbacks.
	Enter() error
	// Wake asks for Guard.Look, soon and outside any callback. It may fail silently: a tick
	// comes anyway.
	Wake()
}

// Presence says whether an attribute is there.
type Presence uint8

const (
	Missing Presence = iota
	Unreadable
	Present
)

// Counter is a metric that only grows.
type Counter interface{ Add(n uint64) }

// Gauge is a metric that is set. Its value is the process's, not the worker's.
type Gauge interface {
	Set(value uint64)
	Add(n int64)
	Value() uint64
}

// Metrics makes metrics by their full name, labels included.
type Metrics interface {
	Counter(name string) Counter
	Gauge(name string) Gauge
}

// Log writes one line for operators. No line may contain a key, an argument or an
// identity.
type Log func(text string)

// The attributes that are read. Paths are Envoy's (docs/facts.md).
var (
	propRouteName   = []string{"xds", "route_name"}
	propRoutePolicy = []string{"xds", "route_metadata", "filter_metadata", "callonce", "policy"}
	propVirtualHost = []string{"xds", "virtual_host_name"}
	propPeerDigest  = []string{"connection", "sha256_peer_certificate_digest"}
	// The rbac filter's verdict on its shadow rules, whose stat prefix must be
	// callonce_peer_ (envoy/mtls-jwt.yaml).
	propPeerValidated = []string{"metadata", "filter_metadata", "envoy.filters.http.rbac", "callonce_peer_shadow_engine_result"}

	propDetails  = []string{"response", "code_details"}
	propFlags    = []string{"response", "flags"}
	propAttempts = []string{"upstream", "request_attempt_count"}
)
