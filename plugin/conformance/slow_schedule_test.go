package conformance

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/callonce/callonce/hostsim"
	"github.com/callonce/callonce/hostsim/schedule"
)

var (
	slowSchedules = flag.Int("slow-schedules", 150, "random schedules of calls that take long, with and without detach")
	slowFrom      = flag.Uint64("slow-from", 1, "the seed of the first of them: with one schedule, the one that a failure names")
)

const (
	slowPatience = 4 * time.Second
	slowLease    = 3 * time.Second
)

// slowPlay is one run: repeats of one call on two workers, clients that leave, a server that answers, refuses or breaks down, a worker that
// may die, and a clock.
type slowPlay struct {
	detach   bool
	arrived  []*hostsim.Arrival
	answered map[int]bool
	leaving  int
	checked  bool // to the end
	breaks   bool // the server may
	slow     int  // seconds before the server says anything
	ran      int  // calls that the server has run, or may have
	kept     bool // one of them was answered whole
	clients  []*slowClient
	seconds  int
	after    int // seconds after all clients have their word
	last     *hostsim.Reply
	asked    bool
}

type slowClient struct {
	stream *hostsim.Stream
	worker int
	begun  time.Duration
	left   bool
	done   bool
	ended  time.Duration
	reply  hostsim.Reply
	served int // what had reached the server when it began
}

const slowClients = 5

func (p *slowPlay) config() string {
	member := `"on_in_flight":"wait"`
	if p.detach {
		member = `"on_disconnect":"continue"`
	}
	return fmt.Sprintf(`{"policies":{"p":{"reply":"http","server":"s","anonymous":true,%s,"wait":"%v","lease":"%v","detach_timeout":"20s"}},"default":"p"}`, member, slowPatience, slowLease)
}

func (p *slowPlay) request(w *schedule.World, c *slowClient, id int) hostsim.Request {
	return hostsim.Request{Method: "POST", Path: "/mcp", Authority: "h", Body: []byte(toolCall(fmt.Sprint(id), "charge", `{}`)),
		Headers: []hostsim.Header{{Name: "content-type", Value: "application/json"}, {Name: "idempotency-key", Value: "k"}},
		Server:  p.arrive,
		Done:    func(r hostsim.Reply) { c.done, c.reply, c.ended = true, r, w.Clock.Mono() },
	}
}

func (p *slowPlay) arrive(a *hostsim.Arrival) { p.arrived = append(p.arrived, a) }

// dead reports whether the worker's VM died while it held the client's stream.
func (p *slowPlay) dead(w *schedule.World) bool { return w.Struck(schedule.Crash) > 0 }

// waits reports whether clients still wait for a word that they will get.
func (p *slowPlay) waits(w *schedule.World) bool {
	for _, c := range p.clients {
		if !c.done && !c.left && !p.dead(w) {
			return true
		}
	}
	return len(p.clients) < slowClients
}

func (p *slowPlay) offer(w *schedule.World) (out []schedule.Option) {
	if n := len(p.clients); n < slowClients && p.last == nil {
		out = append(out, schedule.Option{Name: fmt.Sprint("client ", n), Weight: 2, Do: func() {
			c := &slowClient{worker: n % 2, begun: w.Clock.Mono(), served: len(p.arrived)}
			p.clients = append(p.clients, c)
			c.stream, _ = w.Host.Play(c.worker, p.request(w, c, n+1))
		}})
	}
	for n, c := range p.clients {
		if c.done || c.left {
			continue
		}
		if p.leaving < 2 {
			out = append(out, schedule.Option{Name: fmt.Sprint("client ", n, " leaves"), Do: func() {
				c.left = true
				p.leaving++
				c.stream.Leave()
			}})
		}
	}
	for i, a := range p.arrived {
		if p.answered[i] || p.seconds < p.slow {
			continue
		}
		answer := func(name string, weight int, do func()) {
			out = append(out, schedule.Option{Name: fmt.Sprint(name, " ", i), Weight: weight, Do: func() { p.answered[i] = true; do() }})
		}
		answer("answer", 1, func() {
			p.ran++
			p.kept = p.kept || !a.Gone()
			a.Respond(200, []hostsim.Header{{Name: "content-type", Value: "application/json"}}, []byte(fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":{}}`, idIn(a.Body))))
		})
		answer("refuse", 1, func() { a.Respond(404, nil) }) // it has not run
		if p.breaks {
			answer("break down", 1, func() { p.ran++; a.Reset() })
		}
	}
	switch {
	case w.Busy():
	case p.waits(w) || len(p.answered) < len(p.arrived) || p.after < 25:
		if !p.waits(w) && len(p.answered) == len(p.arrived) {
			out = append(out, schedule.Option{Name: "a second after", Do: func() { p.after++; w.Advance(time.Second) }})
		} else if p.seconds < 200 {
			out = append(out, schedule.Option{Name: "a second", Weight: 5, Do: func() { p.seconds++; w.Advance(time.Second) }})
		}
	case !p.asked:
		out = append(out, schedule.Option{Name: "the last repeat", Do: func() {
			p.asked = true
			c := &slowClient{}
			r := p.request(w, c, 99)
			r.Done = func(r hostsim.Reply) { p.last = &r }
			r.Server = func(a *hostsim.Arrival) { p.arrive(a) }
			_, _ = w.Host.Play(0, r)
		}})
	}
	return out
}

func idIn(body []byte) string {
	_, rest, _ := strings.Cut(string(body), `"id":`)
	id, _, _ := strings.Cut(rest, ",")
	return id
}

func (p *slowPlay) check(w *schedule.World) error {
	if p.ran > 1 {
		return fmt.Errorf("the tool ran %d times", p.ran)
	}
	if p.ran == 1 && len(p.answered) < len(p.arrived) && !p.answered[len(p.arrived)-1] {
		return errors.New("the call was sent although it has run")
	}
	open := 0
	for i := range p.arrived {
		if !p.answered[i] {
			open++
		}
	}
	if open > 1 {
		return fmt.Errorf("%d calls at the server at once", open)
	}
	for n, c := range p.clients {
		// Who found nothing at the server may be the one whose call runs.
		if mine := c.served < len(p.arrived) && idIn(p.arrived[len(p.arrived)-1].Body) == fmt.Sprint(n+1); mine || p.dead(w) || c.left {
			continue
		}
		now := w.Clock.Mono()
		if c.done {
			now = c.ended
		}
		if ran := p.everRan(n); !ran && now-c.begun > slowPatience {
			return fmt.Errorf("client %d waited %v of %v", n, now-c.begun, slowPatience)
		}
	}
	return nil
}

// everRan reports whether a client's own call came to the server.
func (p *slowPlay) everRan(n int) bool {
	for _, a := range p.arrived {
		if idIn(a.Body) == fmt.Sprint(n+1) {
			return true
		}
	}
	return false
}

func (p *slowPlay) end(w *schedule.World) error {
	if p.seconds >= 200 {
		return errors.New("it does not end")
	}
	if w.Struck(schedule.Crash) > 0 {
		return nil // that nothing ran twice has been checked
	}
	if p.last == nil {
		if p.ran > 0 {
			return errors.New("the last repeat has no answer")
		}
		return nil // it runs
	}
	body := string(p.last.Body)
	replayed := p.last.Header("idempotency-replayed") == "true"
	switch {
	case p.ran == 0, p.everRan(98): // nothing had run: the last repeat does
	case !p.detach && p.leaving > 0 && (replayed || strings.Contains(body, unknownOutcome)):
		// Whether the answer or the news that its client had left was first.
	case p.kept && !replayed:
		return fmt.Errorf("the answer is lost: %d %s", p.last.Status, body)
	case !p.kept && !strings.Contains(body, unknownOutcome):
		return fmt.Errorf("nobody knows what happened, and the last repeat got %d %s", p.last.Status, body)
	}
	p.checked = true
	for name, v := range w.Host.Metrics() {
		if v != 0 && (strings.HasSuffix(name, "callonce_waiting") || strings.HasSuffix(name, "callonce_detached")) {
			return fmt.Errorf("%s is %d", name, v)
		}
	}
	return nil
}

func slowScenario(detach, dies bool, code *hostsim.Code) (schedule.Scenario, *slowPlay) {
	crash := schedule.Fault{Kind: schedule.Crash}
	if dies {
		crash.OneIn = 200
	}
	p := &slowPlay{detach: detach, answered: map[int]bool{}}
	return schedule.Scenario{
		Host: hostsim.Config{Code: code, PluginConfig: []byte(p.config()), VMID: vmID, PluginName: "callonce", Workers: 2, HoldHeaders: true, FailReload: true,
			Properties: map[string][]byte{"xds.virtual_host_name": []byte("vh"), "xds.cluster_name": []byte("mcp_server")},
			Servers:    map[string]func(*hostsim.Arrival){"mcp_server": p.arrive}},
		Faults: []schedule.Fault{{Kind: schedule.RefuseCAS, OneIn: 40, Max: 3},
			crash},
		Offer: p.offer, Check: p.check, End: p.end,
	}, p
}

// Repeats that wait, and calls that outlive their callers, in random schedules of two workers whose steps come in any order: clients leave, the
// server answers, refuses or breaks down, writes of shared data lose their race, a worker dies. Nothing runs twice, no answer is lost, nobody waits
// for longer than he may, and nothing is left over.
func TestSlowSchedules(t *testing.T) {
	if err := openSources(); err != nil {
		t.Fatal(err)
	}
	code, err := hostsim.Compile(context.Background(), hostsim.Config{Wasm: shipped, CacheDir: compiled(t)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = code.Close(context.Background()) })
	seen := map[string]int{}
	for seed := *slowFrom; seed < *slowFrom+uint64(*slowSchedules); seed++ {
		s, p := slowScenario(seed%2 == 0, seed%3 == 0, code)
		p.breaks = seed%4 == 0
		if seed%5 < 2 {
			p.slow = 6 // longer than anybody waits
		}
		if err := schedule.Play(context.Background(), s, schedule.Random(seed)); err != nil {
			t.Fatal(err)
		}
		for _, c := range p.clients {
			switch {
			case c.left:
				seen["left"]++
			case c.reply.Header("idempotency-replayed") == "true":
				seen["replayed"]++
			case c.done:
				seen[fmt.Sprint(c.reply.Status, " ", reply{Body: string(c.reply.Body)}.isRefusal())]++
			}
		}
		if p.checked {
			seen["checked to the end"]++
		}
		if p.detach && p.kept {
			seen["detached, and kept"]++
		}
	}
	t.Logf("%d schedules: %v", *slowSchedules, seen)
	if *slowSchedules < 100 {
		return // too few to show each
	}
	for _, what := range []string{"left", "replayed", "409 idempotency_in_flight", "409 " + unknownOutcome, "detached, and kept", "checked to the end"} {
		if seen[what] == 0 {
			t.Errorf("no schedule shows %q", what)
		}
	}
}
