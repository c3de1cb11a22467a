package main

import (
	"fmt"
	"math"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/proxy-wasm/proxy-wasm-go-sdk/proxywasm"
	"github.com/proxy-wasm/proxy-wasm-go-sdk/proxywasm/types"
)

// run carries out the steps for one callback.
type run struct {
	plugin *plugin
	stream *stream
	where  string
	once   bool
	action types.Action
}

func (r *run) all(plan []*step) {
	for _, st := range plan {
		if st.where != r.where || r.once && st.done {
			continue
		}
		st.done = true
		verb := verbs[st.verb]
		if verb == nil {
			say("unknown verb %q", st.verb)
			continue
		}
		if out := verb(r, st.args); out != "" {
			name := ""
			if r.stream != nil {
				name = r.stream.name + " "
			}
			say("%s%s %s %s -> %s", name, r.where, st.verb, strings.Join(st.args, " "), out)
		}
	}
}

var verbs map[string]func(*run, []string) string

func init() {
	defer addGrpcVerbs()
	verbs = map[string]func(*run, []string) string{
		"pause":  func(r *run, _ []string) string { r.action = types.ActionPause; return "" },
		"resume": func(*run, []string) string { return result(nil, proxywasm.ResumeHttpRequest()) },
		"resumeresponse": func(*run, []string) string {
			return result(nil, proxywasm.ResumeHttpResponse())
		},
		"reply":     reply,
		"refuse":    func(r *run, a []string) string { r.plugin.refused = true; return strings.Join(a, " ") },
		"headers":   func(*run, []string) string { return pairs(proxywasm.GetHttpRequestHeaders()) },
		"answer":    func(*run, []string) string { return pairs(proxywasm.GetHttpCallResponseHeaders()) },
		"get":       func(_ *run, a []string) string { return text(proxywasm.GetHttpRequestHeader(a[0])) },
		"set":       func(_ *run, a []string) string { return result(nil, proxywasm.ReplaceHttpRequestHeader(a[0], a[1])) },
		"add":       func(_ *run, a []string) string { return result(nil, proxywasm.AddHttpRequestHeader(a[0], a[1])) },
		"remove":    func(_ *run, a []string) string { return result(nil, proxywasm.RemoveHttpRequestHeader(a[0])) },
		"trailers":  func(*run, []string) string { return pairs(proxywasm.GetHttpRequestTrailers()) },
		"sheaders":  func(*run, []string) string { return pairs(proxywasm.GetHttpResponseHeaders()) },
		"sget":      func(_ *run, a []string) string { return text(proxywasm.GetHttpResponseHeader(a[0])) },
		"sset":      func(_ *run, a []string) string { return result(nil, proxywasm.ReplaceHttpResponseHeader(a[0], a[1])) },
		"sadd":      func(_ *run, a []string) string { return result(nil, proxywasm.AddHttpResponseHeader(a[0], a[1])) },
		"sremove":   func(_ *run, a []string) string { return result(nil, proxywasm.RemoveHttpResponseHeader(a[0])) },
		"strailers": func(*run, []string) string { return pairs(proxywasm.GetHttpResponseTrailers()) },
		"body":      func(*run, []string) string { return body(proxywasm.GetHttpRequestBody(0, math.MaxInt32)) },
		"replace":   func(_ *run, a []string) string { return result(nil, proxywasm.ReplaceHttpRequestBody(join(a))) },
		"append":    func(_ *run, a []string) string { return result(nil, proxywasm.AppendHttpRequestBody(join(a))) },
		"sbody":     func(*run, []string) string { return body(proxywasm.GetHttpResponseBody(0, math.MaxInt32)) },
		"sreplace":  func(_ *run, a []string) string { return result(nil, proxywasm.ReplaceHttpResponseBody(join(a))) },
		"prop": func(_ *run, a []string) string {
			b, err := proxywasm.GetProperty(strings.Split(a[0], "/"))
			return fmt.Sprintf("%q %v", b, err)
		},
		"propsize": func(_ *run, a []string) string {
			b, err := proxywasm.GetProperty(strings.Split(a[0], "/"))
			return fmt.Sprintf("%d bytes %v", len(b), err)
		},
		"setprop": func(_ *run, a []string) string {
			return result(nil, proxywasm.SetProperty(strings.Split(a[0], "/"), []byte(a[1])))
		},
		"sharedget": func(_ *run, a []string) string {
			b, cas, err := proxywasm.GetSharedData(a[0])
			return fmt.Sprintf("%q nil=%v cas=%d %v", b, b == nil, cas, err)
		},
		"sharedset": sharedSet,
		"table":     casTable,
		"incr":      increment,
		"register": func(r *run, a []string) string {
			id, err := proxywasm.RegisterSharedQueue(a[0])
			r.plugin.queue = id
			return fmt.Sprintf("%d %v", id, err)
		},
		"enqueue": func(r *run, a []string) string {
			return result(nil, proxywasm.EnqueueSharedQueue(r.plugin.queue, join(a)))
		},
		"send": func(_ *run, a []string) string {
			id, err := proxywasm.ResolveSharedQueue("", a[0])
			if err != nil {
				return result(nil, err)
			}
			return result(nil, proxywasm.EnqueueSharedQueue(id, join(a[1:])))
		},
		"every": func(_ *run, a []string) string {
			return result(nil, proxywasm.SetTickPeriodMilliSeconds(uint32(number(a[0]))))
		},
		"call": call,
		"counter": func(_ *run, a []string) string {
			return metric(a, func(n uint64) uint64 { m := proxywasm.DefineCounterMetric(a[0]); m.Increment(n); return m.Value() })
		},
		"gauge": func(_ *run, a []string) string {
			return metric(a, func(n uint64) uint64 {
				m := proxywasm.DefineGaugeMetric(a[0])
				m.Add(int64(n))
				return uint64(m.Value())
			})
		},
		"histogram": func(_ *run, a []string) string {
			return metric(a, func(n uint64) uint64 { proxywasm.DefineHistogramMetric(a[0]).Record(n); return n })
		},
		"panic":    func(*run, []string) string { panic("the plan says so") },
		"overflow": func(*run, []string) string { return fmt.Sprint(deep(1)) },
		"eat":      eat,
		"exit":     func(_ *run, a []string) string { os.Exit(number(a[0])); return "" },
		"print":    func(_ *run, a []string) string { fmt.Println(strings.Join(a, " ")); return "" },
		"printerr": func(_ *run, a []string) string { fmt.Fprintln(os.Stderr, strings.Join(a, " ")); return "" },
		"effective": func(r *run, a []string) string {
			id := number(a[0])
			return result(nil, proxywasm.SetEffectiveContext(uint32(id)))
		},
		"self":  func(r *run, _ []string) string { return result(nil, proxywasm.SetEffectiveContext(r.stream.id)) },
		"time":  func(*run, []string) string { return fmt.Sprint(time.Now().UnixNano()) },
		"since": func(*run, []string) string { return fmt.Sprint(time.Since(began).Milliseconds()) },
		"foreign": func(_ *run, a []string) string {
			b, err := proxywasm.CallForeignFunction(a[0], join(a[1:]))
			return result(b, err)
		},
		// The names of the request's headers, in their order.
		"order": func(*run, []string) string {
			h, err := proxywasm.GetHttpRequestHeaders()
			var names []string
			for _, l := range h {
				names = append(names, l[0])
			}
			return fmt.Sprintf("%s %v", strings.Join(names, " "), err)
		},
	}
}

var began = time.Now()

func number(s string) int { n, _ := strconv.Atoi(s); return n }

func join(a []string) []byte { return []byte(strings.Join(a, " ")) }

func result(b []byte, err error) string { return fmt.Sprintf("%q %v", b, err) }

func text(s string, err error) string { return fmt.Sprintf("%q %v", s, err) }

func body(b []byte, err error) string {
	if len(b) > 40 {
		return fmt.Sprintf("%d bytes %q… %v", len(b), b[:8], err)
	}
	return fmt.Sprintf("%q %v", b, err)
}

func pairs(h [][2]string, err error) string { return fmt.Sprintf("%q %v", h, err) }

func reply(_ *run, a []string) string {
	var h [][2]string
	for _, l := range a[1:] {
		if k, v, ok := strings.Cut(l, "="); ok {
			h = append(h, [2]string{k, v})
		}
	}
	var b []byte
	if last := a[len(a)-1]; len(a) > 1 && !strings.Contains(last, "=") {
		b = []byte(last)
	}
	return result(nil, proxywasm.SendHttpResponse(uint32(number(a[0])), h, b, -1))
}

// sharedSet: KEY VALUE CAS, where CAS is a number, "max", or "right" (read first), VALUE "-" is empty.
func sharedSet(_ *run, a []string) string {
	value := []byte(a[1])
	if a[1] == "-" {
		value = nil
	}
	return result(nil, proxywasm.SetSharedData(a[0], value, cas(a[0], a[2])))
}

func cas(key, kind string) uint32 {
	switch kind {
	case "max":
		return math.MaxUint32
	case "right":
		_, c, _ := proxywasm.GetSharedData(key)
		return c
	case "wrong":
		_, c, _ := proxywasm.GetSharedData(key)
		return c + 1000
	}
	return uint32(number(kind))
}

// casTable tries {absent, present} × {0, right, wrong, max} under keys of its own.
func casTable(_ *run, a []string) string {
	var out []string
	for _, present := range []bool{false, true} {
		for _, kind := range []string{"0", "right", "wrong", "max"} {
			key := fmt.Sprintf("%s/%v/%s", a[0], present, kind)
			if present {
				proxywasm.SetSharedData(key, []byte("old"), 0)
			}
			err := proxywasm.SetSharedData(key, []byte("new"), cas(key, kind))
			v, _, _ := proxywasm.GetSharedData(key)
			out = append(out, fmt.Sprintf("%v/%s=%v:%s", either(present, "present", "absent"), kind, err, v))
		}
	}
	return strings.Join(out, " ")
}

// increment adds 1 to the number under a key, by compare-and-swap until it works, as often as told.
func increment(_ *run, a []string) string {
	misses := 0
	for range number(a[1]) {
		for {
			v, c, err := proxywasm.GetSharedData(a[0])
			if err != nil {
				proxywasm.SetSharedData(a[0], []byte("0"), math.MaxUint32)
				continue
			}
			if proxywasm.SetSharedData(a[0], []byte(strconv.Itoa(number(string(v))+1)), c) == nil {
				break
			}
			misses++
		}
	}
	return fmt.Sprintf("done, %d misses", misses)
}

func metric(a []string, f func(uint64) uint64) (out string) {
	defer func() {
		if p := recover(); p != nil {
			out = fmt.Sprintf("panic: %v", p)
		}
	}()
	return fmt.Sprint(f(uint64(number(a[1]))))
}

// call: CLUSTER PATH TIMEOUT_MS [BODY]; the answer runs the stream's steps for "call".
func call(r *run, a []string) string {
	var b []byte
	if len(a) > 3 {
		b = []byte(a[3])
	}
	method := either(b == nil, "GET", "POST")
	s, where := r.stream, r.where
	id, err := proxywasm.DispatchHttpCall(a[0], [][2]string{{":method", method}, {":path", a[1]}, {":authority", "cluster"}}, b, nil, uint32(number(a[2])),
		func(headers, size, trailers int) {
			answer, _ := proxywasm.GetHttpCallResponseHeaders()
			status := ""
			for _, h := range answer {
				if h[0] == ":status" {
					status = h[1]
				}
			}
			b, err := proxywasm.GetHttpCallResponseBody(0, math.MaxInt32)
			name := ""
			if s != nil {
				name = s.name + " "
			}
			say("%sanswer to %s: n=%v size=%d trailers=%d status=%s body=%q %v", name, where, headers > 0, size, trailers, status, b, err)
			if s != nil {
				(&run{plugin: r.plugin, stream: s, where: "call", once: true}).all(s.plan)
			}
		})
	return fmt.Sprintf("id=%v %v", id > 0, err)
}

//go:noinline
func deep(n int) int { var pad [64]int; pad[n%64] = n; return deep(n+1) + pad[(n*7)%64] }

var eaten [][]byte

// eat takes memory, in MiB, and touches it.
func eat(_ *run, a []string) string {
	for range number(a[0]) {
		b := make([]byte, 1<<20)
		for i := 0; i < len(b); i += 4096 {
			b[i] = 1
		}
		eaten = append(eaten, b)
	}
	return fmt.Sprint(len(eaten))
}
