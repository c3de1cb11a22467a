package hostsim

import (
	"encoding/binary"
	"net"
	"strconv"
	"strings"

	"github.com/callonce/callonce/hostsim/internal/header"
)

func (v *vm) Property(path []string) ([]byte, Status) { return v.acting().property(path) }

// SetProperty writes the stream's filter state. The name is the path as the module gave it, so that only paths of one element can be
// read again, by the module or in an access log.
func (v *vm) SetProperty(path string, value []byte) Status {
	st := v.acting().stream
	if st == nil {
		return StatusNotFound
	}
	if st.filterState == nil {
		st.filterState = map[string][]byte{}
	}
	st.filterState[path] = value
	return StatusOK
}

// property looks a path up: what the test or the command line says comes first, then what the host knows of the stream.
func (c *guestContext) property(path []string) ([]byte, Status) {
	dotted := strings.Join(path, ".")
	s := c.stream
	if v, ok := c.known(path, dotted); ok {
		if s != nil && len(path) > 3 && path[0] == "metadata" {
			s.said = append(s.said, saidMetadata{path[2:], string(v)})
		}
		return v, StatusOK
	}
	if path[0] != "metadata" || s == nil {
		return nil, StatusNotFound
	}
	var all map[string]any
	if s.info.metadata != nil {
		all = s.info.metadata()
	}
	if len(path) == 1 {
		all = withSaid(all, s.said)
	}
	return metadataProperty(all, path[1:])
}

func (c *guestContext) known(path []string, dotted string) ([]byte, bool) {
	s := c.stream
	if s != nil && s.info.properties != nil {
		if v, ok := s.info.properties(dotted); ok {
			return v, true
		}
	}
	if v, ok := c.vm.host.config.Properties[dotted]; ok {
		return v, true
	}
	switch dotted {
	case "plugin_name":
		return []byte(c.vm.host.config.PluginName), true
	case "plugin_root_id":
		return []byte(c.vm.host.config.RootID), true
	case "plugin_vm_id":
		return []byte(c.vm.host.config.VMID), true
	case "xds.listener_direction":
		return number(0), true
	}
	if s == nil {
		return nil, false
	}
	if v, ok := s.filterState[dotted]; ok && len(path) == 1 {
		return v, true
	}
	if len(path) < 2 {
		if dotted == "connection_id" {
			return number(int64(s.info.connection)), true
		}
		return nil, false
	}
	switch path[0] {
	case "xds":
		return routeProperty(path[1])
	case "request":
		return s.requestProperty(path[1], strings.Join(path[2:], "."))
	case "response":
		return s.responseProperty(path[1], strings.Join(path[2:], "."))
	case "source":
		return addressProperty(path[1], s.info.remote)
	case "destination":
		return addressProperty(path[1], s.info.local)
	case "upstream":
		if path[1] == "request_attempt_count" {
			return number(int64(s.router.attempts)), true
		}
		return addressProperty(path[1], s.router.address())
	case "connection":
		return s.connectionProperty(path[1])
	}
	return nil, false
}

// routeProperty has what every route has, where nothing else was said.
func routeProperty(name string) ([]byte, bool) {
	switch name {
	case "route_name", "filter_chain_name":
		return nil, true
	case "cluster_name":
		return []byte("upstream"), true
	case "virtual_host_name":
		return []byte("default"), true
	}
	return nil, false
}

// number is a number as the ABI has it: 8 bytes, little endian.
func number(n int64) []byte { return binary.LittleEndian.AppendUint64(nil, uint64(n)) }

// headerProperty joins the lines of one name, other than proxy_get_header_map_value, which gives the first.
func headerProperty(m *header.Map, name string) ([]byte, bool) {
	if m == nil {
		return nil, false
	}
	var values []string
	for _, l := range m.Lines {
		if l.Name == strings.ToLower(name) {
			values = append(values, l.Value)
		}
	}
	return []byte(strings.Join(values, ",")), values != nil
}

func (s *stream) requestProperty(name, rest string) ([]byte, bool) {
	h := s.request.headers
	switch name {
	case "path":
		return headerProperty(h, ":path")
	case "url_path":
		p, _, _ := strings.Cut(s.info.path, "?")
		return []byte(p), true
	case "query":
		_, q, _ := strings.Cut(s.info.path, "?")
		return []byte(q), true
	case "host":
		return headerProperty(h, ":authority")
	case "method":
		return headerProperty(h, ":method")
	case "scheme":
		return headerProperty(h, ":scheme")
	case "id":
		return headerProperty(h, "x-request-id")
	case "referer", "useragent":
		return headerProperty(h, map[string]string{"referer": "referer", "useragent": "user-agent"}[name])
	case "headers":
		return headerProperty(h, rest)
	case "protocol":
		return []byte(s.info.protocol), true
	case "time":
		return number(s.info.time.UnixNano()), true
	case "duration":
		if !s.done {
			return nil, false
		}
		return number(int64(s.ended - s.started)), true
	case "size":
		// The header wins over what was counted, as on Envoy: it is known before the body.
		if h != nil {
			if n, err := strconv.ParseInt(h.Value("content-length"), 10, 64); err == nil {
				return number(n), true
			}
		}
		return number(int64(s.received)), true
	case "total_size":
		return number(int64(s.received + h.Bytes())), true
	}
	return nil, false
}

func (s *stream) responseProperty(name, rest string) ([]byte, bool) {
	switch name {
	case "code":
		if s.status == 0 && s.response.headers == nil {
			return nil, false
		}
		code, _ := strconv.Atoi(s.response.headers.Value(":status"))
		return number(int64(code)), true
	case "code_details":
		return []byte(s.details), s.explained
	case "flags":
		return number(int64(s.flags)), true
	case "headers":
		return headerProperty(s.response.headers, rest)
	case "trailers":
		return headerProperty(s.response.trailers, rest)
	case "size":
		return number(int64(s.responseBytes)), true
	case "total_size":
		return number(int64(s.responseBytes + s.response.headers.Bytes() + s.response.trailers.Bytes())), true
	}
	return nil, false
}

func (s *stream) connectionProperty(name string) ([]byte, bool) {
	switch name {
	case "id":
		return number(int64(s.info.connection)), true
	case "mtls":
		return []byte{0}, true
	case "requested_server_name":
		return nil, true
	}
	return nil, false
}

func addressProperty(name, address string) ([]byte, bool) {
	if address == "" {
		return nil, false
	}
	switch name {
	case "address":
		return []byte(address), true
	case "port":
		_, port, err := net.SplitHostPort(address)
		if err != nil {
			return nil, false
		}
		n, _ := strconv.ParseInt(port, 10, 64)
		return number(n), true
	}
	return nil, false
}
