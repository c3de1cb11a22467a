package callonce

import (
	"cmp"
	"context"
	crand "crypto/rand"
	"errors"
	"math/rand/v2"
	"strconv"
	"sync"
	"time"
)

// DefaultTTL is for how long the filter remembers a key, unless configured otherwise.
const DefaultTTL = 5 * time.Minute

// firstWait and longestWait are between two sendings, unless the filter says more.
const (
	firstWait   = 250 * time.Millisecond
	longestWait = 5 * time.Second
)

// Caller makes calls under keys. The zero value keeps them in memory. It may be used
// from any number of goroutines, and must not be copied after first use.
type Caller struct {
	// Store keeps the keys; nil means in memory, where no restart is survived.
	Store Store
	// TTL is the filter's ttl for these tools; 0 means [DefaultTTL]. An intent that was
	// last sent longer ago is not sent again, since its key may be forgotten.
	TTL time.Duration

	mu sync.Mutex // guards the reading and writing of an entry
}

// Outcome is what is known of a call beside its result.
type Outcome struct {
	// Replayed says that the answer is one that was given before.
	Replayed bool
	// Attempts is how often the call was sent, from 1; 0 when it was not.
	Attempts int
}

var errNotSent = errors.New("callonce: want a call with the context that it gets, through a client that uses a callonce.Transport: no key was sent")

// Do runs call, which must make one tools/call with the context that it gets, through
// a client whose HTTP goes by a [Transport]. The same intent always has the same key.
// It repeats the call when the answer is lost or the filter says to come back, until
// ctx ends: give it a deadline that is shorter than TTL.
//
// What call returns is returned as it is once the server has answered, tool errors and
// JSON-RPC errors too. Else the error is one of [ErrReconcileFirst], [ErrKeyConflict],
// [ErrRefused] and [ErrNotSettled], with the [Refusal] in it where there was one; or
// an error of the store's, before anything was sent.
//
// Leaving early makes things worse: a filter whose client is gone can not tell what
// became of the call, and a repeat is then told to reconcile first.
func (c *Caller) Do(ctx context.Context, intent string, call func(context.Context) error) (Outcome, error) {
	var o Outcome
	for wait := firstWait; ; wait = min(2*wait, longestWait) {
		entry, err := c.begin(intent)
		if err != nil {
			return o, err
		}
		o.Attempts++
		a := &attempt{}
		sent := &Call{key: entry.Key, settle: true}
		told := call(context.WithValue(context.WithValue(ctx, contextKey{}, sent), attemptKey{}, a))
		pause := wait/2 + rand.N(wait/2)
		answer, answered := sent.Answer()
		a.mu.Lock()
		refusal, response, lost := a.refusal, a.response, a.lost
		a.mu.Unlock()
		switch {
		case refusal != nil && refusal.Retry != "same_key_later":
			return o, judge(refusal)
		case refusal != nil:
			pause = max(pause, refusal.wait(answer.RetryAfter))
			lost = refusal
		case response, answered && told == nil:
			o.Replayed = answer.Replayed
			if err := c.end(intent); err != nil {
				return o, errors.Join(told, err)
			}
			return o, told
		case !answered && lost == nil && ctx.Err() == nil:
			return o, cmp.Or(told, errNotSent)
		case lost == nil && answered && answer.Status == 429: // of somebody else's
			pause = max(pause, seconds(answer.RetryAfter))
			lost = told
		case lost == nil && answered && answer.Status >= 300 && ctx.Err() == nil:
			return o, errors.Join(ErrRefused, told) // 401, 404, …: nothing ran
		case lost == nil:
			lost = told
		}
		if err := sleep(ctx, pause); err != nil {
			return o, errors.Join(ErrNotSettled, err, lost)
		}
	}
}

// Forget drops an intent's key: the next call of that intent is a new one, and runs.
func (c *Caller) Forget(intent string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.store().Delete(intent)
}

// begin notes that an intent is sent now, before it is.
func (c *Caller) begin(intent string) (Entry, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	e, known, err := c.store().Get(intent)
	if err != nil {
		return e, err
	}
	ttl := cmp.Or(c.TTL, DefaultTTL)
	now := time.Now()
	if !known {
		e = Entry{Key: crand.Text()}
	} else if age := now.Sub(e.Sent); !e.Sent.IsZero() && (age >= ttl || age < -time.Minute) {
		return e, judge(expired(e.Done, age, ttl))
	}
	e.Sent = now
	return e, c.store().Put(intent, e)
}

func (c *Caller) end(intent string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	e, known, err := c.store().Get(intent)
	if err != nil || !known {
		return err
	}
	e.Done = true
	return c.store().Put(intent, e)
}

func (c *Caller) store() Store {
	if c.Store == nil {
		c.Store = &memory{entries: map[string]Entry{}}
	}
	return c.Store
}

func (r *Refusal) wait(retryAfter string) time.Duration {
	return max(time.Duration(r.RetryAfterMS)*time.Millisecond, seconds(retryAfter))
}

func seconds(header string) time.Duration {
	n, err := strconv.Atoi(header)
	if err != nil || n < 0 || n > 3600 {
		return 0
	}
	return time.Duration(n) * time.Second
}

func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}
