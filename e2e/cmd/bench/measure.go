package main

import (
	"context"
	"fmt"
	"os"
	"time"
)

// plan is how much is measured.
type plan struct {
	rounds, requests, connections int

	processes, warm int    // of waves
	seed            uint64 // of their order
	hour            int    // of -of start
	resume          string // the file that keeps waves; may be empty

	steady time.Duration // of -of etcd
	rate   int
}

func (p plan) check(rest []string) error {
	if len(rest) > 0 {
		return fmt.Errorf("want flags only, got the argument %q (see -help)", rest[0])
	}
	for _, f := range []struct {
		name     string
		min, got int
	}{{"rounds", 1, p.rounds}, {"connections", 1, p.connections}, {"requests", p.connections, p.requests}, {"rate", 1, p.rate},
		{"processes", 1, p.processes}, {"warm", 0, p.warm}, {"hour", 0, p.hour}} {
		if f.got < f.min {
			return fmt.Errorf("-%s: want at least %d, got %d", f.name, f.min, f.got)
		}
	}
	return nil
}

// subject is a process that is measured.
type subject interface {
	// URL is where it takes requests, "http://host:port".
	URL() string
	// CPU is the time that all its threads have used since its start.
	CPU() (time.Duration, error)
}

// benchCase is one thing measured.
type benchCase struct {
	name     string
	target   string // of section 8 of the contract, above no filter
	subject  subject
	requests int // in a sample
	// call is the n-th request of a round.
	call func(round, n int) request
}

// measure returns the CPU time per request for each case and round. The cases take
// turns within a round, so that whatever else the machine does hits all alike; the
// first round warms up and does not count. between is called after each round but the
// last; it may be nil.
func measure(ctx context.Context, plan plan, cases []benchCase, between func(context.Context) error) ([][]time.Duration, error) {
	samples := make([][]time.Duration, len(cases))
	for round := range plan.rounds + 1 {
		for i := range cases {
			at := (i + round) % len(cases)
			sample, err := cases[at].sample(ctx, plan.connections, round)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", cases[at].name, err)
			}
			if round > 0 {
				samples[at] = append(samples[at], sample)
			}
		}
		fmt.Fprintf(os.Stderr, "\rround %d of %d ", round, plan.rounds)
		if between != nil && round < plan.rounds {
			if err := between(ctx); err != nil {
				return nil, err
			}
		}
	}
	fmt.Fprintln(os.Stderr)
	return samples, nil
}

// settling is how long a store outside of Envoy may take to be told of an answer that has gone on.
const settling = 50 * time.Millisecond

// sample sends one sample's requests and returns the subject's CPU time for each.
func (c benchCase) sample(ctx context.Context, connections, round int) (time.Duration, error) {
	load, err := opened(ctx, c.subject.URL(), connections, c.call, round)
	if err != nil {
		return 0, err
	}
	defer load.close()
	before, err := c.subject.CPU()
	if err != nil {
		return 0, err
	}
	if err := load.run(ctx, c.requests, func(n int) request { return c.call(round, n) }); err != nil {
		return 0, err
	}
	after, err := c.subject.CPU()
	if err != nil {
		return 0, err
	}
	return (after - before) / time.Duration(c.requests), nil
}

// opened opens connections, and makes the first call of a replayed key, before the clock starts.
func opened(ctx context.Context, url string, connections int, call func(round, n int) request, round int) (*load, error) {
	l := newLoad(url, connections)
	err := l.run(ctx, connections, func(int) request { return request{user: "warm"} })
	if first := call(round, 0); err == nil && first.replayed {
		first.replayed = false
		err = l.run(ctx, 1, func(int) request { return first })
		time.Sleep(settling)
	}
	if err != nil {
		l.close()
		return nil, err
	}
	return l, nil
}

// The calls that are measured. Their keys are new in each run, so that nothing is
// found in the table that another run left.

func unkeyed(int, int) request { return request{} }

// passed takes the route on which a call without a key passes unread.
func passed(int, int) request { return request{path: passPath} }

func first(round, n int) request { return request{key: fmt.Sprintf("%s-%d-%d", started, round, n)} }

// repeat has one key for a round: that of the round before may have expired.
func repeat(round, _ int) request {
	return request{key: fmt.Sprintf("%s-%d", started, round), replayed: true}
}

// firstOf is a first call of one of so many principals, in turn.
func firstOf(principals int) func(round, n int) request {
	return func(round, n int) request {
		r := first(round, n)
		r.user = userOf(n % principals)
		return r
	}
}

func userOf(n int) string { return fmt.Sprintf("user-%d", n) }

var started = fmt.Sprint(time.Now().UnixNano())
