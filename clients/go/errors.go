package callonce

import (
	"errors"
	"fmt"
	"time"
)

// Refusal is the filter's word on a call. It is an error, found by [errors.As], in all
// that [Caller.Do] returns for one.
type Refusal struct {
	// Type is its stable name, such as idempotency_in_flight.
	Type string `json:"type"`
	// MayHaveRun says whether the tool ran for this intent: no, yes, running or unknown.
	MayHaveRun string `json:"may_have_run"`
	// Retry is what to do: same_key_later, reconcile_first, new_key_if_new_intent,
	// after_fix or never.
	Retry string `json:"retry"`
	// Operation is the key's public hash, which operators find in their logs; may be "".
	Operation string `json:"operation"`
	// RetryAfterMS is how long to wait, in milliseconds; 0 where nothing is said.
	RetryAfterMS int64 `json:"retry_after_ms"`
	// Message was written for a model to read.
	Message string `json:"-"`
}

// Error implements error.
func (r *Refusal) Error() string {
	return fmt.Sprintf("%s (may have run: %s, retry: %s): %s", r.Type, r.MayHaveRun, r.Retry, r.Message)
}

// What [Caller.Do] stops at; to be found by [errors.Is].
var (
	// ErrReconcileFirst: the tool may have run, and a repeat could run it again. Look
	// whether it did; then [Caller.Forget] the intent, where it is to run (again).
	ErrReconcileFirst = errors.New("look whether the call ran before anything else")
	// ErrKeyConflict: this intent's key was used for another call.
	ErrKeyConflict = errors.New("the intent's key was used for another call")
	// ErrNotSettled: time is up. The key is kept: the same intent can be tried again.
	ErrNotSettled = errors.New("the call is not settled yet")
	// ErrRefused: the call can not be made so. Repeating it does not help.
	ErrRefused = errors.New("the call was refused")
)

// expired is what stands in the filter's place when its memory may have ended.
func expired(done bool, age, ttl time.Duration) *Refusal {
	r := &Refusal{
		Type: "callonce_key_expired", MayHaveRun: "unknown", Retry: "reconcile_first",
		Message: fmt.Sprintf("This intent was sent %s ago, and its key is remembered for %s: sent again, it could run again.", age.Round(time.Second), ttl),
	}
	if done {
		r.MayHaveRun = "yes"
	}
	return r
}

// judge gives a refusal that ends the call its kind.
func judge(r *Refusal) error {
	switch r.Retry {
	case "reconcile_first":
		return errors.Join(ErrReconcileFirst, r)
	case "new_key_if_new_intent":
		return errors.Join(ErrKeyConflict, r)
	}
	return errors.Join(ErrRefused, r)
}
