package abi

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tetratelabs/wazero"

	"github.com/callonce/callonce/hostsim/internal/header"
)

// fake is a proxy that has one of everything, and notes what it is asked.
type fake struct {
	asked   []string
	headers header.Map
	body    []byte
	watch   Watch
	log     []string
	known   map[string]string
	replies []Reply
	call    Status // of a callout
}

func (f *fake) ask(format string, args ...any) {
	f.asked = append(f.asked, fmt.Sprintf(format, args...))
}

func (f *fake) Watch() Watch                    { return f.watch }
func (f *fake) Log(level LogLevel, text string) { f.log = append(f.log, level.String()+" "+text) }
func (f *fake) Printed(b []byte)                { f.ask("printed %q", b) }
func (f *fake) Foreign(name string, argument []byte) ([]byte, Status) {
	f.ask("foreign %s %q", name, argument)
	switch name {
	case "echo":
		return argument, OK
	case "clear_route_cache":
		return nil, OK
	}
	return nil, NotFound
}
func (f *fake) Now() time.Time                    { return time.Unix(0, 7) }
func (f *fake) Mono() time.Duration               { return 8 }
func (f *fake) Random(b []byte)                   { copy(b, bytes.Repeat([]byte{9}, len(b))) }
func (f *fake) SetEffectiveContext(uint32) Status { f.ask("context"); return OK }
func (f *fake) Done() Status                      { f.ask("done"); return OK }
func (f *fake) SetTickPeriod(d time.Duration)     { f.ask("tick %v", d) }
func (f *fake) Readable(m Map) *header.Map        { f.ask("readable %d", m); return &f.headers }
func (f *fake) Writable(m Map) *header.Map        { f.ask("writable %d", m); return &f.headers }
func (f *fake) Buffer(b Buffer) (*[]byte, bool, bool) {
	f.ask("buffer %d", b)
	return &f.body, false, true
}
func (f *fake) Property(path []string) ([]byte, Status) {
	f.ask("property %q", path)
	return []byte("value"), OK
}
func (f *fake) SetProperty(path string, value []byte) Status {
	f.ask("set %q %q", path, value)
	return OK
}
func (f *fake) LocalReply(r Reply)   { f.replies = append(f.replies, r) }
func (f *fake) Continue(d Direction) { f.ask("continue %d", d) }
func (f *fake) Close(d Direction)    { f.ask("close %d", d) }
func (f *fake) SharedData(key string) ([]byte, uint32, bool) {
	v, ok := f.known[key]
	return []byte(v), 5, ok
}
func (f *fake) SetSharedData(key string, value []byte, cas uint32) Status {
	f.ask("set %q %q %d", key, value, cas)
	return OK
}
func (f *fake) RegisterQueue(name string) uint32 { f.ask("queue %q", name); return 3 }
func (f *fake) ResolveQueue(vmID, name string) uint32 {
	f.ask("resolve %q %q", vmID, name)
	if vmID == "none" {
		return 0
	}
	return 1
}
func (f *fake) Enqueue(token uint32, b []byte) Status  { f.ask("enqueue %q", b); return OK }
func (f *fake) Dequeue(uint32) ([]byte, Status)        { return []byte("message"), OK }
func (f *fake) DefineMetric(MetricKind, string) uint32 { f.ask("metric"); return 4 }
func (f *fake) IncrementMetric(uint32, int64) Status   { f.ask("increment"); return OK }
func (f *fake) RecordMetric(uint32, uint64) Status     { f.ask("record"); return OK }
func (f *fake) Metric(uint32) (uint64, Status)         { return 1 << 40, OK }
func (f *fake) HTTPCall(cluster string, headers, trailers []header.Line, body []byte, timeout time.Duration) (uint32, Status) {
	f.ask("call %q %q %q %q %v", cluster, headers, body, trailers, timeout)
	return 4, f.call
}
func (f *fake) GRPCCall(service []byte, name, method string, metadata []header.Line, message []byte, timeout time.Duration) (uint32, Status) {
	f.ask("grpc %q %s/%s %q %q %v", service, name, method, metadata, message, timeout)
	return 5, f.call
}
func (f *fake) GRPCCancel(token uint32) Status      { f.ask("cancel %d", token); return NotFound }
func (f *fake) CallStatus() (code Status, _ string) { return BrokenConn, "reset" }

// onePage is a module of one page of memory, with a malloc that gives out what lies at 32768, one that traps, and
// one that has none to give.
var onePage = []byte("\x00asm\x01\x00\x00\x00" +
	"\x01\x06\x01\x60\x01\x7f\x01\x7f" + "\x03\x04\x03\x00\x00\x00" + "\x05\x03\x01\x00\x01" +
	"\x07\x21\x04\x06memory\x02\x00\x06malloc\x00\x00\x04trap\x00\x01\x04none\x00\x02" +
	"\x0a\x11\x03" + "\x06\x00\x41\x80\x80\x02\x0b" + "\x03\x00\x00\x0b" + "\x04\x00\x41\x00\x0b")

const (
	guard = 0xA5
	// outside is an address beyond the memory.
	outside = 0xFFFFFFF0
)

// guest is a module whose memory is all guard bytes, in front of a fake.
func guest(t *testing.T, p Proxy) *Guest { return guestWith(t, p, "malloc") }

func guestWith(t *testing.T, p Proxy, malloc string) *Guest {
	t.Helper()
	ctx := context.Background()
	r := wazero.NewRuntime(ctx)
	t.Cleanup(func() { r.Close(ctx) })
	module, err := r.Instantiate(ctx, onePage)
	if err != nil {
		t.Fatal(err)
	}
	g := &Guest{Proxy: p, Memory: module.Memory(), Malloc: module.ExportedFunction(malloc)}
	g.Context = With(ctx, g)
	wipe(g)
	return g
}

func wipe(g *Guest) { g.Memory.Write(0, bytes.Repeat([]byte{guard}, int(g.Memory.Size()))) }

// touched are the places in memory that are no guard byte, as ranges.
func touched(g *Guest) (out []string) {
	memory, _ := g.Memory.Read(0, g.Memory.Size())
	for i := 0; i < len(memory); i++ {
		if memory[i] == guard {
			continue
		}
		from := i
		for i < len(memory) && memory[i] != guard {
			i++
		}
		out = append(out, fmt.Sprintf("%d-%d", from, i-1))
	}
	return out
}

func find(t *testing.T, name string) function {
	t.Helper()
	for _, f := range functions() {
		if f.name == name {
			return f
		}
	}
	t.Fatalf("no function %s", name)
	return function{}
}

func call(g *Guest, f function, args ...uint64) Status {
	stack := append(slices.Clone(args), make([]uint64, 16)...)
	f.entry()(g.Context, nil, stack)
	return Status(stack[0])
}

// bare are functions that take no pointer.
var bare = []string{"proxy_continue_stream", "proxy_close_stream", "proxy_set_effective_context", "proxy_done", "proxy_set_tick_period_milliseconds",
	"proxy_increment_metric", "proxy_record_metric"}

// A module may pass whatever pointers it likes: the call says no, and touches nothing but what the allocator gave or a good pointer names.
func TestNothingIsWrittenOutside(t *testing.T) {
	for _, f := range functions() {
		p := &fake{body: []byte("body"), known: map[string]string{"": "value"}, headers: header.Map{Lines: []header.Line{{Name: "", Value: "v"}}}}
		g := guest(t, p)
		args := make([]uint64, f.words)
		for i := range args {
			args[i] = outside
		}
		// A selector that is right lets the call come to its pointers.
		for _, first := range []uint64{0, outside} {
			if f.words > 0 {
				args[0] = first
			}
			st := call(g, f, args...)
			for _, at := range touched(g) {
				if !strings.HasPrefix(at, "0-") && !strings.HasPrefix(at, "32768-") {
					t.Errorf("%s %x: %v, and memory was touched at %v", f.name, first, st, touched(g))
				}
			}
			if st == OK && !slices.Contains(bare, f.name) && (first > 0 || f.words > 1) {
				t.Errorf("%s %x: ok, with pointers outside", f.name, first)
			}
			wipe(g)
		}
	}
}

// An allocator that has no memory makes the call say so, and nothing is said to be anywhere.
func TestAllocatorHasNone(t *testing.T) {
	g := guestWith(t, &fake{body: []byte("body")}, "none")
	if st := call(g, find(t, "proxy_get_buffer_bytes"), 0, 0, 4, 200, 300); st != InvalidMemory || len(touched(g)) > 0 {
		t.Errorf("%v, touched %v", st, touched(g))
	}
}

// What is given goes where the module says, and nowhere else.
func TestGiven(t *testing.T) {
	for _, c := range []struct {
		name string
		args []uint64
		want []string
	}{
		{"proxy_get_header_map_value", []uint64{0, 100, 1, 200, 300}, []string{"200-203", "300-303", "32768-32768"}},
		{"proxy_get_header_map_pairs", []uint64{0, 200, 300}, []string{"200-203", "300-303", "32768-32783"}},
		{"proxy_get_header_map_size", []uint64{0, 200}, []string{"200-203"}},
		{"proxy_get_buffer_bytes", []uint64{0, 0, 2, 200, 300}, []string{"200-203", "300-303", "32768-32769"}},
		{"proxy_get_buffer_bytes", []uint64{0, 4, 9, 200, 300}, []string{"200-203", "300-303"}}, // behind the end: nothing, from nowhere
		{"proxy_get_buffer_status", []uint64{0, 200, 300}, []string{"200-203", "300-303"}},
		{"proxy_get_property", []uint64{100, 1, 200, 300}, []string{"200-203", "300-303", "32768-32772"}},
		{"proxy_get_shared_data", []uint64{100, 1, 200, 300, 400}, []string{"200-203", "300-303", "400-403", "32768-32772"}},
		{"proxy_register_shared_queue", []uint64{100, 1, 200}, []string{"200-203"}},
		{"proxy_resolve_shared_queue", []uint64{100, 0, 100, 1, 200}, []string{"200-203"}},
		{"proxy_dequeue_shared_queue", []uint64{3, 200, 300}, []string{"200-203", "300-303", "32768-32774"}},
		{"proxy_define_metric", []uint64{0, 100, 1, 200}, []string{"200-203"}},
		{"proxy_get_metric", []uint64{4, 200}, []string{"200-207"}},
		{"proxy_get_log_level", []uint64{200}, []string{"200-203"}},
		{"proxy_get_current_time_nanoseconds", []uint64{200}, []string{"200-207"}},
		{"proxy_get_status", []uint64{200, 300, 400}, []string{"200-203", "300-303", "400-403", "32768-32772"}},
		{"proxy_http_call", []uint64{100, 1, 100, 0, 100, 0, 100, 0, 10, 200}, []string{"200-203"}},
		{"proxy_grpc_call", []uint64{100, 1, 100, 1, 100, 1, 100, 0, 100, 1, 10, 200}, []string{"200-203"}},
	} {
		// The byte at 100 is the name of what is asked for; it counts as a guard byte too.
		name := string([]byte{guard})
		p := &fake{body: []byte("body"), known: map[string]string{name: "value"}, headers: header.Map{Lines: []header.Line{{Name: name, Value: "v"}}}}
		g := guest(t, p)
		if st := call(g, find(t, c.name), c.args...); st != OK {
			t.Errorf("%s: %v, want ok", c.name, st)
		}
		if got := touched(g); !slices.Equal(merge(got), merge(c.want)) {
			t.Errorf("%s %v: touched %v, want %v", c.name, c.args, got, c.want)
		}
	}
}

// merge joins the ranges of the heap, since a value may hold guard bytes.
func merge(ranges []string) (out []string) {
	for _, r := range ranges {
		if strings.HasPrefix(r, "327") && len(out) > 0 && strings.HasPrefix(out[len(out)-1], "327") {
			from, _, _ := strings.Cut(out[len(out)-1], "-")
			_, to, _ := strings.Cut(r, "-")
			r, out = from+"-"+to, out[:len(out)-1]
		}
		out = append(out, r)
	}
	return out
}

// Numbers that the ABI does not have are refused before anybody is asked.
func TestUnknownNumbers(t *testing.T) {
	for name, first := range map[string]uint64{
		"proxy_get_header_map_value": uint64(mapCount), "proxy_add_header_map_value": uint64(mapCount), "proxy_replace_header_map_value": uint64(mapCount),
		"proxy_remove_header_map_value": uint64(mapCount), "proxy_get_header_map_pairs": uint64(mapCount), "proxy_set_header_map_pairs": uint64(mapCount),
		"proxy_get_header_map_size": uint64(mapCount), "proxy_get_buffer_bytes": uint64(bufferCount), "proxy_set_buffer_bytes": uint64(bufferCount),
		"proxy_get_buffer_status": uint64(bufferCount), "proxy_log": uint64(LogCritical) + 1, "proxy_continue_stream": 2, "proxy_close_stream": 4,
		"proxy_define_metric": uint64(Histogram) + 1, "proxy_grpc_cancel": 4, "proxy_grpc_close": 7, "proxy_grpc_send": 5,
	} {
		p := &fake{}
		g := guest(t, p)
		if st := call(g, find(t, name), first, 100, 1, 200, 300); st != BadArgument || len(p.asked)+len(p.log) > 0 {
			t.Errorf("%s %d: %v, and the proxy was asked for %v %v; want a bad argument", name, first, st, p.asked, p.log)
		}
	}
}

// What a proxy is handed stays what it was, whatever the module writes there next.
func TestBytesAreCopies(t *testing.T) {
	p := &fake{}
	g := guest(t, p)
	g.Memory.Write(100, []byte("old"))
	if st := call(g, find(t, "proxy_set_buffer_bytes"), 0, 0, 0, 100, 3); st != OK {
		t.Fatal(st)
	}
	g.Memory.Write(100, []byte("new"))
	if string(p.body) != "old" {
		t.Errorf("the body is %q, want old", p.body)
	}
}

// watcher changes what it sees.
type watcher struct {
	st      Status
	happens bool
	saw     []string
}

func (w *watcher) Before(function string, a *Arguments) (Status, bool) {
	w.saw = append(w.saw, fmt.Sprintf("%s %q %q %d", function, a.Key, a.Value, a.CAS))
	a.Value, a.CAS = []byte("changed"), 7
	return w.st, w.happens
}

func (w *watcher) Hands(b []byte) []byte { return b }
func (w *watcher) After(st Status)       { w.saw = append(w.saw, st.String()) }

func TestWatch(t *testing.T) {
	for _, c := range []struct {
		watcher
		want  Status
		asked []string
	}{
		{watcher{OK, true, nil}, OK, []string{`set "k" "changed" 7`}},
		{watcher{Empty, true, nil}, OK, []string{`set "k" "changed" 7`}}, // it happens: its own status counts
		{watcher{CasMismatch, false, nil}, CasMismatch, nil},
	} {
		p := &fake{watch: &c.watcher}
		g := guest(t, p)
		g.Memory.Write(100, []byte("kv"))
		st := call(g, find(t, "proxy_set_shared_data"), 100, 1, 101, 1, 3)
		want := []string{`proxy_set_shared_data "k" "v" 3`, c.want.String()}
		if st != c.want || !slices.Equal(p.asked, c.asked) || !slices.Equal(c.saw, want) {
			t.Errorf("%v %v: got %v, asked %v, saw %v; want %v, %v, %v", c.watcher.st, c.happens, st, p.asked, c.saw, c.want, c.asked, want)
		}
	}
}

// A trap in the module's allocator ends the callback that asked: nothing goes on as if there were memory.
func TestAllocatorTraps(t *testing.T) {
	g := guestWith(t, &fake{body: []byte("body")}, "trap")
	defer func() {
		if recover() == nil {
			t.Error("the call went on")
		}
		if got := touched(g); len(got) > 0 {
			t.Errorf("touched %v", got)
		}
	}()
	call(g, find(t, "proxy_get_buffer_bytes"), 0, 0, 4, 200, 300)
}
