package hosttest

import (
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/callonce/callonce/hostsim"
)

// said collects what the probe logs.
type said struct {
	mu    sync.Mutex
	lines []string
}

func (s *said) log(_ int, _ hostsim.LogLevel, msg string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lines = append(s.lines, msg)
}

func (s *said) has(t *testing.T, want string) {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	if !slices.ContainsFunc(s.lines, func(l string) bool { return strings.Contains(l, want) }) {
		t.Errorf("want %q in what the filter saw:\n%s", want, strings.Join(s.lines, "\n"))
	}
}

// A panic of the filter fails the test, with the whole of its stack in one piece, and once.
func TestPanicFailsTheTest(t *testing.T) {
	test := &logged{TB: t}
	front := Start(test, hostsim.Config{Wasm: Build(t, "../testdata/probe")}, http.NotFoundHandler())
	front.Send("GET", "/", "", "x-name", "m", "x-do", "rh printerr said before")
	if resp, _ := front.Send("GET", "/", "", "x-name", "n", "x-do", "rh printerr said in it; rh panic"); resp.StatusCode != http.StatusServiceUnavailable {
		t.Errorf("want 503, got %s", resp.Status)
	}
	front.Host.Wait()
	test.mu.Lock()
	defer test.mu.Unlock()
	if len(test.errors) != 1 {
		t.Fatalf("want one failure, got %q", test.errors)
	}
	for _, want := range []string{"worker 0: the filter's VM has ended: proxy_on_request_headers: ", "said in it", "panic: the plan says so", "goroutine 1 [running]:", "verbs.go:", "main.go:"} {
		if !strings.Contains(test.errors[0], want) {
			t.Errorf("want %q in one piece, got\n%s", want, test.errors[0])
		}
	}
	if strings.Contains(test.errors[0], "said before") {
		t.Errorf("want what was printed in the callback that ended, got\n%s", test.errors[0])
	}
}

// A VM that the test has ended is no failure.
func TestCrashFailsNoTest(t *testing.T) {
	test := &logged{TB: t}
	front := Start(test, hostsim.Config{Wasm: Build(t, "../testdata/probe")}, http.NotFoundHandler())
	if err := front.Host.Crash(0); err != nil {
		t.Fatal(err)
	}
	front.Host.Wait()
	test.mu.Lock()
	defer test.mu.Unlock()
	if len(test.errors) > 0 {
		t.Errorf("want no failure, got %q", test.errors)
	}
}

// Each option of the proxy does what it says, over both versions of HTTP to the server.
func TestProxyOptions(t *testing.T) {
	probe := Build(t, "../testdata/probe")
	for _, http2 := range []bool{false, true} {
		t.Run(fmt.Sprint("http2=", http2), func(t *testing.T) {
			var tries atomic.Int32
			slow := make(chan struct{})
			defer close(slow)
			server := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.ProtoMajor == 2 != http2 {
					t.Errorf("the server got %s", r.Proto)
				}
				switch r.URL.Path {
				case "/again":
					if tries.Add(1) < 3 {
						http.Error(w, "not yet", http.StatusServiceUnavailable)
						return
					}
				case "/slow":
					<-slow
				}
				body, err := io.ReadAll(r.Body)
				if err != nil {
					return
				}
				w.Header().Set(http.TrailerPrefix+"x-sum", fmt.Sprint(len(body)))
				w.Write(body)
			})
			var seen said
			front := Start(t, hostsim.Config{Wasm: probe, Log: seen.log}, server, hostsim.ProxyOptions{
				Trailers: true, RouteRetries: 2, ResponseTimeout: 300 * time.Millisecond, UpstreamHTTP2: http2,
				Properties: func(r *http.Request, path string) ([]byte, bool) {
					return hostsim.Int64(int64(len(r.Header.Get("x-user")))), path == "my.size"
				},
			})
			text := strings.Repeat("x", 300_000)
			resp, body := front.Send("POST", "/echo", text, "x-user", "ada", "x-name", "n", "x-do", "rh prop my/size; st strailers")
			if resp.StatusCode != http.StatusOK || body != text {
				t.Errorf("want the body back, got %s and %d bytes", resp.Status, len(body))
			}
			if got := resp.Trailer.Get("x-sum"); got != fmt.Sprint(len(text)) {
				t.Errorf("want the trailer, got %q", got)
			}
			front.Host.Wait()
			seen.has(t, `rh prop my/size -> "\x03\x00\x00\x00\x00\x00\x00\x00" <nil>`)
			seen.has(t, `st strailers  -> [["x-sum" "300000"]]`)
			if resp, _ := front.Send("POST", "/again", "text"); resp.StatusCode != http.StatusOK || tries.Load() != 3 {
				t.Errorf("want the third try's answer, got %s after %d", resp.Status, tries.Load())
			}
			if resp, _ := front.Send("GET", "/slow", ""); resp.StatusCode != http.StatusGatewayTimeout {
				t.Errorf("want 504, got %s", resp.Status)
			}
		})
	}
}

// What a test says of types is what the filter gets, byte by byte.
func TestTypedProperties(t *testing.T) {
	var seen said
	front := Start(t, hostsim.Config{Wasm: Build(t, "../testdata/probe"), Log: seen.log, Properties: map[string][]byte{
		"my.int": hostsim.Int64(-7), "my.uint": hostsim.Uint64(1 << 63), "my.double": hostsim.Double(42), "my.yes": hostsim.Bool(true), "my.no": hostsim.Bool(false),
	}}, http.NotFoundHandler())
	front.Send("GET", "/", "", "x-name", "n", "x-do", "rh prop my/int; rh prop my/uint; rh prop my/double; rh prop my/yes; rh prop my/no")
	front.Host.Wait()
	for name, want := range map[string]string{
		"int": `"\xf9\xff\xff\xff\xff\xff\xff\xff"`, "uint": `"\x00\x00\x00\x00\x00\x00\x00\x80"`, "double": `"\x00\x00\x00\x00\x00\x00E@"`,
		"yes": `"\x01"`, "no": `"\x00"`,
	} {
		seen.has(t, "prop my/"+name+" -> "+want)
	}
}

// A function that the test registers is called with the filter's bytes, and its result is the filter's.
func TestForeignFunctions(t *testing.T) {
	var seen said
	front := Start(t, hostsim.Config{Wasm: Build(t, "../testdata/probe"), Log: seen.log, Foreign: map[string]func([]byte) ([]byte, hostsim.Status){
		"upper": func(argument []byte) ([]byte, hostsim.Status) {
			return []byte(strings.ToUpper(string(argument))), hostsim.StatusOK
		},
		"empty": func([]byte) ([]byte, hostsim.Status) { return nil, hostsim.StatusOK },
		"fails": func([]byte) ([]byte, hostsim.Status) { return []byte("unseen"), hostsim.StatusBadArgument },
	}}, http.NotFoundHandler())
	front.Send("GET", "/", "", "x-name", "n", "x-do", "rh foreign upper some text; rh foreign empty x; rh foreign fails x; rh foreign none x; rh foreign clear_route_cache")
	front.Host.Wait()
	for call, want := range map[string]string{
		"upper some text": `"SOME TEXT" <nil>`, "empty x": `"" <nil>`, "fails x": `"" error status returned by host: bad argument`,
		"none x": `"" error status returned by host: not found`, "clear_route_cache": `"" <nil>`,
	} {
		seen.has(t, "foreign "+call+" -> "+want)
	}
}
