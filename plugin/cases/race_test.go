package cases

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/callonce/callonce/hostsim"
)

// barrier holds the workers' claims until two of them have read the ledger and
// neither has written: the moment in which two owners are made, where the claim is
// no true compare-and-swap.
type barrier struct {
	mu      sync.Mutex
	waiting chan struct{}
	cas     *uint32 // what every claim is written with instead, nil = as the filter says
}

func (b *barrier) before(c *hostsim.Call) hostsim.Verdict {
	if c.Function != "proxy_set_shared_data" || !strings.Contains(string(c.Key), "/b/") || c.Worker < 0 {
		return hostsim.Proceed()
	}
	if b.cas != nil {
		c.CAS = *b.cas
	}
	b.mu.Lock()
	if b.waiting == nil {
		b.mu.Unlock()
		return hostsim.Proceed()
	}
	first := b.waiting
	select {
	case first <- struct{}{}: // the other one waits: both go
		b.waiting = nil
		b.mu.Unlock()
		return hostsim.Proceed()
	default:
	}
	b.mu.Unlock()
	select {
	case <-first:
	case <-time.After(10 * time.Second):
	}
	return hostsim.Proceed()
}

// arm makes the next two claims meet.
func (b *barrier) arm() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.waiting = make(chan struct{})
}

// claimsMeet races two identical calls on two workers, rounds times, and gives how
// often the tool ran in each round.
func claimsMeet(t *testing.T, b *barrier, rounds int) (runs []int) {
	f := simulator{pick: byHeader, adjust: func(c *hostsim.Config) { c.Hooks.Before = b.before }}
	c, u, _ := serve(t, f, func(w http.ResponseWriter, s seen) {
		time.Sleep(20 * time.Millisecond)
		asJSON(w, s)
	})
	for i := range 2 {
		wantFirst(t, c.call("1", "charge", `{}`, fmt.Sprint("warm", i), "X-Worker", fmt.Sprint(i)))
	}
	for round := range rounds {
		before := u.Runs()
		b.arm()
		var wg sync.WaitGroup
		for i := range 2 {
			wg.Add(1)
			go func() {
				defer wg.Done()
				c.call(fmt.Sprint(i), "charge", `{}`, fmt.Sprint("round", round), "X-Worker", fmt.Sprint(i))
			}()
		}
		wg.Wait()
		runs = append(runs, u.Runs()-before)
	}
	return runs
}

// byHeader lets a request name its worker.
func byHeader(r *http.Request) int {
	n, _ := strconv.Atoi(r.Header.Get("X-Worker"))
	return n
}

// Case 28: two workers between get and set have one owner.
func TestTwoWorkersBetweenGetAndSet(t *testing.T) {
	for round, n := range claimsMeet(t, &barrier{}, 30) {
		if n != 1 {
			t.Errorf("round %d: the tool ran %d times", round, n)
		}
	}
}

// The same with the claim replaced by get-then-set (cas 0 overwrites): both workers
// win, every time. It shows that the test above can fail.
func TestGetThenSetHasTwoOwners(t *testing.T) {
	overwrite := uint32(0)
	for round, n := range claimsMeet(t, &barrier{cas: &overwrite}, 30) {
		if n != 2 {
			t.Errorf("round %d: the tool ran %d times; held between get and set, get-then-set must give two owners", round, n)
		}
	}
}
