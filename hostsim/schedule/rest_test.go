package schedule

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/callonce/callonce/hostsim"
)

// known is what a game knows once it is prepared.
type known struct {
	runs         map[string]int
	replies      map[string]string
	played, keys int
	bytes        int
}

// prepare lets every worker make a call of its own before anything is chosen, so that each has its place and knows the table.
func (g *game) prepare(w *World) error {
	g.ended, g.played = true, 0
	clear(g.runs)
	clear(g.replies)
	for n := range g.workers {
		g.extra(w, ask{worker: n, key: fmt.Sprint("warm", n)})
		if err := w.Drain(); err != nil {
			return err
		}
	}
	for range g.idle / time.Second {
		w.Advance(time.Second)
		if err := w.Drain(); err != nil {
			return err
		}
	}
	for n, key := range g.last {
		g.extra(w, ask{worker: n, key: key})
		if err := w.Drain(); err != nil {
			return err
		}
	}
	if g.expired {
		clear(g.runs)
		clear(g.replies)
	}
	g.watch.store = w.Host.Store()
	if all, err := g.watch.entries(); err != nil || len(all) < g.lies {
		return fmt.Errorf("%d entries lie in the table, want %d: %v", len(all), g.lies, err)
	}
	g.ended = false
	if g.before != nil {
		*g.before = known{maps.Clone(g.runs), maps.Clone(g.replies), g.played, g.watch.most.keys, g.watch.most.bytes}
	}
	return g.wrong
}

// end heals: the faults are over, whoever is still waiting leaves, and time passes. Then every key must be at rest.
func (g *game) end(w *World) error {
	g.ended = true
	for _, id := range slices.Sorted(maps.Keys(g.open)) {
		g.open[id].stream.Leave()
	}
	if err := w.Drain(); err != nil {
		return err
	}
	// A lease, and two passes of the sweep over a table of two buckets.
	for range int(2*g.lease/time.Second) + 8 {
		w.Advance(time.Second)
		if err := w.Drain(); err != nil {
			return err
		}
		// A worker comes back only when it is asked for something.
		for n := range g.workers {
			if _, err := w.Host.Play(n, hostsim.Request{Method: "GET", Path: "/", Authority: "h", Server: func(a *hostsim.Arrival) { a.Respond(200, nil) }}); err != nil {
				return err
			}
		}
		if err := w.Drain(); err != nil {
			return err
		}
		g.watch.now = w.Clock.Mono()
	}
	if err := g.watch.rest(); err != nil {
		return err
	}
	for _, key := range slices.Sorted(maps.Keys(g.keys())) {
		for n := range g.workers {
			id := g.extra(w, ask{worker: n, key: key, user: g.userOf(key)})
			if err := w.Drain(); err != nil {
				return err
			}
			if err := g.check(w); err != nil {
				return err
			}
			if len(g.open) > 0 {
				return fmt.Errorf("call %s of key %s hangs", id, key)
			}
		}
	}
	return nil
}

func (g *game) keys() map[string]bool {
	out := map[string]bool{}
	for _, asks := range g.clients {
		for _, a := range asks {
			out[a.key] = true
		}
	}
	return out
}

func (g *game) userOf(key string) string {
	for _, asks := range g.clients {
		for _, a := range asks {
			if a.key == key {
				return a.user
			}
		}
	}
	return ""
}
