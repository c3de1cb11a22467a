//go:build faults

package boot

import (
	"runtime/debug"
	"strings"
	"time"

	"github.com/callonce/callonce/plugin/internal/guard"
	"github.com/callonce/callonce/plugin/internal/ledger"
)

// The filter with faults of its own, for tests; the module that ships has none of
// this. A request orders its fault in a header, "<what> <where>":
//
//	panic RequestBody        a panic that can be contained, in the next host call of that name
//	overflow RequestBody     the stack overflows there: the VM dies
//	exhaust RequestBody      the memory is used up there: the VM dies
//	stall=4s ResponseBody    the worker stands still there for so long
//	panic tick               the next tick panics
const faultHeader = "x-callonce-fault"

// HostOf gives what the guard sees of a stream.
func HostOf(stream guard.Host) guard.Host { return &faultyHost{Host: stream} }

func tableOf(t ledger.Table, clock func() ledger.Mono) ledger.Table {
	now = clock
	return faultyTable{t}
}

var now func() ledger.Mono

// tickFault is what the next tick of this VM does.
var tickFault string

type faultyHost struct {
	guard.Host
	what, where string
}

// at does what was ordered for a place, once.
func (f *faultyHost) at(where string) {
	if f.where == where {
		f.where = ""
		commit(f.what)
	}
}

// HasRequestHeader reads the order too: it may be all that is asked for.
func (f *faultyHost) HasRequestHeader(name string) bool {
	_, _ = f.RequestHeaders() // it is asked again where it matters
	return f.Host.HasRequestHeader(name)
}

func (f *faultyHost) RequestHeaders() ([][2]string, error) {
	f.what, f.where = "", "" // the stream before this one may have left an order
	lines, err := f.Host.RequestHeaders()
	for _, l := range lines {
		if l[0] == faultHeader {
			f.what, f.where, _ = strings.Cut(l[1], " ")
		}
	}
	if f.where == "tick" {
		tickFault, f.where = f.what, ""
	}
	f.at("RequestHeaders")
	return lines, err
}

func (f *faultyHost) RequestBody(size int) ([]byte, error) {
	f.at("RequestBody")
	return f.Host.RequestBody(size)
}

func (f *faultyHost) SetRequestHeader(name, value string) error {
	f.at("SetRequestHeader")
	return f.Host.SetRequestHeader(name, value)
}

func (f *faultyHost) ResponseHeaders() ([][2]string, error) {
	f.at("ResponseHeaders")
	return f.Host.ResponseHeaders()
}

func (f *faultyHost) ResponseBody(size int) ([]byte, error) {
	f.at("ResponseBody")
	return f.Host.ResponseBody(size)
}

// faultyTable knows a tick by the record that nothing else touches.
type faultyTable struct{ ledger.Table }

// Get implements ledger.Table.
func (t faultyTable) Get(key string) ([]byte, uint32, bool, error) {
	if tickFault != "" && strings.HasSuffix(key, "/s") {
		what := tickFault
		tickFault = ""
		commit(what)
	}
	return t.Table.Get(key)
}

func commit(what string) {
	switch kind, span, _ := strings.Cut(what, "="); kind {
	case "panic":
		var none []int
		_ = none[len(what)]
	case "overflow":
		debug.SetMaxStack(1 << 20) // else it takes long, and hundreds of MiB
		deeper(1)
	case "exhaust":
		for {
			hoard = append(hoard, make([]byte, 64<<20))
		}
	case "stall":
		d, err := time.ParseDuration(span)
		if err != nil {
			panic("a stall without a duration")
		}
		for until := now() + ledger.Mono(d); now() < until; {
		}
	default:
		panic("no such fault")
	}
}

var hoard [][]byte

//go:noinline
func deeper(n int) int { return deeper(n+1) + n }
