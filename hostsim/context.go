package hostsim

import (
	"github.com/callonce/callonce/hostsim/internal/abi"
	"github.com/callonce/callonce/hostsim/internal/header"
)

// guestContext is a context id of the ABI: of a plugin (stream == nil) or of a stream.
type guestContext struct {
	id     uint32
	vm     *vm
	plugin *pluginConfig
	root   *guestContext
	stream *stream
	// created says that the module has been told of the context.
	created bool
	// answer is the callout answer that the module may read at present.
	answer *calloutAnswer
	// grpcMessage is the message that a gRPC callout has brought, while its callback runs; status and statusText are what
	// proxy_get_status says of failed ones.
	grpcMessage *[]byte
	status      uint32
	statusText  string
	// configuring is set while on_configure runs: only then is the plugin configuration readable.
	configuring bool
	// ending says that on_done asked for time: proxy_done will end the context.
	ending bool
}

func (v *vm) newContext(p *pluginConfig, root *guestContext, s *stream) *guestContext {
	c := &guestContext{id: v.nextID, vm: v, plugin: p, root: root, stream: s}
	v.nextID++
	if root == nil {
		c.root = c
	}
	v.contexts[c.id] = c
	return c
}

// acting is the context that host calls act on: the one whose callback runs, unless the module chose another that still exists.
func (v *vm) acting() *guestContext {
	if v.effective != 0 {
		if c := v.contexts[v.effective]; c != nil {
			return c
		}
	}
	return v.current
}

// readable is the map that the module may read at this moment, or nil. Headers that have gone on their way are out of reach, until
// the stream's end, when all can be read once more.
func (c *guestContext) readable(kind abi.Map) *header.Map {
	switch kind {
	case abi.CalloutHeaders:
		if a := c.root.answer; a != nil {
			return a.headers
		}
		return nil
	case abi.CalloutTrailers:
		if a := c.root.answer; a != nil {
			return a.trailers
		}
		return nil
	}
	s := c.stream
	if s == nil {
		return nil
	}
	if s.logging {
		m := c.writable(kind)
		switch kind {
		case abi.RequestHeaders:
			m = s.request.headers
		case abi.ResponseHeaders:
			m = s.response.headers
		case abi.ResponseTrailers:
			m = s.response.trailers
		}
		if m == nil && kind != abi.RequestTrailers {
			return &header.Map{} // in the end there is a map, if an empty one
		}
		return m
	}
	return c.writable(kind)
}

// writable is the map that the module may change at this moment, or nil.
func (c *guestContext) writable(kind abi.Map) *header.Map {
	s := c.stream
	if s == nil {
		return nil
	}
	switch kind {
	case abi.RequestHeaders:
		return s.request.openHeaders
	case abi.RequestTrailers:
		return s.request.openTrailers
	case abi.ResponseHeaders:
		return s.response.openHeaders
	case abi.ResponseTrailers:
		return s.response.openTrailers
	}
	return nil
}

// buffer is the buffer of that kind; ok is false where there is none. A pointer to a body's bytes allows changing them.
func (c *guestContext) buffer(kind abi.Buffer) (b *[]byte, fixed, ok bool) {
	switch kind {
	case abi.VMConfig:
		return &c.vm.host.config.VMConfig, true, true
	case abi.PluginConfig:
		if !c.configuring {
			return nil, true, false
		}
		return &c.plugin.bytes, true, true
	case abi.CalloutBody:
		if a := c.root.answer; a != nil {
			return &a.body, true, true
		}
		return nil, true, false
	case abi.GRPCMessage:
		if m := c.root.grpcMessage; m != nil {
			return m, true, true
		}
	case abi.RequestBody:
		if c.stream != nil {
			return c.stream.request.body(), false, true
		}
	case abi.ResponseBody:
		if c.stream != nil {
			return c.stream.response.body(), false, true
		}
	}
	var none []byte
	return &none, true, true
}
