package scenarios

import (
	"context"
	"fmt"
	"time"
)

// slow is a payment long enough that something can happen meanwhile; giveUp is how
// long an impatient client waits for it.
const (
	slow   = 2500 * time.Millisecond
	giveUp = time.Second
)

// scenario is one story. Its name, behind the player's prefix, is its customer and
// its key.
type scenario struct {
	name  string
	title string
	play  func(ctx context.Context, p *Player, name string)
}

var all = []scenario{
	{"alice", "No key: a repeat is a second charge", noKey},
	{"bob", "A key: the repeat gets the first answer", repeated},
	{"carol", "The key is used again for another charge", reused},
	{"dave", "A repeat while the call still runs", early},
	{"erin", "The client gives up and tries again with the same key", gaveUp},
	{"frank", "An answer is lost on the way (preset sep3182, the key in an argument)", lostAnswers},
}

func noKey(ctx context.Context, p *Player, name string) {
	first := p.call(ctx, charge{customer: name, cents: 1200})
	p.tell("charge 12.00", first)
	second := p.call(ctx, charge{customer: name, cents: 1200})
	p.tell("the same again", second)
	p.want(name, "two charges of two ids", first.chargeID != "" && second.chargeID != "" && first.chargeID != second.chargeID, second)
	p.charges(name, 2)
}

func repeated(ctx context.Context, p *Player, name string) {
	first := p.call(ctx, charge{customer: name, cents: 1200, key: name})
	p.tell("charge 12.00, key "+name, first)
	p.want(name, "a first answer, not a replay", first.chargeID != "" && !first.http.Replayed, first)
	second := p.call(ctx, charge{customer: name, cents: 1200, key: name})
	p.tell("the same again", second)
	p.want(name, "the first answer, replayed", second.chargeID == first.chargeID && second.http.Replayed, second)
	p.charges(name, 1)
}

func reused(ctx context.Context, p *Player, name string) {
	p.tell("charge 12.00, key "+name, p.call(ctx, charge{customer: name, cents: 1200, key: name}))
	other := p.call(ctx, charge{customer: name, cents: 9900, key: name})
	p.tell("charge 99.00, key "+name, other)
	p.refused(name, other, -31409, "idempotency_key_conflict")
	p.charges(name, 1)
}

func early(ctx context.Context, p *Player, name string) {
	call := charge{customer: name, cents: 1200, delay: slow, key: name}
	done := make(chan reply, 1)
	go func() { done <- p.call(ctx, call) }()
	p.awaitRunning(ctx, name, 1)
	meanwhile := p.call(ctx, call)
	p.tell("charge 12.00 (slow), key "+name, "runs …")
	p.tell("the same again, meanwhile", meanwhile)
	p.refused(name, meanwhile, -31410, "idempotency_in_flight")
	p.want(name, "a Retry-After header", meanwhile.http.RetryAfter != "", meanwhile.http)
	first := <-done
	p.tell("the first call returns", first)
	after := p.call(ctx, call)
	p.tell("the same again, afterwards", after)
	p.want(name, "the first answer, replayed", first.chargeID != "" && after.chargeID == first.chargeID && after.http.Replayed, after)
	p.charges(name, 1)
}

func gaveUp(ctx context.Context, p *Player, name string) {
	impatient := charge{customer: name, cents: 1200, delay: slow, key: name, timeout: giveUp}
	first := p.call(ctx, impatient)
	p.tell("charge 12.00 (slow), key "+name, first)
	p.want(name, "a client that gave up", first.gaveUp, first)

	// The proxy may not have noticed yet that its client has left; then the call
	// still counts as running.
	retry := charge{customer: name, cents: 1200, delay: slow, key: name}
	second := p.call(ctx, retry)
	for ctx.Err() == nil && second.refusal == "idempotency_in_flight" {
		p.tell("the same again", second)
		pause(ctx, time.Second)
		second = p.call(ctx, retry)
	}
	p.tell("the same again", second)
	p.refused(name, second, -31411, "idempotency_outcome_unknown")

	p.awaitRunning(ctx, name, 0)
	p.tell("the payment ends at the server", "nobody is there to hear of it")
	third := p.call(ctx, retry)
	p.tell("the same again", third)
	p.refused(name, third, -31411, "idempotency_outcome_unknown")
	listed, err := p.listed(ctx, name)
	p.tell("list_charges, to see what happened", fmt.Sprintf("%d of %s", listed, name))
	p.want(name, "one charge listed", err == nil && listed == 1, err)
	p.charges(name, 1)
}

// refused checks for a refusal of a type.
func (p *Player) refused(scenario string, got reply, code int64, kind string) {
	p.want(scenario, "a refusal "+kind+" with HTTP 200", got.refusal == kind && got.code == code && got.http.Status == 200, got)
}

// awaitRunning waits until n charges run at the server. That no charge starts or
// ends for 30 s is not as expected.
func (p *Player) awaitRunning(ctx context.Context, scenario string, n int) {
	for deadline := time.Now().Add(30 * time.Second); ctx.Err() == nil && p.Book.Running() != n; pause(ctx, 10*time.Millisecond) {
		if time.Now().After(deadline) {
			p.want(scenario, "the number of running charges to change within 30 s", false, p.Book.Running())
			return
		}
	}
}

func pause(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}
