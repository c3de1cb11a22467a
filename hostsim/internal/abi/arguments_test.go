package abi

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/callonce/callonce/hostsim/internal/header"
)

// One bad pointer among good ones is enough: the call says no, and the proxy is asked to do nothing.
func TestEachPointerCounts(t *testing.T) {
	const good, out, more, most = 100, 200, 300, 400
	for _, c := range []struct {
		name     string
		args     []uint64
		pointers []int // which of them are pointers
	}{
		{"proxy_log", []uint64{0, good, 1}, []int{1}},
		{"proxy_send_local_response", []uint64{200, good, 1, good, 1, good, 1, 0}, []int{1, 3, 5}},
		{"proxy_get_status", []uint64{out, more, most}, []int{0, 1, 2}},
		{"proxy_call_foreign_function", []uint64{500, 17, good, 1, out, more}, []int{0, 4, 5}},
		{"proxy_get_header_map_value", []uint64{0, good, 1, out, more}, []int{1, 3, 4}},
		{"proxy_add_header_map_value", []uint64{0, good, 1, good, 1}, []int{1, 3}},
		{"proxy_replace_header_map_value", []uint64{0, good, 1, good, 1}, []int{1, 3}},
		{"proxy_remove_header_map_value", []uint64{0, good, 1}, []int{1}},
		{"proxy_get_header_map_pairs", []uint64{0, out, more}, []int{1, 2}},
		{"proxy_set_header_map_pairs", []uint64{0, good, 1}, []int{1}},
		{"proxy_get_header_map_size", []uint64{0, out}, []int{1}},
		{"proxy_get_buffer_bytes", []uint64{0, 0, 2, out, more}, []int{3, 4}},
		{"proxy_set_buffer_bytes", []uint64{0, 0, 0, good, 1}, []int{3}},
		{"proxy_get_buffer_status", []uint64{0, out, more}, []int{1, 2}},
		{"proxy_get_property", []uint64{good, 1, out, more}, []int{0, 2, 3}},
		{"proxy_set_property", []uint64{good, 1, good, 1}, []int{0, 2}},
		{"proxy_get_shared_data", []uint64{good, 1, out, more, most}, []int{0, 2, 3, 4}},
		{"proxy_set_shared_data", []uint64{good, 1, good, 1, 0}, []int{0, 2}},
		{"proxy_register_shared_queue", []uint64{good, 1, out}, []int{0, 2}},
		{"proxy_resolve_shared_queue", []uint64{good, 1, good, 1, out}, []int{0, 2, 4}},
		{"proxy_enqueue_shared_queue", []uint64{3, good, 1}, []int{1}},
		{"proxy_dequeue_shared_queue", []uint64{3, out, more}, []int{1, 2}},
		{"proxy_define_metric", []uint64{0, good, 1, out}, []int{1, 3}},
		{"proxy_get_metric", []uint64{4, out}, []int{1}},
		{"proxy_http_call", []uint64{good, 1, good, 1, good, 1, good, 1, 10, out}, []int{0, 2, 4, 6, 9}},
		{"proxy_grpc_call", []uint64{good, 1, good, 1, good, 1, good, 1, good, 1, 10, out}, []int{0, 2, 4, 6, 8, 11}},
	} {
		for bad := -1; bad < len(c.args); bad++ {
			if bad >= 0 && !slices.Contains(c.pointers, bad) {
				continue
			}
			name := string([]byte{guard})
			p := &fake{body: []byte("body"), known: map[string]string{name: "value"}, headers: header.Map{Lines: []header.Line{{Name: name, Value: "v"}}}}
			g := guest(t, p)
			g.Memory.Write(500, []byte("clear_route_cache"))
			args, want := slices.Clone(c.args), OK
			if bad >= 0 {
				args[bad], want = outside, InvalidMemory
			}
			if st := call(g, find(t, c.name), args...); st != want {
				t.Errorf("%s, argument %d outside: %v, want %v", c.name, bad, st, want)
			}
			if bad >= 0 && (len(p.log)+len(p.replies) > 0 || slices.ContainsFunc(p.asked, acts) || string(p.body) != "body" || len(p.headers.Lines) != 1 || p.headers.Lines[0].Value != "v") {
				t.Errorf("%s, argument %d outside: the proxy was asked for %q", c.name, bad, p.asked)
			}
		}
	}
}

// acts reports whether a question to the proxy is one that changes something, and does so without having the answer written first.
func acts(asked string) bool {
	what, _, _ := strings.Cut(asked, " ")
	return slices.Contains([]string{"set", "enqueue", "call", "grpc"}, what)
}

// A callout's timeout may be 0, which is none, and not negative; its token is told where the call has begun, and is 0 where it has not.
func TestCallouts(t *testing.T) {
	minus := int32(-1)
	for _, c := range []struct {
		name    string
		timeout uint64
		says    Status
		want    Status
		token   uint32
		asked   string
	}{
		{"proxy_http_call", 0, OK, OK, 4, `call "c" [{"h" "1"}] "body" [{"t" "2"}] 0s`},
		{"proxy_http_call", 1, OK, OK, 4, `call "c" [{"h" "1"}] "body" [{"t" "2"}] 1ms`},
		{"proxy_http_call", 10, BadArgument, BadArgument, 0, `call "c" [{"h" "1"}] "body" [{"t" "2"}] 10ms`},
		{"proxy_http_call", uint64(uint32(minus)), OK, BadArgument, 0, ""},
		{"proxy_grpc_call", 0, OK, OK, 5, `grpc "c" na/me [{"h" "1"}] "body" 0s`},
		{"proxy_grpc_call", 10, BadArgument, BadArgument, 0, `grpc "c" na/me [{"h" "1"}] "body" 10ms`},
	} {
		p := &fake{call: c.says}
		g := guest(t, p)
		headers, trailers := FormatPairs([]header.Line{{Name: "h", Value: "1"}}), FormatPairs([]header.Line{{Name: "t", Value: "2"}})
		g.Memory.Write(100, []byte("cnamebody"))
		g.Memory.Write(500, headers)
		g.Memory.Write(600, trailers)
		args := []uint64{100, 1, 500, uint64(len(headers)), 105, 4, 600, uint64(len(trailers)), c.timeout, 200}
		if c.name == "proxy_grpc_call" {
			args = []uint64{100, 1, 101, 2, 103, 2, 500, uint64(len(headers)), 105, 4, c.timeout, 200}
		}
		st := call(g, find(t, c.name), args...)
		token, _ := g.Memory.ReadUint32Le(200)
		if asked := strings.Join(p.asked, "; "); st != c.want || token != c.token || asked != c.asked {
			t.Errorf("%s, timeout %d, where the proxy says %v: %v, token %d, asked %q; want %v, %d, %q", c.name, int32(c.timeout), c.says, st, token, asked, c.want, c.token, c.asked)
		}
	}
}

// A foreign function without a result gives an empty one, to whoever has a place for it.
func TestForeignFunction(t *testing.T) {
	for _, c := range []struct {
		name            string
		result, size    uint64
		want            Status
		written, nulled bool // at the places of the result
	}{
		{"clear_route_cache", 200, 300, OK, true, true},
		{"clear_route_cache", 200, 0, OK, true, false},
		{"clear_route_cache", 0, 300, OK, false, true},
		{"clear_route_cache", 0, 0, OK, false, false},
		{"another", 200, 300, NotFound, false, false},
	} {
		g := guest(t, &fake{})
		g.Memory.Write(500, []byte(c.name))
		st := call(g, find(t, "proxy_call_foreign_function"), 500, uint64(len(c.name)), 0, 0, c.result, c.size)
		at := func(ptr uint32, zero bool) bool {
			v, _ := g.Memory.ReadUint32Le(ptr)
			return v == map[bool]uint32{true: 0, false: 0xA5A5A5A5}[zero]
		}
		if st != c.want || !at(200, c.written) || !at(300, c.nulled) || !at(0, false) {
			t.Errorf("%s, result at %d and %d: %v, touched %v", c.name, c.result, c.size, st, touched(g))
		}
	}
}

// A queue that is not there is not found; the first one is.
func TestResolveQueue(t *testing.T) {
	for vm, want := range map[string]Status{"none": NotFound, "some": OK} {
		p := &fake{}
		g := guest(t, p)
		g.Memory.Write(100, []byte(vm+"name"))
		st := call(g, find(t, "proxy_resolve_shared_queue"), 100, 4, 104, 4, 200)
		token, _ := g.Memory.ReadUint32Le(200)
		if st != want || (st == OK) != (token == 1) || !slices.Equal(p.asked, []string{fmt.Sprintf("resolve %q %q", vm, "name")}) {
			t.Errorf("%s: %v, token %d, asked %q", vm, st, token, p.asked)
		}
	}
}

func TestLower(t *testing.T) {
	if got, want := Lower([]byte("@AMZ[`amz{-09\xc4")), "@amz[`amz{-09\xc4"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// What a module asks of WASI.
func TestWASI(t *testing.T) {
	const fault, bad, inval, unsupported = 21, 8, 28, 58
	text := func(g *Guest, parts ...string) {
		for i, s := range parts {
			g.Memory.WriteUint32Le(uint32(100+8*i), uint32(500+100*i))
			g.Memory.WriteUint32Le(uint32(104+8*i), uint32(len(s)))
			g.Memory.Write(uint32(500+100*i), []byte(s))
		}
	}
	for _, c := range []struct {
		name  string
		args  []uint64
		print []string
		want  uint64
		place uint32 // of the answer
		holds string
		log   string
	}{
		{"clock_time_get", []uint64{0, 0, 200}, nil, 0, 200, "\x07\x00\x00\x00\x00\x00\x00\x00\xa5", ""},
		{"clock_time_get", []uint64{1, 0, 200}, nil, 0, 200, "\x08\x00\x00\x00\x00\x00\x00\x00\xa5", ""},
		{"clock_time_get", []uint64{2, 0, 200}, nil, unsupported, 200, "\xa5", ""},
		{"clock_time_get", []uint64{0, 0, outside}, nil, fault, 200, "\xa5", ""},
		{"clock_res_get", []uint64{0, 200}, nil, 0, 200, "\x01\x00\x00\x00\x00\x00\x00\x00\xa5", ""},
		{"clock_res_get", []uint64{1, 200}, nil, 0, 200, "\x01\x00\x00\x00\x00\x00\x00\x00\xa5", ""},
		{"clock_res_get", []uint64{2, 200}, nil, unsupported, 200, "\xa5", ""},
		{"clock_res_get", []uint64{0, outside}, nil, fault, 200, "\xa5", ""},
		{"random_get", []uint64{200, 3}, nil, 0, 200, "\x09\x09\x09\xa5", ""},
		{"random_get", []uint64{0, maxRandom}, nil, 0, maxRandom - 1, "\x09", ""},
		{"random_get", []uint64{0, maxRandom + 1}, nil, inval, 0, "\xa5", ""},
		{"random_get", []uint64{outside, 3}, nil, fault, 200, "\xa5", ""},
		{"fd_write", []uint64{1, 100, 2, 200}, []string{"a line", ", whole\n"}, 0, 200, "\x0e\x00\x00\x00\xa5", "info a line, whole"},
		{"fd_write", []uint64{2, 100, 1, 200}, []string{"a line"}, 0, 200, "\x06\x00\x00\x00\xa5", "error a line"},
		{"fd_write", []uint64{1, 100, 0, 200}, nil, 0, 200, "\x00\x00\x00\x00\xa5", ""},
		{"fd_write", []uint64{0, 100, 1, 200}, []string{"a line"}, bad, 200, "\xa5", ""},
		{"fd_write", []uint64{3, 100, 1, 200}, []string{"a line"}, bad, 200, "\xa5", ""},
		{"fd_write", []uint64{1, outside, 1, 200}, nil, fault, 200, "\xa5", ""},
		{"fd_write", []uint64{1, 100, 1, 200}, nil, fault, 200, "\xa5", ""}, // a pointer of guard bytes
		{"fd_write", []uint64{1, 65532, 1, 200}, nil, fault, 200, "\xa5", ""},
		{"fd_write", []uint64{1, 100, 1, outside}, []string{"a line"}, fault, 200, "\xa5", "info a line"},
		{"args_sizes_get", []uint64{200, 300}, nil, 0, 200, "\x00\x00\x00\x00\xa5", ""},
		{"args_sizes_get", []uint64{300, 200}, nil, 0, 200, "\x00\x00\x00\x00\xa5", ""},
		{"environ_sizes_get", []uint64{outside, 200}, nil, fault, 200, "\xa5", ""},
		{"environ_sizes_get", []uint64{200, outside}, nil, fault, 300, "\xa5", ""},
		{"args_get", []uint64{outside, outside}, nil, 0, 200, "\xa5", ""},
		{"sched_yield", nil, nil, 0, 200, "\xa5", ""},
	} {
		p := &fake{}
		g := guest(t, p)
		text(g, c.print...)
		i := slices.IndexFunc(wasiFuncs, func(f wasiFunc) bool { return f.name == c.name })
		if i < 0 {
			t.Fatalf("no function %s", c.name)
		}
		got := wasiFuncs[i].run(g, c.args)
		holds, _ := g.Memory.Read(c.place, uint32(len(c.holds)))
		if log := strings.Join(p.log, "; "); uint64(got) != c.want || string(holds) != c.holds || log != c.log {
			t.Errorf("%s: %d, %q at %d, logged %q; want %d, %q, %q", fmt.Sprint(c.name, c.args), got, holds, c.place, log, c.want, c.holds, c.log)
		}
	}
}
