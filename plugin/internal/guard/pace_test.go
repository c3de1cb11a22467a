package guard

import (
	"fmt"
	"testing"
	"time"
)

// The advice follows what most calls take: nothing is said before there are some, what is long ago counts less, and it has bounds.
func TestPace(t *testing.T) {
	var p pace
	for range paceLeast - 1 {
		p.add(30 * time.Second)
	}
	if got := p.retryAfter(0); got != 1 {
		t.Errorf("of few calls: %d", got)
	}
	p.add(time.Millisecond)
	for ran, want := range map[time.Duration]int{0: 32, 20 * time.Second: 12, 31500 * time.Millisecond: 1, 32 * time.Second: 8, 10 * time.Hour: 300} {
		if got := p.retryAfter(ran); got != want {
			t.Errorf("after %v: %d, want %d", ran, got, want)
		}
	}
	for range 10 * paceMost {
		p.add(3 * time.Second)
	}
	if got := p.retryAfter(0); got != 4 || p.total >= paceMost {
		t.Errorf("later: %d, of %d", got, p.total)
	}
	for range 10 * paceMost {
		p.add(100 * time.Hour)
	}
	if got := p.retryAfter(0); got != longestAdvice {
		t.Errorf("of very long ones: %d", got)
	}
}

// What most calls take counts, and most are four of five.
func TestPaceOfMost(t *testing.T) {
	for quick, want := range map[int]int{5: 32, 8: 1} {
		var p pace
		for i := range 10 {
			took := 30 * time.Second
			if i < quick {
				took = 500 * time.Millisecond
			}
			p.add(took)
		}
		if got := p.retryAfter(0); got != want {
			t.Errorf("%d of 10 are quick: %d, want %d", quick, got, want)
		}
	}
}

// A refusal of a call in flight says when to come back, as calls of that tool go.
func TestRetryAfterFollowsTheTool(t *testing.T) {
	w := newWorld(t)
	g := w.worker(`{"namespace":"ns","policies":{"p":{"server":"srv","anonymous":true,"reply":"http","on_in_flight":"wait","wait":"2s","tools":[{"match":"charge"},{"match":"x"}]}},"default":"p"}`)
	for i := range 10 {
		x := w.send(g, toolCall("1", `{}`), "idempotency-key", fmt.Sprint(i))
		w.pass(50 * time.Second)
		x.answer(200, "application/json", okResult)
	}
	w.send(g, toolCall("1", `{}`), "idempotency-key", "k")
	w.pass(10 * time.Second)
	again := w.send(g, toolCall("1", `{}`), "idempotency-key", "k")
	w.pass(2 * time.Second)
	g.Tick(w.now)
	again.wantRefused(409, "idempotency_in_flight")
	if again.headers["retry-after"] != "52" {
		t.Errorf("come back after %s", again.headers["retry-after"])
	}
}
