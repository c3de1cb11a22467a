package hostsim

import (
	"encoding/base64"
	"encoding/binary"
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/callonce/callonce/hostsim/internal/abi"
	"github.com/callonce/callonce/hostsim/internal/header"
	"github.com/callonce/callonce/hostsim/internal/upstream"
)

// The status codes of gRPC that the host gives by itself.
const (
	grpcOK            = 0
	grpcUnknown       = 2
	grpcUnimplemented = 12
	grpcInternal      = 13
	grpcUnavailable   = 14
	grpcHighest       = 16
	grpcInvalid       = -1 // a status that is no number, or above the highest
)

// grpcCall is one proxy_grpc_call under way. What comes of it goes to the plugin context, whether or not the stream that asked still
// exists: one message, or a close with a status and a text. Nothing tells of the server's metadata (measured on 1.40).
type grpcCall struct {
	vm      *vm
	root    *guestContext
	token   uint32
	x       upstream.Exchange
	stop    func()
	frames  []byte // received and not yet read
	message []byte // the last one that came; nil = none
	started bool
	over    bool
}

// errNoGrpcClient is what ends a VM where Envoy ends as a whole (measured on 1.40): a GrpcService that names no client. So does a
// cluster's plain name that happens to be a well-formed message, such as "etcd1": the bytes "tcd1" are the value of a field 12.
var errNoGrpcClient = errors.New("proxy_grpc_call with a GrpcService that names no client: Envoy dies of that")

func (v *vm) GRPCCall(service []byte, name, method string, metadata []Header, message []byte, timeout time.Duration) (uint32, Status) {
	to := abi.GRPCService{Cluster: string(service)}
	plain := true
	if parsed, ok := abi.ParseGRPCService(service); ok {
		to, plain = parsed, false
	}
	switch {
	case to.Google:
		return 0, StatusUnimplemented
	case !plain && !to.Envoy:
		panic(errNoGrpcClient)
	}
	pool := v.host.clusters[to.Cluster]
	switch {
	case pool == nil && plain:
		return 0, StatusParseFailure
	case pool == nil:
		// The token that nobody was given is told of its end, once the module has returned (measured on 1.40).
		v.nextGrpc += abi.TokenStep
		c := &grpcCall{vm: v, root: v.acting().root, token: v.nextGrpc | abi.TokenGRPC, x: noExchange{}}
		v.deferred = append(v.deferred, func() { c.deliver(func() { c.closed(grpcUnavailable, "Cluster not available") }) })
		return 0, StatusInternalFailure
	}
	authority := to.Authority
	if authority == "" {
		authority = to.Cluster
	}
	h := &header.Map{Lines: []Header{{Name: ":method", Value: "POST"}, {Name: ":scheme", Value: "http"}, {Name: ":authority", Value: authority},
		{Name: ":path", Value: "/" + name + "/" + method}, {Name: "te", Value: "trailers"}, {Name: "grpc-timeout", Value: grpcTimeout(timeout)},
		{Name: "content-type", Value: "application/grpc"}}}
	for _, l := range append(to.Metadata, metadata...) {
		l.Name = abi.Lower([]byte(l.Name))
		if strings.HasSuffix(l.Name, "-bin") {
			l.Value = base64.StdEncoding.EncodeToString([]byte(l.Value))
		}
		h.Add(l.Name, l.Value)
	}
	h.Add("x-envoy-internal", "true")
	if timeout > 0 {
		h.Add("x-envoy-expected-rq-timeout-ms", strings.TrimSuffix(grpcMillis(timeout), "m"))
	}
	v.nextGrpc += abi.TokenStep
	c := &grpcCall{vm: v, root: v.acting().root, token: v.nextGrpc | abi.TokenGRPC}
	v.grpcCalls[c.token] = c
	c.begin(pool, h, message, timeout)
	return c.token, StatusOK
}

// GRPCCancel gives a call up.
func (v *vm) GRPCCancel(token uint32) Status {
	c := v.grpcCalls[token]
	if c == nil {
		return StatusNotFound
	}
	c.cancel()
	delete(v.grpcCalls, token)
	return StatusOK
}

// CallStatus tells of a callout's failure while its callback runs. The code of a gRPC callout stays (measured on 1.40), until another
// failure's.
func (v *vm) CallStatus() (code Status, text string) {
	root := v.acting().root
	if a := root.answer; a != nil && a.reset {
		return StatusBrokenConn, "reset"
	}
	return Status(root.status), root.statusText
}

func (c *grpcCall) begin(pool cluster, h *header.Map, message []byte, timeout time.Duration) {
	post := func(f func()) {
		c.vm.loop.post("callout", func() {
			if !c.over {
				f()
			}
		})
	}
	c.x = pool.Dial(h, false, upstream.Events{
		Headers:  func(h *header.Map, end bool) { post(func() { c.headers(h, end) }) },
		Data:     func(b []byte, end bool) { post(func() { c.data(b, end) }) },
		Trailers: func(t *header.Map) { post(func() { c.trailers(t) }) },
		Reset:    func(r upstream.Reset) { post(func() { c.reset(r) }) },
		Whole: func(h *header.Map, b []byte, t *header.Map) {
			post(func() {
				if c.headers(h, false); !c.over {
					c.data(b, false)
				}
				if !c.over {
					c.trailers(t)
				}
			})
		},
	})
	frame := append(binary.BigEndian.AppendUint32([]byte{0}, uint32(len(message))), message...)
	c.x.Send(frame, true, func() {})
	if timeout > 0 {
		c.stop = c.vm.host.clock.AfterFunc(timeout, func() { post(c.timeout) })
	}
}

// noExchange is that of a call which never began.
type noExchange struct{}

func (noExchange) Send([]byte, bool, func()) {}
func (noExchange) SendTrailers(*header.Map)  {}
func (noExchange) Give(int)                  {}
func (noExchange) Cancel()                   {}

// viaUpstream is the detail of what the server has answered.
const viaUpstream = "via_upstream"

func (c *grpcCall) headers(h *header.Map, end bool) {
	c.started = true
	_, has := h.Get("grpc-status")
	switch status := h.Value(":status"); {
	case status != "200" && !(end && has):
		c.close(grpcOfHTTP(status), "", viaUpstream)
	case end:
		c.trailers(h)
	}
}

func (c *grpcCall) data(b []byte, end bool) {
	c.x.Give(len(b))
	c.frames = append(c.frames, b...)
	for len(c.frames) > 0 {
		compressed := c.frames[0] == 1
		if c.frames[0] > 1 {
			c.close(grpcInternal, "", viaUpstream)
			return
		}
		if len(c.frames) < 5 {
			break
		}
		size := binary.BigEndian.Uint32(c.frames[1:])
		switch {
		case size > maxCalloutBody, compressed && size > 0 && len(c.frames) >= 5+int(size):
			c.close(grpcInternal, "", viaUpstream)
			return
		}
		if len(c.frames) < 5+int(size) {
			break
		}
		c.message, c.frames = append([]byte{}, c.frames[5:5+size]...), c.frames[5+size:]
	}
	if end {
		c.close(grpcUnknown, "", viaUpstream)
	}
}

func (c *grpcCall) trailers(t *header.Map) {
	status := grpcUnknown
	if text, ok := t.Get("grpc-status"); ok {
		status = grpcInvalid
		if n, err := strconv.ParseUint(text, 10, 32); err == nil && n <= grpcHighest {
			status = int(n)
		}
	}
	switch {
	case status != grpcOK:
		c.close(status, t.Value("grpc-message"), viaUpstream)
	case c.message == nil:
		c.deliver(func() { c.closed(grpcInternal, "") })
	default:
		c.deliver(c.received)
	}
}

// reset is a failure below gRPC. Before any answer the router makes a reply, of which the text becomes the message.
func (c *grpcCall) reset(r upstream.Reset) {
	if c.started {
		c.close(grpcInternal, "", "upstream_reset_after_response_started{"+r.Details()+"}")
		return
	}
	c.close(grpcOfHTTP(strconv.Itoa(r.Status)), r.Text(), "upstream_reset_before_response_started{"+r.Details()+"}")
}

func (c *grpcCall) timeout() {
	if c.started {
		c.close(grpcInternal, "", "response_timeout")
		return
	}
	c.close(grpcUnavailable, "upstream request timeout", "response_timeout")
}

func (c *grpcCall) close(status int, text, details string) {
	if text != "" {
		details = text + "{" + details + "}"
	}
	c.deliver(func() { c.closed(status, details) })
}

// deliver ends the call and lets the module hear of it, if it still can. The token stays known while the module's callback runs.
func (c *grpcCall) deliver(tell func()) {
	v := c.vm
	c.cancel()
	if v.failed == nil && v.contexts[c.root.id] == c.root {
		tell()
	}
	delete(v.grpcCalls, c.token)
	v.runDeferred()
}

func (c *grpcCall) received() {
	v := c.vm
	c.root.grpcMessage = &c.message
	v.call(c.root, "proxy_on_grpc_receive", uint64(c.root.id), uint64(c.token), uint64(len(c.message)))
	c.root.grpcMessage = nil
}

// closed leaves the code behind for proxy_get_status, as Envoy does, and takes the text away.
func (c *grpcCall) closed(status int, text string) {
	v := c.vm
	c.root.status, c.root.statusText = uint32(int32(status)), text
	v.call(c.root, "proxy_on_grpc_close", uint64(c.root.id), uint64(c.token), uint64(c.root.status))
	c.root.statusText = ""
}

// cancel keeps the answer from coming.
func (c *grpcCall) cancel() {
	c.over = true
	if c.stop != nil {
		c.stop()
	}
	c.x.Cancel()
}

func grpcOfHTTP(status string) int {
	switch status {
	case "400":
		return grpcInternal
	case "401":
		return 16 // unauthenticated
	case "403":
		return 7 // permission denied
	case "404":
		return grpcUnimplemented
	case "429", "502", "503", "504":
		return grpcUnavailable
	}
	return grpcUnknown
}

// grpcTimeout writes a timeout as gRPC's header has it: eight digits at most, and a unit.
func grpcTimeout(d time.Duration) string {
	const most = 99_999_999
	switch {
	case d.Milliseconds() <= most:
		return grpcMillis(d)
	case int64(d.Seconds()) <= most:
		return strconv.FormatInt(int64(d.Seconds()), 10) + "S"
	}
	return strconv.FormatInt(int64(d.Minutes()), 10) + "M"
}

func grpcMillis(d time.Duration) string { return strconv.FormatInt(d.Milliseconds(), 10) + "m" }
