package conformance

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/callonce/callonce/hostsim"
)

// The filter comes to its proxy by our own binding (plugin/internal/abi). The same filter on the Go SDK (plugin/sdk) judges it: what both
// are asked they must answer alike.

// onSDK gives the same build of the filter as wasm is, on the SDK.
func onSDK(t testing.TB, wasm []byte) []byte {
	tags := ""
	switch {
	case len(wasm) == 0:
	case &wasm[0] == &small[0]:
		tags = "smalltable"
	case &wasm[0] == &faulty[0]:
		tags = "faults"
	}
	code, err := builtOnSDK[tags]()
	if err != nil {
		t.Fatal(err)
	}
	return code
}

var builtOnSDK = map[string]func() ([]byte, error){"": buildOnSDK(""), "smalltable": buildOnSDK("smalltable"), "faults": buildOnSDK("faults")}

func buildOnSDK(tags string) func() ([]byte, error) {
	return sync.OnceValues(func() ([]byte, error) {
		dir, err := os.MkdirTemp("", "callonce-sdk-")
		if err != nil {
			return nil, err
		}
		defer os.RemoveAll(dir)
		out := filepath.Join(dir, "callonce-sdk.wasm")
		cmd := exec.Command("go", "build", "-C", "../sdk", "-buildmode=c-shared", "-ldflags=-s -w", "-tags="+tags, "-o", out, ".")
		cmd.Env = append(os.Environ(), "GOOS=wasip1", "GOARCH=wasm")
		if text, err := cmd.CombinedOutput(); err != nil {
			return nil, fmt.Errorf("the filter on the SDK does not build: %v\n%s", err, text)
		}
		return os.ReadFile(out)
	})
}

// trace is what came out of the proxies of a case, and what they left behind.
type trace struct {
	mu      sync.Mutex
	answers []*tapped
	logs    map[int][]string // by worker
	calls   map[int][]string // of the host, by worker
	left    []string         // access logs, shared data, metrics
}

// listen takes down what is logged.
func (tr *trace) listen(c *hostsim.Config) {
	if tr == nil {
		return
	}
	before := c.Hooks.Before
	c.Hooks.Before = func(call *hostsim.Call) hostsim.Verdict {
		// Logs are taken down by themselves, and how often a body is read is the network's, which cuts it.
		if call.Function != "proxy_log" && call.Function != "proxy_get_buffer_bytes" {
			tr.mu.Lock()
			tr.calls[call.Worker] = append(tr.calls[call.Worker], fmt.Sprintf("%d calls %s %q %d %x", call.Worker, call.Function, call.Key, call.CAS, call.Value))
			tr.mu.Unlock()
		}
		if before != nil {
			return before(call)
		}
		return hostsim.Proceed()
	}
	log := c.Log
	c.Log = func(worker int, level hostsim.LogLevel, msg string) {
		log(worker, level, msg)
		tr.mu.Lock()
		defer tr.mu.Unlock()
		tr.logs[worker] = append(tr.logs[worker], fmt.Sprintf("%v %v: %s", worker, level, msg))
	}
}

// tap takes down what clients are sent.
func (tr *trace) tap(l net.Listener) net.Listener {
	if tr == nil {
		return l
	}
	return &tap{l, tr}
}

type tap struct {
	net.Listener
	trace *trace
}

func (l *tap) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	l.trace.mu.Lock()
	defer l.trace.mu.Unlock()
	t := &tapped{Conn: c}
	l.trace.answers = append(l.trace.answers, t)
	return t, nil
}

type tapped struct {
	net.Conn
	mu   sync.Mutex
	sent bytes.Buffer
}

func (c *tapped) Write(b []byte) (int, error) {
	c.mu.Lock()
	c.sent.Write(b)
	c.mu.Unlock()
	return c.Conn.Write(b)
}

// take takes down what a proxy that ends leaves behind.
func (tr *trace) take(p *simulated) {
	if tr == nil {
		return
	}
	tr.mu.Lock()
	defer tr.mu.Unlock()
	p.mu.Lock()
	for _, r := range p.records {
		tr.left = append(tr.left, fmt.Sprintf("access log: %s %s %d %s %s %d %d %v", r.Method, r.Path, r.Status, r.Details, r.Flags, r.RequestBytes, r.ResponseBytes, published(r)))
	}
	p.mu.Unlock()
	store := p.host.Store()
	for _, key := range store.Keys(vmID) {
		value, cas, _ := store.Get(vmID, key)
		tr.left = append(tr.left, fmt.Sprintf("shared data: %q %d %s", key, cas, hex.EncodeToString(value)))
	}
	for name, v := range p.host.Metrics() {
		tr.left = append(tr.left, fmt.Sprint("metric: ", name, " ", v))
	}
}

// published is the filter state of a stream. The SDK cannot publish an empty value.
func published(r hostsim.Record) string {
	maps.DeleteFunc(r.FilterState, func(_, value string) bool { return value == "" })
	return fmt.Sprint(r.FilterState)
}

var (
	dated  = regexp.MustCompile(`(?mi)^date: .*\r\n`)
	ported = regexp.MustCompile(`127\.0\.0\.1:\d+`)
)

// lines are all of it, sorted but for what one worker logged.
func (tr *trace) lines() []string {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	var out []string
	for _, c := range tr.answers {
		c.mu.Lock()
		for _, answer := range answersOf(c.sent.Bytes()) {
			out = append(out, "answer: "+ported.ReplaceAllString(dated.ReplaceAllString(answer, ""), "127.0.0.1:port"))
		}
		c.mu.Unlock()
	}
	out = append(out, tr.left...)
	slices.Sort(out)
	for _, all := range []map[int][]string{tr.logs, tr.calls} {
		for _, worker := range slices.Sorted(maps.Keys(all)) {
			out = append(out, all[worker]...)
		}
	}
	return out
}

// answersOf are the answers that were written to a connection, each with its body taken out of its chunks: how it was cut is the network's. What
// is not HTTP/1.1 is one answer.
func answersOf(sent []byte) (all []string) {
	for in := bufio.NewReader(bytes.NewReader(sent)); ; {
		left, _ := in.Peek(1)
		if len(left) == 0 {
			return all
		}
		answer, err := http.ReadResponse(in, nil)
		if err != nil {
			rest, _ := io.ReadAll(in)
			return append(all, string(rest))
		}
		body, err := io.ReadAll(answer.Body)
		var b strings.Builder
		fmt.Fprintf(&b, "%d %v %v\r\n", answer.StatusCode, answer.TransferEncoding, err)
		_ = answer.Header.Write(&b)
		all = append(all, b.String()+string(body))
	}
}

// still is hostsim with one worker, a clock that stands and chance that is always the same: what a filter does there is the same each time.
func still(sdk bool) (simulator, *trace) {
	tr := &trace{logs: map[int][]string{}, calls: map[int][]string{}}
	return simulator{sdk: sdk, trace: tr, adjust: func(c *hostsim.Config) {
		chance := rand.NewChaCha8([32]byte{1})
		var mu sync.Mutex
		c.Workers = 1
		c.Clock = hostsim.NewManualClock(time.Date(2026, 7, 28, 12, 0, 0, 0, time.UTC))
		c.Random = func(b []byte) {
			mu.Lock()
			defer mu.Unlock()
			_, _ = chance.Read(b)
		}
	}}, tr
}

// unsteady are the cases whose traces differ from run to run with one binding already, by what happens at once or by the order in which the case
// asks, and those that need time to pass, or a second worker. They run on both, each by what it asserts.
var unsteady = []int{1, 2, 10, 11, 12, 13, 14, 15, 17, 31, 32, 33, 34, 35, 36, 37, 38, 51, 54, 61, 62, 63, 65, 72}

// What the two bindings are asked alike, they answer alike to the byte; and publish, log, count and leave in shared data the same, by the same
// calls of the host.
func TestBothBindings(t *testing.T) {
	for _, c := range All {
		if slices.Contains(unsteady, c.Number) {
			continue
		}
		t.Run(c.label(), func(t *testing.T) {
			both(t, func(t *testing.T, f simulator) { c.Run(t, f) })
		})
	}
}

// both plays something on either binding, and compares. What happens at once may make two runs differ, on a busy machine; what a binding does
// wrong makes all.
func both(t *testing.T, play func(*testing.T, simulator)) {
	t.Helper()
	var differ []string
	for range 3 {
		ours, a := still(false)
		theirs, b := still(true)
		if !t.Run("ours", func(t *testing.T) { play(t, ours) }) || !t.Run("sdk", func(t *testing.T) { play(t, theirs) }) {
			return
		}
		one, two := a.lines(), b.lines()
		if len(one) < 10 {
			t.Fatalf("%d lines were taken down", len(one))
		}
		if differ = difference(one, two); len(differ) == 0 {
			return
		}
	}
	for _, d := range differ[:min(len(differ), 12)] {
		t.Errorf("%.600s", d)
	}
}

// The rest of the kit on the SDK, with clocks that go and two workers. What detaches is refused there (TestRefusedOnTheSDK). What takes long runs
// with the long runs.
func TestCasesOnTheSDK(t *testing.T) {
	t.Parallel()
	Run(t, simulator{sdk: true}, func(c Case) bool {
		return slices.Contains(unsteady, c.Number) && (isLong() || !slices.Contains([]int{11, 14, 38}, c.Number))
	})
}

func isLong() bool { return os.Getenv(longRun) != "" }

func TestMoreOnTheSDK(t *testing.T) {
	t.Parallel()
	f := simulator{sdk: true}
	for name, play := range map[string]func(*testing.T, Front){
		"Crowd": Crowd, "TypedClaims": TypedClaims, "JoinedNames": JoinedNames, "SteeringCookies": SteeringCookies, "Forgetting": Forgetting,
		"Large": Large, "Ends": Ends, "Presets": Presets, "Waiting": Waiting, "Causes": Causes, "Operators": Operators,
	} {
		if name != "Large" || isLong() {
			t.Run(name, func(t *testing.T) { play(t, f) })
		}
	}
}

// Every case under the clocks of the kit, in a table of a handful of buckets, and where headers are not buffered, as TestCases and its neighbours
// have it for our own binding: those that are steady were compared already.
func TestAllOnTheSDK(t *testing.T) {
	if !isLong() {
		t.Skip("set CALLONCE_LONG_RUN=1 for the whole kit on the SDK, three times")
	}
	t.Run("as it ships", func(t *testing.T) { Run(t, simulator{sdk: true}, func(Case) bool { return true }) })
	t.Run("small table", func(t *testing.T) { Run(t, simulator{sdk: true, wasm: small}, again) })
	t.Run("not buffered", func(t *testing.T) { Run(t, notHeld{simulator{sdk: true}}, againNotHeld) })
}

// What the SDK cannot do is refused at start, by the name of the member that asks for it.
func TestRefusedOnTheSDK(t *testing.T) {
	f := simulator{sdk: true}
	const policies = `{"policies":{"p":{"server":"s","anonymous":true`
	for config, want := range map[string]string{
		policies + `}},"default":"p","store":{"kind":"etcd","cluster":"c"}}`:                    `/store/kind: found "etcd", expected "shared_data": the filter on the Go SDK makes no gRPC calls`,
		policies + `,"on_disconnect":"continue"}},"default":"p"}`:                               `/policies/p/on_disconnect: found "continue", expected "stop": the filter on the Go SDK cannot read the answer of a call whose caller has left`,
		policies + `,"tools":[{"match":"slow_*","on_disconnect":"continue"}]}},"default":"p"}`:  `/policies/p/tools/0/on_disconnect: found "continue"`,
		policies + `,"tools":[{"match":"a"},{"match":"slow_*","detach":true}]}},"default":"p"}`: `/policies/p/tools/1/detach: found true, expected false`,
	} {
		if got := f.StartError(t, Setup{Config: config}); !strings.Contains(got, want) {
			t.Errorf("%s:\nfound %s\nexpected %s", config, got, want)
		}
		h := simulator{}.start(t, Setup{Config: config, Upstream: "http://127.0.0.1:1"})
		h.Close()
	}
}

// difference compares two lists of lines, in which a line may be there several times.
func difference(one, two []string) (out []string) {
	count := map[string]int{}
	for _, l := range one {
		count[l]++
	}
	for _, l := range two {
		count[l]--
	}
	for _, l := range slices.Sorted(maps.Keys(count)) {
		switch n := count[l]; {
		case n > 0:
			out = append(out, fmt.Sprintf("our binding alone, %d times: %s", n, l))
		case n < 0:
			out = append(out, fmt.Sprintf("the SDK's alone, %d times: %s", -n, l))
		}
	}
	return out
}

// Whichever call of the host fails, and with whatever status: the same call of the host follows, and the same answer, log and record.
func TestBindingsWhereTheHostSaysNo(t *testing.T) {
	for _, with := range []hostsim.Status{hostsim.StatusNotFound, hostsim.StatusBadArgument, hostsim.StatusInvalidMemory, hostsim.StatusEmpty,
		hostsim.StatusCasMismatch, hostsim.StatusInternalFailure, hostsim.StatusUnimplemented} {
		t.Run(with.String(), func(t *testing.T) {
			both(t, func(t *testing.T, f simulator) {
				failEach(t, f, with, plain)
				failEach(t, f, with, gateway)
			})
		})
	}
}

// failEach (that a call runs once is TestHostSaysNo's, in plugin/internal/abi) plays a call and its repeat, with a key of their own each time, and fails the nth call of the host in the first of them.
func failEach(t *testing.T, f simulator, with hostsim.Status, config string) {
	var mu sync.Mutex
	left, calls := 0, 0
	adjust := f.adjust
	f.adjust = func(c *hostsim.Config) {
		adjust(c)
		c.Hooks.Before = func(call *hostsim.Call) hostsim.Verdict {
			mu.Lock()
			defer mu.Unlock()
			if call.Worker != 0 || call.Function == "proxy_log" || call.Function == "proxy_get_buffer_bytes" && left != 1 {
				return hostsim.Proceed()
			}
			calls++
			if left--; left == 0 {
				return hostsim.Fail(with)
			}
			return hostsim.Proceed()
		}
	}
	c, _, p, _ := timed(t, f, config, asJSON)
	call := func(key string) reply { return c.post(toolCall("1", "charge", `{}`), asAda(key)...) }
	set := func(n int) (seen int) {
		mu.Lock()
		defer mu.Unlock()
		seen, left, calls = calls, n, 0
		return seen
	}
	wantFirst(t, call("the-first-fetches-what-all-use"))
	p.host.Wait()
	set(0)
	wantFirst(t, call("how-many-calls-there-are"))
	p.host.Wait()
	for n := range set(0) {
		set(n + 1)
		for range 2 {
			if r := call(fmt.Sprint("k", n)); r.Err != nil {
				t.Errorf("call %d of the host says %v: no answer: %v", n+1, with, r.Err)
			}
			p.host.Wait()
			set(0)
		}
	}
}

// Lists of headers that are none, or lie about their lengths, and attributes of any bytes: the corpus of the fuzz tests of plugin/internal/abi, and
// lists that were damaged at random, handed over by the host. Nobody is led to another answer by them than by our own reader.
func TestBindingsReadWhatTheHostSays(t *testing.T) {
	both(t, damage)
}

func damage(t *testing.T, f simulator) {
	var mu sync.Mutex
	var with func([]byte) []byte
	adjust := f.adjust
	f.adjust = func(c *hostsim.Config) {
		adjust(c)
		c.Hooks.Hands = func(call *hostsim.Call, b []byte) []byte {
			mu.Lock()
			defer mu.Unlock()
			if call.Worker != 0 || with == nil {
				return b
			}
			switch call.Function {
			case "proxy_get_header_map_pairs", "proxy_get_property":
				return with(bytes.Clone(b))
			}
			return b
		}
	}
	c, _, p, _ := timed(t, f, plain, asJSON)
	chance := rand.New(rand.NewPCG(7, 7))
	answered := map[int]int{}
	for n := range 120 {
		mu.Lock()
		with = func(b []byte) []byte { return damaged(b, n, chance.IntN(1<<30)) }
		mu.Unlock()
		for range 2 {
			answered[c.call("1", "charge", `{}`, fmt.Sprint("k", n)).Status]++
			p.host.Wait()
		}
	}
	if strings.Contains(p.Logs(), "VM failed") || answered[200] < 20 || len(answered) < 2 {
		t.Errorf("answers by their status: %v; the log: %.2000s", answered, p.Logs())
	}
}

// lies are numbers of pairs, and lengths. What is left out (2^17 to 2^28) makes the SDK take more memory than a VM has, before it looks.
var lies = []uint32{0, 1, 2, 3, 255, 1 << 16, 1<<29 - 1, 1 << 29, 1<<29 + 2, 1 << 31, 1<<32 - 2, 1<<32 - 1}

// damaged gives a list in which a number lies, that was cut short, or in which a byte of a text is another.
func damaged(b []byte, n, chance int) []byte {
	if len(b) < 4 {
		return b
	}
	pairs := int(binary.LittleEndian.Uint32(b))
	head := 4 + 8*pairs
	if pairs == 0 || pairs > 1000 || head >= len(b) { // no list: an attribute
		b[chance%len(b)] ^= byte(1 + chance>>8%255)
		return b
	}
	switch n % 4 {
	case 0:
		binary.LittleEndian.PutUint32(b, lies[chance%len(lies)])
	case 1:
		binary.LittleEndian.PutUint32(b[4+4*(chance%(2*pairs)):], lies[chance>>8%len(lies)])
	case 2:
		return b[:chance%len(b)]
	default:
		b[head+chance%(len(b)-head)] ^= byte(1 + chance>>8%255)
	}
	return b
}
