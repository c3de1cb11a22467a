package main

import (
	"bytes"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/callonce/callonce/e2e/child"
	"github.com/callonce/callonce/e2e/tools"
)

func TestEstimate(t *testing.T) {
	for _, c := range []struct {
		values      []float64
		median, err float64
	}{
		{[]float64{3, 1, 2}, 2, math.Sqrt(math.Pi / 2 / 3)},
		{[]float64{1, 2, 3, 100}, 2.5, math.Sqrt(math.Pi / 2 * (25.5*25.5 + 24.5*24.5 + 23.5*23.5 + 73.5*73.5) / 3 / 4)},
		{[]float64{5, 5}, 5, 0},
	} {
		got := estimateOf(c.values)
		if got.median != c.median || math.Abs(got.err-c.err) > 1e-9 || got.processes != len(c.values) {
			t.Errorf("%v: want %v ± %v, got %+v", c.values, c.median, c.err, got)
		}
	}
	if got := estimateOf([]float64{7}).text("%.0f"); got != "7\t?" {
		t.Errorf("one process says nothing of others: want a question mark, got %q", got)
	}
	if got := estimateOf(nil); !math.IsNaN(got.median) {
		t.Errorf("no process: want no number, got %+v", got)
	}
	values := []float64{3, 1, 2}
	if estimateOf(values); !slices.Equal(values, []float64{3, 1, 2}) {
		t.Errorf("want the values in the order of the waves still, got %v", values)
	}
}

// The standard error is what the medians of many runs differ by.
func TestStandardErrorIsTheSpreadOfMedians(t *testing.T) {
	// A normal distribution by its quantiles, shuffled.
	const n, runs = 25, 400
	random := newRandom(7)
	var medians, errs []float64
	for range runs {
		var values []float64
		for range n {
			values = append(values, 100+10*random.NormFloat64())
		}
		e := estimateOf(values)
		medians, errs = append(medians, e.median), append(errs, e.err)
	}
	var squares float64
	for _, m := range medians {
		squares += (m - 100) * (m - 100)
	}
	spread := math.Sqrt(squares / runs)
	if said := median(errs); math.Abs(said/spread-1) > 0.15 {
		t.Errorf("want a standard error near the spread of medians, %.2f, got %.2f", spread, said)
	}
}

// Each wave starts each build once, each round takes each one's samples once, in orders that differ and that a seed repeats.
func TestOrders(t *testing.T) {
	starts, rows := orders(3, 6, 4, 5)
	if len(starts) != 6 || len(rows) != 6 || len(rows[0]) != 4 {
		t.Fatalf("want 6 waves of 4 rounds, got %d, %d of %d", len(starts), len(rows), len(rows[0]))
	}
	seen := map[string]bool{}
	for _, order := range slices.Concat(append([][][]int{starts}, rows...)...) {
		if sorted := slices.Sorted(slices.Values(order)); !slices.Equal(sorted, []int{0, 1, 2, 3, 4}) {
			t.Errorf("want each build once, got %v", order)
		}
		seen[fmt.Sprint(order)] = true
	}
	if len(seen) < 10 {
		t.Errorf("want other orders in other waves, got %d of 30", len(seen))
	}
	again, _ := orders(3, 6, 4, 5)
	other, _ := orders(4, 6, 4, 5)
	if !slices.EqualFunc(starts, again, slices.Equal) || slices.EqualFunc(starts, other, slices.Equal) {
		t.Errorf("want the same order of the same seed only: %v, %v, %v", starts, again, other)
	}
}

// wavesOf are samples of builds with one case: in each wave, the workers' and the process's time.
func wavesOf(builds ...[]float64) (s samples) {
	for _, values := range builds {
		var of []reading
		for _, v := range values {
			of = append(of, reading{Workers: v, Process: 2 * v, Beside: 3 * v})
		}
		s = append(s, [][]reading{of})
	}
	return s
}

func TestReportWaves(t *testing.T) {
	var out strings.Builder
	builds := []build{{name: "none", cases: []waveCase{{name: "call"}}}, {name: "peer", external: true, cases: []waveCase{{name: "call"}}},
		{name: "callonce", cases: []waveCase{{name: "first", aim: "≤ +9"}}}}
	reportWaves(&out, builds, wavesOf([]float64{10, 20, 30}, []float64{15, 25, 35}, []float64{30, 40, 56}))
	rows := map[string]string{}
	for line := range strings.Lines(out.String()) {
		fields := strings.Fields(line)
		rows[fields[0]] = strings.Join(fields[1:], " ")
	}
	// What the waves have in common is not in the error of a difference.
	for name, want := range map[string]string{
		"none":     "call 20.0 ±7.2 40.0 ±14.5",
		"peer":     "call 25.0 ±7.2 +5.0 ±0.0 50.0 ±14.5 +10.0 ±0.0 75.0 ±21.7",
		"callonce": "first 40.0 ±9.5 +20.0 ±2.5 80.0 ±19.0 +40.0 ±5.0 ≤ +9",
	} {
		if rows[name] != want {
			t.Errorf("%s: want %q, got %q in\n%s", name, want, rows[name], &out)
		}
	}
}

func TestReportDifferences(t *testing.T) {
	var out strings.Builder
	builds := []build{{name: "new", cases: []waveCase{{name: "first"}}}, {name: "old", cases: []waveCase{{name: "first"}}}}
	reportDifferences(&out, builds, wavesOf([]float64{10, 21, 33}, []float64{15, 25, 35}))
	wantLines(t, out.String(), "new less old, in the same waves")
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	if got := strings.Join(strings.Fields(lines[len(lines)-1]), " "); got != "first -4.0 ±1.1 -8.0 ±2.2 3.6" {
		t.Errorf("want the median of differences in the same waves, got %q", got)
	}
}

// A file keeps waves for the next run of the same builds, and for no other.
func TestResume(t *testing.T) {
	file := filepath.Join(t.TempDir(), "waves.json")
	builds := []build{{name: "none", cases: []waveCase{{name: "call"}}}, {name: "callonce", workers: 2, cases: []waveCase{{name: "first"}}}}
	if of, done, err := resume(file, builds); err != nil || done != 0 || len(of) != 2 || len(of[1]) != 1 {
		t.Errorf("no file yet: want room for each case, got %v, %d, %v", of, done, err)
	}
	want := wavesOf([]float64{1, 2, 3}, []float64{4, 5, 6})
	if err := suspend(file, builds, want); err != nil {
		t.Fatal(err)
	}
	of, done, err := resume(file, builds)
	if err != nil || done != 3 || fmt.Sprint(of) != fmt.Sprint(want) {
		t.Errorf("want %v, of 3 waves, got %v, %d, %v", want, of, done, err)
	}
	builds[1].workers = 4
	if _, _, err := resume(file, builds); err == nil || !strings.Contains(err.Error(), "callonce, 2, first") {
		t.Errorf("waves of other builds: want an error, got %v", err)
	}
}

func TestMedianReading(t *testing.T) {
	got := medianReading([]reading{{1, 20, 5}, {3, 10, 4}, {2, 30, 9}})
	if got != (reading{2, 20, 5}) {
		t.Errorf("want the median of each number, got %+v", got)
	}
}

func TestChart(t *testing.T) {
	c := chart{name: "body", title: `Cost of <a> & "b"`, x: "body", label: bytesText, at: []int{400, 2048, 8192}, logY: true, series: []series{
		{"one", []estimate{{10, 1, 6}, {20, math.NaN(), 1}, {400, 500, 6}}},
		{"other", []estimate{{-3, 1, 6}, {math.NaN(), math.NaN(), 0}, {7, 1, 6}}},
		{"nothing", []estimate{{-3, 1, 6}, {-3, 1, 6}, {-3, 1, 6}}},
	}}
	for _, logY := range []bool{true, false} {
		c.logY = logY
		var out strings.Builder
		dir := filepath.Join(t.TempDir(), "plots")
		if err := c.report(&out, dir); err != nil {
			t.Fatal(err)
		}
		text, err := os.ReadFile(filepath.Join(dir, "body.svg"))
		if err != nil {
			t.Fatal(err)
		}
		wantSVG(t, text, "Cost of <a> & \"b\"", "body", "CPU time above none, µs a request", "2 KiB", "one", "other")
		rows := strings.Split(strings.TrimSpace(out.String()), "\n")
		if got := strings.Join(strings.Fields(rows[2]), " "); got != "2 KiB +20.0 ? +NaN ? -3.0 ±1.0" {
			t.Errorf("want a row of the table, got %q in\n%s", got, &out)
		}
	}
}

// wantSVG judges a drawing: that it is XML, has texts, and colours for both of a reader's themes.
func wantSVG(t *testing.T, text []byte, want ...string) {
	t.Helper()
	texts := map[string]bool{}
	top := ""
	for d := xml.NewDecoder(bytes.NewReader(text)); ; {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatalf("not XML: %v\n%s", err, text)
		}
		switch token := token.(type) {
		case xml.StartElement:
			if top == "" {
				top = token.Name.Local
			}
		case xml.CharData:
			texts[string(token)] = true
		}
	}
	if top != "svg" {
		t.Errorf("want a drawing, got the element %q", top)
	}
	for _, w := range want {
		if !texts[w] {
			t.Errorf("want the text %q in the drawing", w)
		}
	}
	if !bytes.Contains(text, []byte("prefers-color-scheme:dark")) {
		t.Error("want colours for a dark ground too")
	}
	// What the dark ones stand in for is drawn with these.
	for _, part := range []string{"fill:#FFFFFF", "stroke:#000000", "stroke:#D8D8D8"} {
		if bytes.Count(text, []byte(part)) < 2 {
			t.Errorf("want %s in the drawing and in its theme", part)
		}
	}
}

// What is in the folder of plots was drawn by this program, and the page shows it.
func TestPlots(t *testing.T) {
	root, err := tools.Root()
	if err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile(filepath.Join(root, "docs", "measurements.md"))
	if err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob(filepath.Join(root, "docs", "plots", "*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		name := filepath.Base(file)
		if !bytes.Contains(page, []byte("(plots/"+name+")")) {
			t.Errorf("docs/measurements.md does not show plots/%s", name)
		}
		if !slices.ContainsFunc(plotted(), func(m measurement) bool { return m.name+".svg" == name }) {
			t.Errorf("docs/plots/%s: no measurement draws it", name)
		}
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		wantSVG(t, text, "CPU time above none, µs a request")
	}
}

func TestSpelling(t *testing.T) {
	for got, want := range map[string]string{
		thousands(7): "7", thousands(1000): "1,000", thousands(65536): "65,536", thousands(1234567): "1,234,567", thousands(-1000): "-1,000",
		bytesText(400): "400 B", bytesText(2 << 10): "2 KiB", bytesText(512 << 10): "512 KiB",
	} {
		if got != want {
			t.Errorf("want %q, got %q", want, got)
		}
	}
	for _, size := range sweepSizes {
		if n, m := len(grown(call, size)), len(grown(result, size)); n != size || m != size {
			t.Errorf("want a call and an answer of %d bytes, got %d and %d", size, n, m)
		}
	}
}

// A filter of another commit is built as it was, and nothing is left behind.
func TestBuildCommit(t *testing.T) {
	dir := t.TempDir()
	git := func(args ...string) {
		t.Helper()
		cmd := exec.Command("git", append([]string{"-C", dir, "-c", "user.name=n", "-c", "user.email=e@example.com"}, args...)...)
		if text, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v: %v\n%s", cmd.Args, err, text)
		}
	}
	write := func(name, text string) {
		t.Helper()
		if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	git("init", "-q")
	write("go.mod", "module example.com/m\n\ngo 1.26.0\n")
	write("plugin/main.go", "package main\n\nfunc main() { println(\"the old one\") }\n")
	git("add", ".")
	git("commit", "-q", "-m", "one")
	write("plugin/main.go", "package main\n\nfunc main() { println(\"the new one\") }\n")
	out := filepath.Join(t.TempDir(), "old.wasm")
	name, err := buildCommit(t.Context(), dir, "HEAD", out)
	if err != nil || len(name) < 7 {
		t.Fatalf("want the commit's short name, got %q, %v", name, err)
	}
	text, err := os.ReadFile(out)
	if err != nil || !bytes.Contains(text, []byte("the old one")) || bytes.Contains(text, []byte("the new one")) {
		t.Errorf("want the filter as it was committed, %v", err)
	}
	trees, err := exec.Command("git", "-C", dir, "worktree", "list").Output()
	if err != nil || bytes.Count(trees, []byte("\n")) != 1 {
		t.Errorf("want no work tree left behind, got %s, %v", trees, err)
	}
	if _, err := buildCommit(t.Context(), dir, "no-such", out); err == nil || !strings.Contains(err.Error(), "git rev-parse") {
		t.Errorf("a commit that is not there: want an error, got %v", err)
	}
}

// An hour's calls: every fourth repeats the one before it on its connection, and no other key comes twice.
func TestHour(t *testing.T) {
	s := newSubject(t)
	if err := hour(t.Context(), s.URL(), plan{hour: 64, connections: 4}, true); err != nil {
		t.Error(err)
	}
	if s.calls.Load() != 64 {
		t.Errorf("want 64 calls, got %d", s.calls.Load())
	}
}

// As many calls wait as were asked for, and end when they are told to.
func TestHolder(t *testing.T) {
	h := &holder{ended: make(chan struct{})}
	server := h.server()
	t.Cleanup(server.Close)
	t.Cleanup(h.release)
	for _, n := range []int{1, 30, 600} {
		if err := h.open(t.Context(), server.URL, false, n); err != nil {
			t.Fatal(err)
		}
		held, ok := h.held.Load(strings.TrimPrefix(server.URL, "http://"))
		if !ok || held.(*atomic.Int64).Load() != int64(n) {
			t.Errorf("want %d calls to wait, got %v", n, held)
		}
	}
	if err := h.close(); err != nil {
		t.Errorf("want none answered before, got %v", err)
	}
	refusing := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTooManyRequests) }))
	refusing.Config.Protocols = new(http.Protocols)
	refusing.Config.Protocols.SetUnencryptedHTTP2(true)
	refusing.Start()
	t.Cleanup(refusing.Close)
	if err := h.open(t.Context(), refusing.URL, true, 1); err == nil || !strings.Contains(err.Error(), "429") {
		t.Errorf("want an error that a call was answered, got %v", err)
	}
}

func TestModuleFlags(t *testing.T) {
	for _, bad := range []string{"x", "=file", "name="} {
		var stderr strings.Builder
		if code := run(t.Context(), []string{"-module", bad}, &stderr, &stderr); code != 2 {
			t.Errorf("-module %s: want status 2, got %d: %s", bad, code, &stderr)
		}
	}
	for _, name := range []string{"callonce", "empty", "lua"} {
		dir := t.TempDir()
		file := filepath.Join(dir, "f.wasm")
		if err := os.WriteFile(file, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := distinct([]module{{"empty", file}, {"callonce", file}, {name, file}}); err == nil {
			t.Errorf("two builds called %s: want an error", name)
		}
	}
	if err := distinct([]module{{"empty", ""}, {"callonce", ""}, {"sdk", ""}}); err != nil {
		t.Error(err)
	}
}

// The whole way on a real Envoy, with numbers that say nothing.
func TestSmoke(t *testing.T) {
	root, err := tools.Root()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := child.CPU(os.Getpid()); err != nil {
		t.Skip(err)
	}
	plugin := filepath.Join(root, "dist", "callonce.wasm")
	if _, err := os.Stat(plugin); err != nil {
		t.Fatalf("want the compiled filter (make build makes it): %v", err)
	}
	small := []string{"-processes", "1", "-rounds", "1", "-requests", "8", "-warm", "4", "-canonical=false", "-plugin", plugin}
	for of, want := range map[string][]string{
		"request": {"Module empty: ", "none", "lua", "ext_proc", "call without a key, read", "guarded call, the first", "replay", "callonce less other"},
		"reply":   {"Cost by the length of the answer", "512 KiB", "callonce, replay", "other, replay"},
	} {
		t.Run(of, func(t *testing.T) {
			var stdout, stderr strings.Builder
			began := time.Now()
			if code := run(t.Context(), append([]string{"-of", of, "-module", "other=" + plugin}, small...), &stdout, &stderr); code != 0 {
				t.Fatalf("status %d: %s\n%s", code, &stderr, &stdout)
			}
			wantLines(t, stdout.String(), want...)
			t.Logf("%v\n%s", time.Since(began), &stdout)
		})
	}
}
