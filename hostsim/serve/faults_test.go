package serve

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/callonce/callonce/hostsim"
	"github.com/callonce/callonce/hostsim/hosttest"
)

var tools = []Matcher{{Name: "tool", Read: named}}

func TestFaultMistakes(t *testing.T) {
	for _, c := range []struct{ file, want string }{
		{`{`, "want a JSON list of rules; at byte 1"},
		{`{}`, "want a JSON list of rules, [{…}, …]"},
		{`[3]`, "/0: want an object, found 3"},
		{`[{"action":"explode"}]`, `/0/action: want one of delay, reset_before, reset_after_body, cut_reply, drop_client, crash_worker, found "explode"`},
		{`[{}]`, `/0/action: want one of`},
		{`[{"action":"delay"}]`, `/0/delay: want a duration above 0 such as "2s", found ""`},
		{`[{"action":"delay","delay":"-1s"}]`, `found "-1s"`},
		{`[{"action":"cut_reply","delay":"1s"}]`, "/0/delay: has a meaning only for the action delay"},
		{`[{"action":"cut_reply","every":0}]`, "/0/every: want 1 or more, found 0"},
		{`[{"action":"cut_reply","every":"3"}]`, `/0/every: want a whole number, found "3"`},
		{`[{"action":"cut_reply","probability":1.5}]`, "/0/probability: want above 0 and up to 1, found 1.5"},
		{`[{"action":"cut_reply","probability":0.5,"every":2}]`, "/0: want every or probability, found both"},
		{`[{"action":"cut_reply","when":2}]`, "/0/when: unknown; there are match, every, probability, action, delay"},
		{`[{"action":"cut_reply"},{"action":"cut_reply","match":{"host":"x"}}]`, "/1/match/host: unknown; there are method, path, tool"},
		{`[{"action":"cut_reply","match":{"tool":null}}]`, "/0/match/tool: want a string, found null"},
		{`[{"action":"cut_reply","match":{"path":"[a"}}]`, `/0/match/path: want a name`},
	} {
		_, err := readFaults([]byte(c.file), tools)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want %q in it", c.file, err, c.want)
		}
	}
	_, err := readFaults([]byte(`[{"action":"a"},{"action":"b"}]`), tools)
	if err == nil || !strings.Contains(err.Error(), "/0/action") || !strings.Contains(err.Error(), "/1/action") {
		t.Errorf("not all mistakes are told: %v", err)
	}
}

func TestRulesStrike(t *testing.T) {
	rules, err := readFaults([]byte(`[{"match":{"method":"post","path":"/m*","tool":"charge*"},"every":3,"action":"cut_reply"}]`), tools)
	if err != nil {
		t.Fatal(err)
	}
	got := ""
	for range 6 {
		got += fmt.Sprint(rules[0].strikes("POST", "/mcp", map[string]string{"tool": "charge_card"}), " ")
	}
	if got != "false false true false false true " {
		t.Errorf("each third: %s", got)
	}
	for _, other := range [][3]string{{"GET", "/mcp", "charge"}, {"POST", "/x", "charge"}, {"POST", "/mcp", "refund"}} {
		for range 3 {
			if rules[0].strikes(other[0], other[1], map[string]string{"tool": other[2]}) {
				t.Errorf("%v is struck", other)
			}
		}
	}
}

// start runs serve in front of up until the test ends, and returns its address.
func startServe(t *testing.T, up string, stderr *hosttest.Output, more ...string) string {
	t.Helper()
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan int, 1)
	go func() {
		args := append([]string{"serve", "--plugin", probe, "--cache", cache, "--upstream", up, "--workers", "2", "--quiet"}, more...)
		ended <- run(ctx, args, io.Discard, stderr)
	}()
	t.Cleanup(func() {
		stop()
		if status := <-ended; status != 0 {
			t.Errorf("status %d: %s", status, stderr.String())
		}
	})
	return stderr.Find(t, `listening on (http://\S+),`)[1]
}

func TestFaultsHappen(t *testing.T) {
	var runs atomic.Int64
	reached := make(chan struct{}, 10)
	up := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		runs.Add(1)
		reached <- struct{}{}
		io.WriteString(w, strings.Repeat("hello ", 20))
	}))
	defer up.Close()
	faults := write(t, "faults.json", `[
		{"match": {"tool": "early"}, "action": "reset_before"},
		{"match": {"tool": "late"}, "action": "reset_after_body"},
		{"match": {"tool": "half"}, "action": "cut_reply"},
		{"match": {"tool": "gone"}, "action": "drop_client"},
		{"match": {"tool": "crash"}, "action": "crash_worker"},
		{"match": {"tool": "slow"}, "action": "delay", "delay": "150ms"}]`)
	var stderr hosttest.Output
	front := startServe(t, up.URL, &stderr, "--faults", faults)
	call := func(tool string) (status int, body string, err error) {
		resp, err := http.Post(front+"/mcp", "application/json", strings.NewReader(`{"method":"tools/call","params":{"name":"`+tool+`"}}`))
		if err != nil {
			return 0, "", err
		}
		defer resp.Body.Close()
		b, err := io.ReadAll(resp.Body)
		return resp.StatusCode, string(b), err
	}
	for _, c := range []struct {
		tool   string
		status int
		broken bool
		runs   int64
	}{
		{"none", 200, false, 1}, {"early", 503, false, 0}, {"late", 503, false, 1}, {"half", 200, true, 1}, {"gone", 0, true, 1}, {"slow", 200, false, 1},
		{"crash", 503, false, 1},
	} {
		before, began := runs.Load(), time.Now()
		status, body, err := call(c.tool)
		if status != c.status || (err != nil) != c.broken {
			t.Errorf("%s: got %d %q, %v", c.tool, status, body, err)
		}
		for range c.runs {
			select { // the server works on without a client
			case <-reached:
			case <-time.After(patience):
				t.Fatalf("%s never reached the server", c.tool)
			}
		}
		if got := runs.Load() - before; got != c.runs {
			t.Errorf("%s: the server ran %d times, want %d", c.tool, got, c.runs)
		}
		if c.tool == "half" && (body == "" || len(body) >= 120) {
			t.Errorf("half: got %q", body)
		}
		if c.tool == "slow" && time.Since(began) < 150*time.Millisecond {
			t.Error("slow was quick")
		}
		if c.tool != "none" {
			stderr.Find(t, `fault /\d [a-z_]+: POST /mcp `+c.tool)
		}
	}
}

func TestServeRefusesFaults(t *testing.T) {
	var stderr hosttest.Output
	bad := write(t, "bad.json", `[{"action":"explode"}]`)
	args := []string{"serve", "--plugin", probe, "--cache", cache, "--upstream", "http://127.0.0.1:1", "--faults", bad}
	if status := run(context.Background(), args, io.Discard, &stderr); status != 1 || !strings.Contains(stderr.String(), "/0/action: want one of") {
		t.Errorf("status %d: %s", status, stderr.String())
	}
}

func TestAdmin(t *testing.T) {
	up := httptest.NewServer(http.NotFoundHandler())
	defer up.Close()
	var stderr hosttest.Output
	front := startServe(t, up.URL, &stderr, "--admin", "127.0.0.1:0")
	address := stderr.Find(t, `admin on (http://\S+):`)[1]
	req, _ := http.NewRequest("GET", front+"/", nil)
	req.Header.Set("x-do", "rh counter server=.=s1.x;.;outcome=.=first;.;calls_total 2; rh gauge open 3; rh histogram took 7; rh histogram took 5")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	get := func(path string) (int, string) {
		resp, err := http.Get(address + path)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		b, _ := io.ReadAll(resp.Body)
		return resp.StatusCode, string(b)
	}
	if status, body := get("/ready"); status != 200 || body != "ready\n" {
		t.Errorf("/ready: %d %q", status, body)
	}
	status, body := get("/metrics")
	want := "# TYPE open gauge\nopen 3\n# TYPE took summary\ntook_sum 12\ntook_count 2\n"
	if status != 200 || !strings.Contains(body, want) {
		t.Errorf("/metrics: %d\n%s\nwant in it\n%s", status, body, want)
	}
	if status, _ := get("/other"); status != 404 {
		t.Errorf("/other: %d", status)
	}
}

func TestMetricsAreTakenApart(t *testing.T) {
	var b strings.Builder
	writeMetrics(&b, []hostsim.Metric{
		{Name: "server=.=a \"b\\;.;outcome=.=first;.;calls_total", Kind: "counter", Value: 2}, {Name: "server=.=z;.;calls_total", Kind: "counter", Value: 3},
		{Name: "odd;.;name", Kind: "gauge", Value: -1}, {Name: "9.x", Kind: "counter", Value: 1},
	})
	want := "# TYPE _9_x counter\n_9_x 1\n# TYPE calls_total counter\ncalls_total{server=\"a \\\"b\\\\\",outcome=\"first\"} 2\ncalls_total{server=\"z\"} 3\n# TYPE odd___name gauge\nodd___name -1\n"
	if b.String() != want {
		t.Errorf("got\n%s\nwant\n%s", b.String(), want)
	}
	a := &admin{store: hostsim.NewStore()}
	w := httptest.NewRecorder()
	a.ServeHTTP(w, &http.Request{URL: &url.URL{Path: "/ready"}})
	if w.Code != 503 {
		t.Errorf("before it serves, /ready says %d", w.Code)
	}
}

// The rules that the README shows are rules, of the actions that it lists and no other.
func TestReadmeFaults(t *testing.T) {
	b, err := os.ReadFile("../README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, found := strings.Cut(string(b), "```json\n[")
	text, _, closed := strings.Cut(rest, "```")
	if !found || !closed {
		t.Fatal("README.md shows no rules")
	}
	if rules, err := readFaults([]byte("["+text), nil); err != nil || len(rules) != 2 {
		t.Errorf("want two rules, got %d, %v", len(rules), err)
	}
}
