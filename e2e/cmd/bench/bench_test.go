package main

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	keyed "github.com/callonce/callonce/clients/go"
	"github.com/callonce/callonce/e2e/child"
	"github.com/callonce/callonce/e2e/hostsimcmd"
	"github.com/callonce/callonce/e2e/tools"
)

func TestTextsAreWhatTheReportSays(t *testing.T) {
	for name, text := range map[string]string{"call": call, "result": result} {
		if len(text) != size || !json.Valid([]byte(text)) {
			t.Errorf("%s: want %d bytes of JSON, got %d: %s", name, size, len(text), text)
		}
	}
}

func TestLoadSendsEachCallOnce(t *testing.T) {
	var calls, keys atomic.Int32
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		calls.Add(1)
		if r.Header.Get(keyed.Header) != "" {
			keys.Add(1)
		}
		answer(w, r)
	}))
	t.Cleanup(server.Close)
	l := newLoad(server.URL, 3)
	t.Cleanup(l.close)
	err := l.run(t.Context(), 10, func(n int) request {
		if n%2 == 0 {
			return request{key: "k"}
		}
		return request{}
	})
	if err != nil || calls.Load() != 10 || keys.Load() != 5 {
		t.Errorf("want 10 calls, 5 keyed; got %d, %d, %v", calls.Load(), keys.Load(), err)
	}
}

// A refusal costs less than what is to be measured, and a replay something else: both
// must stop the measurement.
func TestLoadTellsWrongAnswers(t *testing.T) {
	for name, c := range map[string]struct {
		serve http.HandlerFunc
		what  request
	}{
		"refused": {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTooManyRequests) }, request{}},
		"replayed": {func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set(keyed.ReplayedHeader, "true")
			answer(w, r)
		}, request{}},
		"not replayed": {answer, request{key: "k", replayed: true}},
		"no result":    {func(w http.ResponseWriter, _ *http.Request) { w.Write([]byte(`{"error":{}}`)) }, request{}},
	} {
		server := httptest.NewServer(c.serve)
		l := newLoad(server.URL, 2)
		if err := l.run(t.Context(), 4, func(int) request { return c.what }); err == nil || !strings.Contains(err.Error(), "want a result") {
			t.Errorf("%s: want an error, got %v", name, err)
		}
		l.close()
		server.Close()
	}
}

func us(n ...int) (out []time.Duration) {
	for _, v := range n {
		out = append(out, time.Duration(v)*time.Microsecond)
	}
	return out
}

func wantLines(t *testing.T, text string, want ...string) {
	t.Helper()
	for _, line := range want {
		if !strings.Contains(text, line) {
			t.Errorf("want %q in\n%s", line, text)
		}
	}
}

func TestReport(t *testing.T) {
	var out strings.Builder
	report(&out, []benchCase{{name: "bare", requests: 10}, {name: "other", requests: 20, target: "≤ +45"}},
		[][]time.Duration{us(100, 300, 200), us(130, 360, 210)}, 0)
	wantLines(t, out.String(), "bare    3 × 10    200      150–250", "other   3 × 20    210      170–285     +30          +20–+45     ≤ +45")
}

// What stands above two cases is told against each, in the same rounds; without targets
// there is no column of them.
func TestReportOfTwoBases(t *testing.T) {
	var out strings.Builder
	cases := []benchCase{{name: "bare", requests: 1}, {name: "read", requests: 1}, {name: "all", requests: 1}}
	report(&out, cases, [][]time.Duration{us(100, 200), us(150, 260), us(240, 370)}, 1, 0)
	fields := strings.Fields(strings.Split(strings.TrimSpace(out.String()), "\n")[3])
	want := "all 2 × 1 305 272–338 +100 +95–+105 +155 +148–+162"
	if got := strings.Join(fields, " "); got != want {
		t.Errorf("want %q, got %q in\n%s", want, got, &out)
	}
	if strings.Contains(out.String(), "target") {
		t.Errorf("want no targets in\n%s", &out)
	}
}

func TestReportSpeed(t *testing.T) {
	var out strings.Builder
	reportSpeed(&out, []benchCase{{name: "Envoy", requests: 5}, {name: "hostsim", requests: 5}},
		[][]time.Duration{us(200, 250, 400), us(400, 1000, 500)})
	wantLines(t, out.String(), "Envoy     3 × 5     250         225–325     4000                 3250–4500",
		"hostsim   3 × 5     500         450–750     2000                 1500–2250   0.50   0.38–0.65")
}

func TestReportStarts(t *testing.T) {
	var out strings.Builder
	second := func(n int) start { return start{time.Duration(n) * time.Second, time.Duration(2*n) * time.Second} }
	reportStarts(&out, [2][]start{{second(3), second(1), second(2)}, {second(1)}})
	wantLines(t, out.String(), "empty                 3        2000   1500–2500   4000   3000–5000", "of an earlier start   1        1000   1000–1000")
}

func TestQuantile(t *testing.T) {
	for _, c := range []struct {
		sorted []float64
		q      int
		want   float64
	}{{[]float64{7}, 2, 7}, {[]float64{1, 2}, 2, 1.5}, {[]float64{1, 2, 3, 4, 5}, 1, 2}, {[]float64{1, 2, 3, 4, 5}, 3, 4}} {
		if got := quantile(c.sorted, c.q); got != c.want {
			t.Errorf("quartile %d of %v: want %v, got %v", c.q, c.sorted, c.want, got)
		}
	}
}

func TestBadFlags(t *testing.T) {
	for _, args := range [][]string{
		{"-rounds", "-1"}, {"-processes", "0"}, {"-requests", "2"}, {"-requests", "-1"}, {"-connections", "0"}, {"-of", "wages"}, {"more"}, {"-nope"},
	} {
		var stderr strings.Builder
		if code := run(t.Context(), args, &stderr, &stderr); code != 2 || stderr.Len() == 0 {
			t.Errorf("%v: want status 2 and an error, got %d: %s", args, code, &stderr)
		}
	}
	for _, m := range measurements {
		var stderr strings.Builder
		if code := run(t.Context(), []string{"-of", m.name, "-plugin", "/no/such.wasm"}, &stderr, &stderr); code != 1 || !strings.Contains(stderr.String(), "make build") {
			t.Errorf("%s, no filter: want status 1 and how to get one, got %d: %s", m.name, code, &stderr)
		}
	}
}

// subjectOf is a server in this process that is said to use a µs of CPU for each call.
type subjectOf struct {
	*httptest.Server
	calls atomic.Int64
}

func (s *subjectOf) URL() string { return s.Server.URL }
func (s *subjectOf) CPU() (time.Duration, error) {
	return time.Duration(s.calls.Load()) * time.Microsecond, nil
}

func newSubject(t *testing.T) *subjectOf {
	s := &subjectOf{}
	seen := map[string]bool{}
	var mu sync.Mutex
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.calls.Add(1)
		mu.Lock()
		defer mu.Unlock()
		key := r.Header.Get(keyed.Header)
		if key != "" && seen[key] {
			w.Header().Set(keyed.ReplayedHeader, "true")
		}
		seen[key] = true
		answer(w, r)
	}))
	t.Cleanup(s.Close)
	return s
}

// Only what a sample is about is in it, and the warming round is in no result.
func TestMeasure(t *testing.T) {
	s := newSubject(t)
	var pauses int
	cases := []benchCase{
		{name: "first", subject: s, requests: 8, call: first},
		{name: "replay", subject: s, requests: 4, call: repeat},
		{name: "by principal", subject: s, requests: 4, call: func(round, n int) request {
			r := firstOf(2)(round, n)
			r.key += "-of"
			return r
		}},
	}
	samples, err := measure(t.Context(), plan{rounds: 2, connections: 2}, cases, func(context.Context) error { pauses++; return nil })
	if err != nil {
		t.Fatal(err)
	}
	for i, c := range cases {
		if !slices.Equal(samples[i], us(1, 1)) {
			t.Errorf("%s: want two samples of 1 µs a call, got %v", c.name, samples[i])
		}
	}
	if pauses != 2 {
		t.Errorf("want a pause after each round but the last, 2, got %d", pauses)
	}
}

func TestFill(t *testing.T) {
	var mu sync.Mutex
	keys, users := map[string]bool{}, map[string]int{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		mu.Lock()
		defer mu.Unlock()
		keys[r.Header.Get(keyed.Header)] = true
		users[r.Header.Get("X-User")]++
		if !strings.Contains(string(body), `"name":"fill"`) {
			t.Errorf("want a call of fill, got %s", body)
		}
		answer(w, r)
	}))
	t.Cleanup(server.Close)
	if err := fill(t.Context(), server.URL, 30, firstOf(3)); err != nil || len(keys) != 30 || len(users) != 3 || users["user-1"] != 10 {
		t.Errorf("want 30 keys, 10 of each of three users; got %d, %v, %v", len(keys), users, err)
	}
}

// The variants are pieces of text put into the tree as it is now: a change there must
// not turn them into what they do not say.
func TestVariants(t *testing.T) {
	root, err := tools.Root()
	if err != nil {
		t.Fatal(err)
	}
	binary := filepath.Join(t.TempDir(), "hostsim")
	build := exec.Command("go", "build", "-o", binary, "./hostsim/cmd/hostsim")
	build.Dir = root
	if text, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %v\n%s", build.Args, err, text)
	}
	for _, c := range []struct {
		name     string
		edits    []edit
		replayed bool // whether a repeat is
		metric   bool // whether the build counts
	}{{"without the ledger", withoutTheLedger, false, false}, {"counting", countingMisses, true, true}} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			options := hostsimcmd.Options{
				Binary: binary, Plugin: filepath.Join(dir, "out.wasm"), Config: filepath.Join(dir, "config.json"), More: []string{"--cache", ""},
			}
			if err := os.WriteFile(options.Config, []byte(ledgerConfig), 0o600); err != nil {
				t.Fatal(err)
			}
			if err := buildVariant(t.Context(), root, options.Plugin, c.edits); err != nil {
				t.Fatal(err)
			}
			text, err := os.ReadFile(options.Plugin)
			if err != nil || bytes.Contains(text, []byte(missesMetric)) != c.metric {
				t.Errorf("want the text %q in the build %t, %v", missesMetric, c.metric, err)
			}
			server := httptest.NewServer(http.HandlerFunc(answer))
			t.Cleanup(server.Close)
			options.Upstream = server.URL
			h, err := hostsimcmd.Start(t.Context(), options)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(h.Stop)
			l := newLoad(h.URL(), 1)
			t.Cleanup(l.close)
			for n := range 2 {
				if err := l.run(t.Context(), 1, func(int) request { return request{key: "k", user: "u", replayed: c.replayed && n == 1} }); err != nil {
					t.Errorf("call %d: %v", n+1, err)
				}
			}
		})
	}
}

func TestPatchedTellsWhatIsNotThere(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "f"), []byte("one two two"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ file, old, want string }{
		{"f", "two", "found it 2 times"}, {"f", "three", "found it 0 times"}, {"g", "one", "no such file"},
	} {
		if _, err := patched(dir, []edit{{c.file, c.old, "x"}}); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q in %s: want an error with %q, got %v", c.old, c.file, c.want, err)
		}
	}
	files, err := patched(dir, []edit{{"f", "one", "1"}, {"f", "1 two", "1 2"}})
	if err != nil || string(files["f"]) != "1 2 two" {
		t.Errorf(`want edits of one file on top of each other, "1 2 two", got %q, %v`, files["f"], err)
	}
}

func TestProcessCPU(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("read on Linux only")
	}
	own := func() time.Duration {
		used, err := child.CPU(os.Getpid())
		if err != nil {
			t.Fatal(err)
		}
		return used
	}
	before := own()
	for sum, i := 0, 0; own() == before; i++ {
		sum += i
	}
	if _, err := child.CPU(1 << 24); err == nil {
		t.Error("a process that is not there: want an error")
	}
}
