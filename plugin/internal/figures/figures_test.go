package figures

import (
	"cmp"
	"context"
	"flag"
	"fmt"
	"maps"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tetratelabs/wazero/api"
	"github.com/tetratelabs/wazero/experimental"

	"github.com/callonce/callonce/hostsim"
	"github.com/callonce/callonce/hostsim/hosttest"
)

var record = flag.Bool("record", false, "write down what is measured instead of comparing with it")

const file = "testdata/figures.txt"

const config = `{"policies":{"p":{"reply":"http","server":"s","anonymous":true,"tools":[{"match":"charge","guard":"required"},{"match":"read","guard":"off"}]}},"default":"p"}`

// cost is what one request of a kind takes.
type cost struct {
	calls                  map[string]int // of the host, by name
	together               int            // calls of the host in all of the requests that were measured
	entered                int            // functions of the module, how often any was called
	allocations, allocated uint64         // objects and bytes of Go's heap
	in, shared             int            // bytes that the host hands over, and that go into shared data with their keys
}

// meter counts the calls of the host and of the module's functions, and reads what the filter tells of itself.
type meter struct {
	mu      sync.Mutex
	calls   map[string]int
	shared  int
	told    [3]uint64 // allocations, bytes, bytes in
	entered int       // by the one VM that serves
	clocks  int
}

// NewFunctionListener implements experimental.FunctionListenerFactory. Of WASI, which has no hooks, the clock is what a request asks.
func (m *meter) NewFunctionListener(f api.FunctionDefinition) experimental.FunctionListener {
	count := &m.entered
	if f.GoFunction() != nil {
		if f.Name() != "clock_time_get" {
			return nil
		}
		count = &m.clocks
	}
	return experimental.FunctionListenerFunc(func(context.Context, api.Module, api.FunctionDefinition, []uint64, experimental.StackIterator) {
		m.mu.Lock()
		defer m.mu.Unlock()
		*count++
	})
}

func (m *meter) before(c *hostsim.Call) hostsim.Verdict {
	m.mu.Lock()
	defer m.mu.Unlock()
	if c.Worker == 0 {
		m.calls[c.Function]++
		if c.Function == "proxy_set_shared_data" {
			m.shared += len(c.Key) + len(c.Value)
		}
	}
	return hostsim.Proceed()
}

func (m *meter) log(worker int, _ hostsim.LogLevel, line string) {
	if worker == 0 {
		m.mu.Lock()
		defer m.mu.Unlock()
		_, after, ok := strings.Cut(line, "figures ")
		if ok {
			m.entered, m.clocks = 0, 0 // what they took to tell it
			_, _ = fmt.Sscan(after, &m.told[0], &m.told[1], &m.told[2])
		}
	}
}

// now gives the counts, and begins again.
func (m *meter) now() (c cost, told [3]uint64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	c = cost{calls: m.calls, shared: m.shared, entered: m.entered}
	if m.clocks > 0 {
		c.calls["clock_time_get"] = m.clocks
	}
	m.calls, m.shared, m.entered, m.clocks = map[string]int{}, 0, 0, 0
	return c, m.told
}

// build compiles the filter as make does.
func build(t *testing.T, tags string) []byte {
	t.Helper()
	return hosttest.Build(t, "../..", "-trimpath", "-ldflags=-s -w", "-tags="+tags)
}

func call(name, arguments string) string {
	return `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"` + name + `","arguments":` + arguments + `}}`
}

const answer = `{"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":"done"}]}}`

// upstream answers every call in the same way.
func upstream(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	w.Header()["Date"] = nil
	_, _ = w.Write([]byte(answer))
}

var kinds = []struct {
	name   string
	method string
	body   string
	header func(n int) []string // of the nth request
	status int
}{
	{"pass through: GET", "GET", "", func(int) []string { return nil }, 200},
	{"unkeyed read", "POST", call("read", `{"id":7}`), func(int) []string { return nil }, 200},
	{"first call", "POST", call("charge", `{"amount":5}`), func(n int) []string { return []string{"Idempotency-Key", fmt.Sprintf("key-%03d", n)} }, 200},
	{"replay", "POST", call("charge", `{"amount":5}`), func(int) []string { return []string{"Idempotency-Key", "key-000"} }, 200},
	{"refusal: no key", "POST", call("charge", `{"amount":5}`), func(int) []string { return nil }, 400},
	{"refusal: conflict", "POST", call("charge", `{"amount":6}`), func(int) []string { return []string{"Idempotency-Key", "key-000"} }, 409},
}

// warm is how many requests of a kind are sent before any is measured: memory grows in steps. Of those that are measured the cheapest
// counts, since some fetch what the next ones use too, and of all together the calls of the host.
const warm, measured = 8, 16

// measure gives the cost of each kind.
func measure(t *testing.T, m *meter, f *hosttest.Front) map[string]cost {
	all := map[string]cost{}
	for _, k := range kinds {
		var best cost
		together := 0
		for n := range warm + measured {
			m.now()
			header := append([]string{"Content-Type", "application/json", "Accept", "application/json, text/event-stream"}, k.header(n)...)
			if r, body := f.Send(k.method, "/mcp", k.body, header...); r.StatusCode != k.status {
				t.Fatalf("%s: status %d, expected %d: %s", k.name, r.StatusCode, k.status, body)
			}
			f.Host.Wait()
			c, before := m.now()
			// The next stream says what this one took; it is one that nobody looks at.
			f.Send("GET", "/mcp", "")
			f.Host.Wait()
			_, after := m.now()
			delete(c.calls, "proxy_log")
			c.allocations, c.allocated, c.in = after[0]-before[0], after[1]-before[1], int(after[2]-before[2])
			if n < warm {
				continue
			}
			together += c.total()
			if n == warm || c.less(&best) {
				best = c
			}
		}
		best.together = together
		all[k.name] = best
	}
	return all
}

func (c *cost) total() (n int) {
	for _, calls := range c.calls {
		n += calls
	}
	return n
}

// less orders what requests of one kind cost.
func (c *cost) less(than *cost) bool {
	return cmp.Or(cmp.Compare(c.total(), than.total()), cmp.Compare(c.allocations, than.allocations), cmp.Compare(c.entered, than.entered)) < 0
}

func (c cost) String() string {
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(c.calls)) {
		fmt.Fprintf(&b, "  %s %d\n", name, c.calls[name])
	}
	fmt.Fprintf(&b, "  all calls of %d requests %d\n", measured, c.together)
	fmt.Fprintf(&b, "  bytes in %d\n  bytes to shared data %d\n  allocations %d\n  bytes allocated %d\n  functions entered %d\n", c.in, c.shared, c.allocations, c.allocated, c.entered)
	return b.String()
}

// What the filter costs is what was recorded. Calls and bytes of the ABI are exact; a size and the functions entered may differ by 2 %,
// allocations by two and memory by 10 %, since another compiler does as much. Something that costs less is recorded too: make record.
func TestFigures(t *testing.T) {
	m := &meter{calls: map[string]int{}}
	c := hostsim.Config{
		Wasm: build(t, "figures"), PluginConfig: []byte(config), PluginName: "callonce", HoldHeaders: true,
		Clock: hostsim.NewManualClock(time.Unix(1_700_000_000, 0)), Random: fixed, Log: m.log, Hooks: hostsim.Hooks{Before: m.before},
	}
	code, err := hostsim.Compile(experimental.WithFunctionListenerFactory(t.Context(), m), c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = code.Close(context.WithoutCancel(t.Context())) })
	c.Code = code
	f := hosttest.Start(t, c, http.HandlerFunc(upstream))
	f.Host.Tick()
	f.Host.Wait()
	got := measure(t, m, f)
	size := len(build(t, "none"))

	var b strings.Builder
	fmt.Fprintf(&b, "module\n  bytes %d\n", size)
	for _, k := range kinds {
		fmt.Fprintf(&b, "%s\n%s", k.name, got[k.name])
	}
	if *record {
		if err := os.WriteFile(file, []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	recorded, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range differences(read(string(recorded)), read(b.String())) {
		t.Error(line)
	}
}

// columns are the kinds of request as docs/measurements.md heads their columns.
var columns = []string{"pass through: GET", "unkeyed read", "first call", "replay", "refusal: no key", "refusal: conflict"}

// Each call of the host that was recorded has its reason in the documents, and no other has.
func TestReasons(t *testing.T) {
	page, err := os.ReadFile("../../../docs/measurements.md")
	if err != nil {
		t.Fatal(err)
	}
	recorded, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]int{}
	for line := range strings.Lines(string(page)) {
		cells := strings.Split(line, "|")
		names := regexp.MustCompile("`([a-z_]+)`").FindAllStringSubmatch(cells[min(1, len(cells)-1)], -1)
		if len(cells) != len(columns)+5 || len(names) == 0 {
			continue
		}
		if why := strings.TrimSpace(cells[len(columns)+3]); why == "" {
			t.Errorf("no reason: %s", line)
		}
		for i, kind := range columns {
			n, err := strconv.Atoi(strings.TrimSpace(cells[3+i]))
			if err != nil {
				t.Errorf("%v: %s", err, line)
			}
			for _, name := range names {
				got[kind+": "+name[1]] += n
			}
		}
	}
	want := read(string(recorded))
	for name := range want {
		if !strings.Contains(name, ": proxy_") && !strings.Contains(name, ": clock_") {
			delete(want, name)
		}
	}
	for name, n := range got {
		if n != want[name] {
			t.Errorf("%s: %d with a reason, %d recorded", name, n, want[name])
		}
	}
	for name, n := range want {
		if _, ok := got[name]; !ok {
			t.Errorf("%s: none with a reason, %d recorded", name, n)
		}
	}
}

// fixed gives the same bytes each time: where a key lies decides how long a record is, and which VM asks first is not certain.
func fixed(b []byte) {
	for i := range b {
		b[i] = byte(7*i + 1)
	}
}

// read gives the figures by "section: name".
func read(text string) map[string]int {
	all := map[string]int{}
	section := ""
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\n")
		if !strings.HasPrefix(line, "  ") {
			section = line
			continue
		}
		i := strings.LastIndexByte(line, ' ')
		n := 0
		_, _ = fmt.Sscan(line[i+1:], &n)
		all[section+": "+strings.TrimSpace(line[:i])] = n
	}
	return all
}

// differences says which figures are not what they should be.
func differences(want, got map[string]int) (all []string) {
	for _, name := range slices.Sorted(maps.Keys(want)) {
		w, g, by := want[name], got[name], 0
		switch {
		case name == "module: bytes", strings.HasSuffix(name, ": functions entered"):
			by = w / 50
		case strings.HasSuffix(name, ": allocations"):
			by = 2
		case strings.HasSuffix(name, ": bytes allocated"):
			by = w/10 + 64
		}
		if g < w-by || g > w+by {
			all = append(all, fmt.Sprintf("%s: %d, recorded %d", name, g, w))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(got)) {
		if _, ok := want[name]; !ok {
			all = append(all, fmt.Sprintf("%s: %d, recorded none", name, got[name]))
		}
	}
	return all
}

// The comparison sees what is too much, too little, new and gone.
func TestDifferences(t *testing.T) {
	want := read("module\n  bytes 1000\nfirst call\n  proxy_get_shared_data 3\n  bytes in 10\n  allocations 4\n  functions entered 100\n")
	for text, n := range map[string]int{
		"module\n  bytes 1020\nfirst call\n  proxy_get_shared_data 3\n  bytes in 10\n  allocations 5\n  functions entered 102\n":                         0,
		"module\n  bytes 1021\nfirst call\n  proxy_get_shared_data 3\n  bytes in 10\n  allocations 4\n  functions entered 98\n":                          1,
		"module\n  bytes 979\nfirst call\n  proxy_get_shared_data 2\n  bytes in 11\n  allocations 7\n  functions entered 103\n":                          5,
		"module\n  bytes 1000\nfirst call\n  proxy_get_shared_data 3\n  proxy_set_property 1\n  bytes in 10\n  allocations 4\n  functions entered 100\n": 1,
		"module\n  bytes 1000\nfirst call\n  bytes in 10\n  allocations 4\n  functions entered 100\n":                                                    1,
	} {
		if got := differences(want, read(text)); len(got) != n {
			t.Errorf("%q: %q, expected %d", text, got, n)
		}
	}
}
