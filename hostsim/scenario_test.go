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
type scenario struct {
	name    string
	intro   []string // comments, options and request, as written
	options map[string]string
	method  string
	path    string
	plan    string
	headers []string
	want    []string
}

func readScenario(t *testing.T, file string) *scenario {
	t.Helper()
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	s := &scenario{name: strings.TrimSuffix(filepath.Base(file), ".txt"), options: map[string]string{}}
	intro, want, _ := strings.Cut(string(b), "----\n")
	s.intro = strings.Split(strings.TrimRight(intro, "\n"), "\n")
	if want != "" {
		s.want = strings.Split(strings.TrimRight(want, "\n"), "\n")
	}
	for _, l := range s.intro {
		key, value, ok := strings.Cut(l, ": ")
		switch {
		case l == "" || strings.HasPrefix(l, "#"):
		case !ok:
			s.method, s.path, _ = strings.Cut(l, " ")
		case key == "plan":
			s.plan = value
		case key == "header":
			s.headers = append(s.headers, value)
		default:
			s.options[key] = value
		}
	}
	if s.method == "" || s.path == "" {
		t.Fatalf("%s: no request line", file)
	}
	return s
}

// pieces are the bytes that the client sends, to be written one after another with a pause between.
func (s *scenario) pieces() []string {
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

// play runs the client's part and says what the client saw.
func (s *scenario) play(t *testing.T, st stage) []string {
	t.Helper()
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
		return c.answer(s.method).describe()
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
			pairs = slices.DeleteFunc(pairs, func(p string) bool { return strings.HasPrefix(p, `["x-do"`) })
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

// stage is where scenarios play: hostsim, or Envoy.
type stage interface {
	address() string
	upstream() *upstream
	// peek returns the lines that the stream of that name has logged so far.
	peek(t *testing.T, name string) []string
	// lines waits until the stream of that name has ended, and returns its lines.
	lines(t *testing.T, name string) []string
}

type simStage struct{ r *rig }

func (s simStage) address() string                          { return s.r.address }
func (s simStage) upstream() *upstream                      { return s.r.up }
func (s simStage) peek(_ *testing.T, name string) []string  { return s.r.book.all(name + " ") }
func (s simStage) lines(t *testing.T, name string) []string { return s.r.end(name) }

const (
	scenarioTimeout = 1500 * time.Millisecond
	scenarioIdle    = 2500 * time.Millisecond
)

// simFor builds a host with the options that the scenario names; scenarios with equal options share one.
func simFor(t *testing.T, s *scenario) stage {
	r := newRig(t, func(c *Config, o *ProxyOptions) {
		c.HoldHeaders = s.options["hold"] != "no"
		c.PluginConfig = []byte(scenarioConfig)
		c.FailReload = true
		c.Properties = map[string][]byte{
			"xds.route_name": []byte("theroute"), "xds.cluster_name": []byte("up"), "xds.virtual_host_name": []byte("vh"),
			"xds.route_metadata.filter_metadata.cc.policy": []byte("pay"),
		}
		o.Trailers = s.options["trailers"] == "yes"
		o.ResponseTimeout, o.IdleTimeout = scenarioTimeout, scenarioIdle
	})
	if s.path == "/dead" {
		// A second proxy on the same host leads nowhere.
		r.proxy.pool.address = deadAddress(t)
	}
	return simStage{r}
}

const scenarioConfig = "start register probe\nstart every 300\n"

func (s *scenario) key() string {
	return fmt.Sprint(s.options["hold"], s.options["trailers"], s.path == "/dead")
}

func TestScenarios(t *testing.T) { runScenarios(t, simFor, true) }

// runScenarios plays every file in testdata/scenarios on a stage and compares with what the file has recorded.
func runScenarios(t *testing.T, stageFor func(*testing.T, *scenario) stage, mayRewrite bool) {
	files, err := filepath.Glob("testdata/scenarios/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no scenarios: %v", err)
	}
	stages := map[string]stage{}
	for _, f := range files {
		s := readScenario(t, f)
		st := stages[s.key()]
		if st == nil || s.options["alone"] == "yes" {
			st = stageFor(t, s)
			if s.options["alone"] != "yes" {
				stages[s.key()] = st
			}
		}
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			client := s.play(t, st)
			got := append(tidy(st.lines(t, s.name), s.options["size"] != "" || s.path == "/endless"), client...)
			if *rewrite && mayRewrite {
				text := strings.Join(s.intro, "\n") + "\n----\n" + strings.Join(got, "\n") + "\n"
				if err := os.WriteFile(f, []byte(text), 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			if !slices.Equal(got, s.want) {
				t.Errorf("got\n  %s\nwant\n  %s", strings.Join(got, "\n  "), strings.Join(s.want, "\n  "))
			}
		})
	}
}
