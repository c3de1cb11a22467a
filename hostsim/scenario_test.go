package hostsim

import (
	"flag"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

var rewrite = flag.Bool("rewrite", false, "record what the scenarios show")

// A scenario is a file: comment lines (#), options ("hold: no"), a request, and what the module and the client saw.
//
//	POST /ok
//	plan: rh pause; rb pause
//	header: x-m: one
//	body: text            one piece, with a content-length
//	chunks: aa | bb       chunked, in pieces
//	size: 2000000         so many bytes
//	split: yes            head and body apart
//	leave: sb             the client leaves once the module has come to that callback
//	open: re              what follows "then" happens while this request is where it has come to that callback
//	ends: no              the module is not told of the stream's end
//	send: bytes           exactly these, as in a Go string and with NAME for the scenario's, in place of all the above
//	answer: bytes         what the server answers on /raw, in pieces that " | " parts; "CLOSE" or "RESET" is the last one
//	last: text            the module has more to say after the stream's end, up to a line that begins so
//	upstream: http2       the server speaks HTTP/2, unencrypted
//	then                  another request follows, with options of its own
//	wait: 1200ms          … after so long
//	configure: a; b       … once the plugin has been given this configuration, and has taken or refused it
//
// What was seen stands below a line "----". Where an older Envoy is known to differ, what it shows stands below one more line:
// "---- 1.36: the reason"; where hostsim itself does, below "---- hostsim: the reason". README.md lists all of these.
type scenario struct {
	name  string
	intro []string // comments, options and requests, as written
	acts  []*act
	want  []string
	older []olderWant
	tail  string // the text of older
}

// act is one request of a scenario.
type act struct {
	name    string
	options map[string]string
	method  string
	path    string
	plan    string
	headers []string
}

// olderWant is what an older Envoy shows instead, and why.
type olderWant struct {
	version, reason string
	want            []string
}

func readScenario(t *testing.T, file string) *scenario {
	t.Helper()
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	s := &scenario{name: strings.TrimSuffix(filepath.Base(file), ".txt")}
	intro, rest, _ := strings.Cut(string(b), "----\n")
	want, older, _ := strings.Cut(rest, "---- ")
	s.intro = lines(intro)
	s.want = lines(want)
	for older != "" {
		var section string
		s.tail += "---- "
		section, older, _ = strings.Cut(older, "---- ")
		s.tail += section
		title, text, _ := strings.Cut(section, "\n")
		version, reason, ok := strings.Cut(title, ": ")
		if !ok || reason == "" {
			t.Fatalf("%s: want \"---- VERSION: REASON\", found %q", file, title)
		}
		s.older = append(s.older, olderWant{version, reason, lines(text)})
	}
	s.acts = []*act{newAct(s.name)}
	for _, l := range s.intro {
		a := s.acts[len(s.acts)-1]
		key, value, ok := strings.Cut(l, ": ")
		switch {
		case l == "" || strings.HasPrefix(l, "#"):
		case l == "then":
			s.acts = append(s.acts, newAct(fmt.Sprint(s.name, "-", len(s.acts)+1)))
		case !ok:
			a.method, a.path, _ = strings.Cut(l, " ")
		case key == "plan":
			a.plan = value
		case key == "header":
			a.headers = append(a.headers, value)
		default:
			a.options[key] = value
		}
	}
	for _, a := range s.acts {
		if a.method == "" || a.path == "" {
			t.Fatalf("%s: no request line", file)
		}
	}
	return s
}

func newAct(name string) *act { return &act{name: name, options: map[string]string{}} }

func lines(text string) []string {
	if text = strings.TrimRight(text, "\n"); text == "" {
		return nil
	}
	return strings.Split(text, "\n")
}

// pieces are the bytes that the client sends, to be written one after another with a pause between.
func (s *act) pieces() []string {
	if raw := s.options["send"]; raw != "" {
		return s.rawPieces(raw)
	}
	var head strings.Builder
	fmt.Fprintf(&head, "%s %s HTTP/1.1\r\nhost: h.example\r\nuser-agent: t\r\nx-name: %s\r\nx-do: %s\r\n", s.method, s.path, s.name, s.plan)
	for _, h := range s.headers {
		head.WriteString(h + "\r\n")
	}
	body, isBody := s.options["body"]
	if size, ok := s.options["size"]; ok {
		n := 0
		fmt.Sscan(size, &n)
		body, isBody = strings.Repeat("x", n), true
	}
	var parts []string
	if chunks, ok := s.options["chunks"]; ok {
		head.WriteString("transfer-encoding: chunked\r\n")
		for _, c := range strings.Split(chunks, " | ") {
			if c = strings.TrimSpace(c); c != "" {
				parts = append(parts, fmt.Sprintf("%x\r\n%s\r\n", len(c), c))
			}
		}
		last := "0\r\n"
		if t := s.options["trailer"]; t != "" {
			last += t + "\r\n"
		}
		parts = append(parts, last+"\r\n")
	} else if isBody {
		fmt.Fprintf(&head, "content-length: %d\r\n", len(body))
		if short := s.options["short"]; short != "" {
			body = body[:len(body)/2]
		}
		parts = append(parts, body)
	}
	head.WriteString("\r\n")
	if s.options["split"] == "yes" {
		return append([]string{head.String()}, parts...)
	}
	return []string{head.String() + strings.Join(parts, "")}
}

// piecePause bounds the wait for the module to see one piece before the next is sent. Where it does not see them it keeps them apart.
const piecePause = 300 * time.Millisecond

// waitFor returns when the module has logged n lines of that stream that begin with prefix, or the time has passed.
func waitFor(t *testing.T, st stage, name, prefix string, n int, d time.Duration) bool {
	t.Helper()
	for deadline := time.Now().Add(d); time.Now().Before(deadline); time.Sleep(5 * time.Millisecond) {
		seen := 0
		for _, l := range st.peek(t, name) {
			if strings.HasPrefix(l, prefix) && strings.Contains(l, "end=") {
				seen++
			}
		}
		if seen >= n {
			return true
		}
	}
	return false
}

// lineFor waits for a line of that stream that begins so.
func lineFor(t *testing.T, st stage, name, prefix string) bool {
	t.Helper()
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); time.Sleep(5 * time.Millisecond) {
		if hasPrefix(st.peek(t, name), prefix) {
			return true
		}
	}
	return false
}

// play runs all requests and says what the module and the clients saw.
func (s *scenario) play(t *testing.T, st stage) []string {
	t.Helper()
	out := make([][]string, len(s.acts))
	var open sync.WaitGroup
	defer open.Wait()
	for i, a := range s.acts {
		if d, err := time.ParseDuration(a.options["wait"]); err == nil {
			time.Sleep(d)
		}
		if c := a.options["configure"]; c != "" {
			st.configure(t, strings.ReplaceAll(c, "; ", "\n")+"\n")
		}
		run := func() {
			client := a.play(t, st)
			seen := st.lines
			if last := a.options["last"]; last != "" && !lineFor(t, st, a.name, last) {
				t.Errorf("the module never said %q", last)
			}
			if a.options["ends"] == "no" || a.options["send"] != "" && !waitFor(t, st, a.name, "", 1, piecePause) {
				seen = st.peek
				time.Sleep(piecePause)
			}
			out[i] = append(tidy(seen(t, a.name), a.options["size"] != "" || a.path == "/endless"), client...)
		}
		where := a.options["open"]
		if where == "" {
			run()
			continue
		}
		open.Go(run)
		if !waitFor(t, st, a.name, where, 1, patience) {
			t.Errorf("the module never came to %s of %s", where, a.name)
		}
	}
	open.Wait()
	for i, more := range out {
		for j := range more {
			if i > 0 {
				more[j] = fmt.Sprintf("%d: %s", i+1, more[j])
			}
		}
	}
	all := slices.Concat(out...)
	if s.reconfigures() {
		for _, prefix := range []string{"start ctx=", "plugin_done "} {
			seen := st.peekRaw(t, prefix)
			slices.Sort(seen) // threads log in no order
			for _, l := range seen {
				all = append(all, "plugin: "+prefix+l)
			}
		}
	}
	return all
}

func (s *scenario) reconfigures() bool {
	return slices.ContainsFunc(s.acts, func(a *act) bool { return a.options["configure"] != "" })
}

// play runs the client's part of one request and says what the client saw.
func (s *act) play(t *testing.T, st stage) []string {
	t.Helper()
	s.script(t, st)
	c := dial(t, st.address())
	for i, p := range s.pieces() {
		if i > 0 {
			waitFor(t, st, s.name, "r", i, piecePause)
		}
		c.send(p)
	}
	switch leave := s.options["leave"]; leave {
	case "":
		ack := st.upstream().ack(s.name)
		c.received = func() {
			select {
			case ack <- struct{}{}:
			default:
			}
		}
		if s.options["send"] != "" {
			return c.rawAnswers(s.method)
		}
		return append(c.answer(s.method).describe(), s.server(st)...)
	case "unanswered":
		c.SetReadDeadline(time.Now().Add(2 * piecePause))
		if n, err := c.Read(make([]byte, 1)); n > 0 || err == nil {
			return []string{"client: got an answer"}
		} else if ne, ok := err.(net.Error); !ok || !ne.Timeout() {
			return []string{fmt.Sprintf("client: %v", err)}
		}
		c.Close()
		return []string{"client: no answer, left"}
	default:
		if !waitFor(t, st, s.name, leave, 1, patience) {
			t.Fatalf("the module never came to %s", leave)
		}
		c.Close()
		return []string{"client: left"}
	}
}

// describe leaves out what differs from run to run and from server to server.
func (a answer) describe() []string {
	if a.status == 0 {
		return []string{"client: no response"}
	}
	out := []string{fmt.Sprintf("client: %d", a.status)}
	var names []string
	for n := range a.header {
		names = append(names, n)
	}
	slices.Sort(names)
	for _, n := range names {
		switch n {
		case "Date", "Server", "X-Envoy-Upstream-Service-Time", "Connection":
		default:
			out = append(out, fmt.Sprintf("client: %s: %s", strings.ToLower(n), strings.Join(a.header[n], ", ")))
		}
	}
	if a.body != "" {
		out = append(out, "client: | "+a.body)
	}
	if a.err != nil {
		out = append(out, "client: cut short")
	}
	return out
}

var (
	uuid  = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`)
	spent = regexp.MustCompile(`(x-envoy-upstream-service-time" )"\d+"`)
	sizes = regexp.MustCompile(`^([rs]b) size=\d+ end=false$`)
	pair  = regexp.MustCompile(`\["(?:[^"\\]|\\.)*" "(?:[^"\\]|\\.)*"\]`)
)

// tidy makes the probe's lines comparable: random values out, headers sorted (net/http does not keep their order), pieces of which
// the number depends on luck as one.
func tidy(lines []string, luck bool) []string {
	var out []string
	for _, l := range lines {
		l = spent.ReplaceAllString(uuid.ReplaceAllString(l, "ID"), `$1"T"`)
		if head, rest, ok := strings.Cut(l, "-> [["); ok {
			pairs := pair.FindAllString("["+rest, -1)
			pairs = slices.DeleteFunc(pairs, func(p string) bool { return strings.HasPrefix(p, `["x-do"`) || strings.HasPrefix(p, `["date"`) })
			slices.Sort(pairs)
			l = head + "-> " + strings.Join(pairs, " ")
		}
		if luck {
			l = sizes.ReplaceAllString(l, "$1 size=… end=false")
			if len(out) > 0 && out[len(out)-1] == l {
				continue
			}
		}
		out = append(out, l)
	}
	return out
}

func (s *scenario) key() string {
	o := s.acts[0].options
	return fmt.Sprint(o["hold"], o["trailers"], o["upstream"], s.acts[0].path == "/dead")
}

func TestScenarios(t *testing.T) { runScenarios(t, simFor, "") }

// runScenarios plays every file in testdata/scenarios on a stage and compares with what the file has recorded for that version of
// Envoy; "" is hostsim, which follows the newest.
func runScenarios(t *testing.T, stageFor func(*testing.T, *scenario) stage, version string) {
	files, err := filepath.Glob("testdata/scenarios/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no scenarios: %v", err)
	}
	var differ []string
	// A stage is started by the first scenario that is played on it, and by none that -run leaves out.
	stages := map[string]func() stage{}
	for _, f := range files {
		s := readScenario(t, f)
		alone := s.acts[0].options["alone"] == "yes" || s.reconfigures()
		start := stages[s.key()]
		if start == nil && !alone {
			start = once(func() stage { return stageFor(t, s) })
			stages[s.key()] = start
		}
		want, reason := s.wanted(version)
		if reason != "" {
			differ = append(differ, fmt.Sprintf("%s (%s)", s.name, reason))
		}
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			if alone {
				start = func() stage { return stageFor(t, s) }
			}
			on := start()
			if on == nil {
				t.Fatal("its stage has not started: see the first scenario on it")
			}
			got := s.play(t, on)
			if *rewrite && reason == "" {
				text := strings.Join(s.intro, "\n") + "\n----\n" + strings.Join(got, "\n") + "\n" + s.tail
				if err := os.WriteFile(f, []byte(text), 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			if !slices.Equal(got, want) {
				t.Errorf("got\n  %s\nwant\n  %s", strings.Join(got, "\n  "), strings.Join(want, "\n  "))
			}
			if reason != "" && slices.Equal(got, s.want) {
				t.Errorf("%q is recorded to differ (%s), and does not", version, reason)
			}
		})
	}
	if version != "" {
		// A cleanup comes after the parallel scenarios.
		t.Cleanup(func() {
			if !t.Failed() {
				t.Logf("Envoy %s: %d scenarios, %d equal, known to differ: %q", version, len(files), len(files)-len(differ), differ)
			}
		})
	}
}

// once starts a stage at the first call. Where that fails, which ends the goroutine of the first scenario, the others get nil: a panic
// in their place, as sync.OnceValue has it, would end all tests and leave their Envoys behind.
func once(start func() stage) func() stage {
	var first sync.Once
	var on stage
	return func() stage {
		first.Do(func() { on = start() })
		return on
	}
}

// wanted is what a version of Envoy shows, and why, if that is known to differ from what the newest shows.
func (s *scenario) wanted(version string) (want []string, reason string) {
	for _, o := range s.older {
		if strings.HasPrefix(version, o.version+".") || version == "" && o.version == "hostsim" {
			return o.want, o.reason
		}
	}
	return s.want, ""
}
