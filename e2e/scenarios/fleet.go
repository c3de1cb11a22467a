package scenarios

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/callonce/callonce/e2e/payments"
)

// Fleet is two replicas of a proxy that share a ledger outside of them.
type Fleet interface {
	// URL is a replica's root, "http://host:port".
	URL(i int) string
	// Kill ends a replica at once.
	Kill(i int) error
	// Restart stops replicas and ledger, and starts them on what the ledger has kept.
	Restart(context.Context) error
}

// PlayFleet plays what only a ledger shows that outlives its proxies, and returns what Play does. lease is how long a replica may be silent
// until its calls are unknown outcomes.
func PlayFleet(ctx context.Context, f Fleet, book *payments.Book, lease time.Duration, out io.Writer) error {
	p := &fleetPlay{ctx: ctx, f: f, one: &Player{Book: book, Out: out}, two: &Player{Book: book, Out: out}, lease: lease}
	for i, s := range []struct {
		title string
		play  func() error
	}{
		{"A call at one replica, its repeat at the other", p.atTheOther},
		{"A replica is killed in the middle of a call", p.killed},
		{"Everything is restarted: the replicas, and the ledger from its disk", p.restarted},
	} {
		fmt.Fprintf(out, "\n%d. %s\n", i+1, s.title)
		if err := s.play(); err != nil {
			return err
		}
		if err := ctx.Err(); err != nil {
			return err
		}
	}
	p.one.wrong = append(p.one.wrong, p.two.wrong...)
	return p.one.verdict()
}

type fleetPlay struct {
	ctx      context.Context
	f        Fleet
	one, two *Player
	lease    time.Duration
}

// connect gives each player a client of its own.
func (p *fleetPlay) connect() (closing func(), err error) {
	p.one.URL, p.two.URL = p.f.URL(0), p.f.URL(1)
	if err := p.one.connect(p.ctx); err != nil {
		return nil, err
	}
	if err := p.two.connect(p.ctx); err != nil {
		p.one.session.Close()
		return nil, err
	}
	return func() {
		p.one.session.Close()
		p.two.session.Close()
	}, nil
}

// until repeats a call as long as it is in flight, or its replica has not got into the ledger yet.
func (p *fleetPlay) until(at *Player, step string, c charge) reply {
	for deadline := time.Now().Add(time.Minute); ; pause(p.ctx, 100*time.Millisecond) {
		r := at.call(p.ctx, c)
		wait := r.refusal == inFlight || r.refusal == unavailable || r.http.Status == http.StatusServiceUnavailable
		if !wait || p.ctx.Err() != nil || time.Now().After(deadline) {
			at.tell(step, r)
			return r
		}
	}
}

const (
	inFlight    = "idempotency_in_flight"
	unavailable = "idempotency_unavailable"
	unknown     = "idempotency_outcome_unknown"
)

var frank = charge{customer: "frank", cents: 1200, key: "frank"}

func (p *fleetPlay) atTheOther() error {
	closing, err := p.connect()
	if err != nil {
		return err
	}
	defer closing()
	first := p.until(p.one, "charge 12.00, key frank, at one", frank)
	p.one.want("frank", "a first answer, not a replay", first.chargeID != "" && !first.http.Replayed, first)
	second := p.until(p.two, "the same at the other", frank)
	p.two.want("frank", "the first answer, replayed", second.chargeID == first.chargeID && second.http.Replayed, second)
	p.two.charges("frank", 1)
	return nil
}

var grace = charge{customer: "grace", cents: 1200, delay: slow, key: "grace"}

func (p *fleetPlay) killed() error {
	closing, err := p.connect()
	if err != nil {
		return err
	}
	defer closing()
	lost := make(chan reply, 1)
	asking, stop := context.WithCancel(p.ctx)
	defer stop()
	go func() { lost <- p.one.call(asking, grace) }()
	p.one.awaitRunning(p.ctx, "grace", 1)
	p.one.tell("charge 12.00 (slow), key grace, at one", "runs …")
	meanwhile := p.two.call(p.ctx, grace)
	p.two.tell("the same at the other, meanwhile", meanwhile)
	p.two.refused("grace", meanwhile, -31410, inFlight)
	if err := p.f.Kill(0); err != nil {
		return err
	}
	p.one.tell("the replica is killed", "its client gets no answer")
	stop() // its client would connect again and again
	gone := <-lost
	p.one.want("grace", "no answer", gone.chargeID == "", gone)
	after := p.until(p.two, fmt.Sprintf("the same at the other, %v later", p.lease), grace)
	p.two.refused("grace", after, -31411, unknown)
	p.two.awaitRunning(p.ctx, "grace", 0)
	p.two.charges("grace", 1)
	return nil
}

func (p *fleetPlay) restarted() error {
	if err := p.f.Restart(p.ctx); err != nil {
		return err
	}
	closing, err := p.connect()
	if err != nil {
		return err
	}
	defer closing()
	done := p.until(p.one, "frank's call again", frank)
	p.one.want("frank", "the first answer, replayed", done.chargeID != "" && done.http.Replayed, done)
	p.one.charges("frank", 1)
	lost := p.until(p.two, "grace's call again", grace)
	p.two.refused("grace", lost, -31411, unknown)
	p.two.charges("grace", 1)
	return nil
}
