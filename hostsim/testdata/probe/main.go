// Command probe is a filter that does what a request tells it to and logs what it sees. The header x-do carries the plan: steps
// separated by ";", each "WHERE VERB ARGS…". WHERE is a callback:
//
//	rh rb re rt   request headers, body (not the end), body (the end), trailers
//	sh sb se st   the same of the response
//	done          the stream's end
//	queue tick call grpc   the plugin context's callbacks, with the stream as the effective context
//
// The plugin's configuration is a plan too, its steps one a line, for "start", "tick" and "queue".
package main

import (
	"fmt"
	"strings"

	"github.com/proxy-wasm/proxy-wasm-go-sdk/proxywasm"
	"github.com/proxy-wasm/proxy-wasm-go-sdk/proxywasm/types"
)

func main() {}

func init() { proxywasm.SetVMContext(&vm{}) }

type vm struct{ types.DefaultVMContext }

func (*vm) NewPluginContext(id uint32) types.PluginContext {
	return &plugin{id: id, streams: map[uint32]*stream{}}
}

type step struct {
	where string
	verb  string
	args  []string
	done  bool
}

func parsePlan(text, sep string) []*step {
	var plan []*step
	for _, line := range strings.Split(text, sep) {
		f := strings.Fields(line)
		if len(f) >= 2 {
			plan = append(plan, &step{where: f[0], verb: f[1], args: f[2:]})
		}
	}
	return plan
}

type plugin struct {
	types.DefaultPluginContext
	id      uint32
	plan    []*step
	queue   uint32
	streams map[uint32]*stream
	refused bool
	grpcs   int
}

func (p *plugin) OnPluginStart(int) types.OnPluginStartStatus {
	config, err := proxywasm.GetPluginConfiguration()
	say("start ctx=%d config=%d err=%v", p.id, len(config), err)
	p.plan = parsePlan(string(config), "\n")
	r := &run{plugin: p, where: "start"}
	r.all(p.plan)
	return types.OnPluginStartStatus(!p.refused)
}

func (p *plugin) OnPluginDone() bool {
	say("plugin_done ctx=%d", p.id)
	return true
}

func (p *plugin) OnTick() {
	say("tick ctx=%d", p.id)
	(&run{plugin: p, where: "tick"}).all(p.plan)
	for _, s := range p.streams {
		s.from(p, "tick")
	}
}

func (p *plugin) OnQueueReady(id uint32) {
	for {
		msg, err := proxywasm.DequeueSharedQueue(id)
		if err != nil {
			say("queue ctx=%d ready=%d empty=%v", p.id, id, err)
			return
		}
		say("queue ctx=%d ready=%d msg=%s", p.id, id, msg)
		(&run{plugin: p, where: "queue"}).all(p.plan)
		for _, s := range p.streams {
			if s.name == string(msg) {
				s.from(p, "queue")
			}
		}
	}
}

func (p *plugin) NewHttpContext(id uint32) types.HttpContext {
	s := &stream{id: id, plugin: p}
	p.streams[id] = s
	return s
}

type stream struct {
	types.DefaultHttpContext
	id        uint32
	plugin    *plugin
	name      string
	plan      []*step
	grpcs     int
	grpcToken uint32
}

// from runs a stream's steps for a callback of the plugin context.
func (s *stream) from(p *plugin, where string) {
	for _, st := range s.plan {
		if st.where == where && !st.done {
			say("%s effective ctx=%d err=%v", where, s.id, proxywasm.SetEffectiveContext(s.id))
			(&run{plugin: p, stream: s, where: where, once: true}).all(s.plan)
			return
		}
	}
}

func (s *stream) at(where, text string, args ...any) types.Action {
	say("%s %s %s", s.name, where, fmt.Sprintf(text, args...))
	r := &run{plugin: s.plugin, stream: s, where: where}
	r.all(s.plan)
	return r.action
}

func (s *stream) OnHttpRequestHeaders(n int, end bool) types.Action {
	plan, _ := proxywasm.GetHttpRequestHeader("x-do")
	s.name, _ = proxywasm.GetHttpRequestHeader("x-name")
	s.plan = parsePlan(plan, ";")
	return s.at("rh", "end=%v", end)
}

func (s *stream) OnHttpRequestBody(n int, end bool) types.Action {
	return s.at(either(end, "re", "rb"), "size=%d end=%v", n, end)
}

func (s *stream) OnHttpRequestTrailers(n int) types.Action { return s.at("rt", "n=%d", n) }

func (s *stream) OnHttpResponseHeaders(n int, end bool) types.Action {
	status, err := proxywasm.GetHttpResponseHeader(":status")
	return s.at("sh", "status=%s err=%v end=%v", status, err, end)
}

func (s *stream) OnHttpResponseBody(n int, end bool) types.Action {
	return s.at(either(end, "se", "sb"), "size=%d end=%v", n, end)
}

func (s *stream) OnHttpResponseTrailers(n int) types.Action { return s.at("st", "n=%d", n) }

func (s *stream) OnHttpStreamDone() {
	details, err := proxywasm.GetProperty([]string{"response", "code_details"})
	flags, _ := proxywasm.GetProperty([]string{"response", "flags"})
	s.at("done", "details=%q err=%v flags=%x", details, err, flags)
	delete(s.plugin.streams, s.id)
}

func either(c bool, a, b string) string {
	if c {
		return a
	}
	return b
}

func say(format string, args ...any) { proxywasm.LogWarnf("probe: "+format, args...) }
