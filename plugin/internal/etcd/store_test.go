package etcd

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/callonce/callonce/plugin/internal/etcd/etcdsim"
	"github.com/callonce/callonce/plugin/internal/ledger"
)

func complete(message string) ledger.Outcome {
	return ledger.Outcome{Event: ledger.Complete, Reply: ledger.Reply{Status: 200, Message: []byte(message)}}
}

// Each claim is counted in the proxy from before etcd is asked until it has come to nothing, or its call has ended.
func TestCountedInThisProxy(t *testing.T) {
	r := ready(t)
	token, a := r.want(1, ledger.First)
	if len(r.local.open) != 1 {
		t.Errorf("%d counted while one call is in flight", len(r.local.open))
	}
	r.want(1, ledger.RefusedInFlight)
	if len(r.local.open) != 1 {
		t.Errorf("%d counted after a refusal", len(r.local.open))
	}
	r.store.Settle(a.Lease, complete("hello"))
	if got := r.local.settled; len(r.local.open) != 0 || !slices.Equal(got, []ledger.Event{ledger.Release, ledger.Complete}) || r.local.messages != 0 {
		t.Errorf("counted %d, settled %v, %d bytes of replies", len(r.local.open), got, r.local.messages)
	}
	r.all()
	r.ends(token)
	r.want(1, ledger.Replay)

	gone, _, _ := r.begin(2)
	r.store.Forget(gone)
	if len(r.local.open) != 0 {
		t.Error("a claim that nobody waits for is counted")
	}
	r.all()
	r.tick()
	if r.cluster.Keys["/callonce/k/02"+strings.Repeat("0", 62)] != nil {
		t.Error("a claim that nobody waits for is left in etcd")
	}
	if r.local.ticks == 0 {
		t.Error("what counts gets no ticks")
	}
}

// Where a limit is full, what is known of a key is still said, and a key that is not there gets the refusal.
func TestFullProxyStillAnswers(t *testing.T) {
	r := ready(t)
	_, a := r.want(1, ledger.First)
	r.store.Settle(a.Lease, complete("hello"))
	r.all()
	r.local.full = true
	if _, a := r.want(1, ledger.Replay); string(a.Reply.Message) != "hello" {
		t.Errorf("got %q", a.Reply.Message)
	}
	if _, a := r.want(2, ledger.RefusedCapacity); a.RetryAfter != 7*time.Second {
		t.Errorf("retry after %v", a.RetryAfter)
	}
	if len(r.cluster.Keys) != 2 {
		t.Errorf("%d keys, want the worker's and one record", len(r.cluster.Keys))
	}
	r.local.full, r.local.broken = false, true
	r.want(3, ledger.RefusedUnavailable)
	if r.reasons[Uncounted] != 1 {
		t.Errorf("reasons: %v", r.reasons)
	}
}

// All trips of one claim together take no longer than the timeout.
func TestOneTimeoutForAllTrips(t *testing.T) {
	r, other := ready(t), newRig(t)
	other.cluster = r.cluster
	other.tokens = 1000
	other.tick()
	_, a := other.ask(1)
	if a.Verdict != ledger.First {
		t.Fatal(a.Verdict)
	}
	token, _, _ := r.begin(1)
	r.pass(100 * time.Millisecond)
	r.one()
	if got := r.timeouts[len(r.timeouts)-1]; got != 150*time.Millisecond {
		t.Errorf("the second trip may take %v, want 150ms", got)
	}
	r.all()
	if a := r.answers[token]; a.Verdict != ledger.RefusedInFlight {
		t.Errorf("got %d", a.Verdict)
	}
	token, _, _ = r.begin(1)
	r.pass(250 * time.Millisecond)
	r.one()
	if a, ok := r.answers[token]; !ok || a.Verdict != ledger.RefusedUnavailable || len(r.calls) != 0 {
		t.Errorf("with no time left: %v %d, %d calls", ok, a.Verdict, len(r.calls))
	}
	// A call that never ends does not hold its stream for ever; what it wins then is released.
	token, _, _ = r.begin(2)
	r.pass(2 * time.Second)
	r.store.Tick(r.now())
	if a, ok := r.answers[token]; !ok || a.Verdict != ledger.RefusedUnavailable {
		t.Errorf("an overdue claim: %v %d", ok, a.Verdict)
	}
	r.all()
	r.tick()
	r.want(2, ledger.First)
}

// A settlement that reached etcd between the two trips counts.
func TestSettledBetweenTheTrips(t *testing.T) {
	r, other := ready(t), newRig(t)
	other.cluster = r.cluster
	other.tokens = 1000
	other.tick()
	_, a := other.ask(1)
	token, _, _ := r.begin(1)
	r.one()
	other.store.Settle(a.Lease, complete("hello"))
	other.all()
	r.all()
	if a := r.answers[token]; a.Verdict != ledger.Replay || string(a.Reply.Message) != "hello" {
		t.Errorf("got verdict %d, %q", a.Verdict, a.Reply.Message)
	}
}

// A worker that stood still, and whose call another took over and completed, is fenced: what lies there is the other's, though it says the
// same, and stays.
func TestAnothersSettlementIsNotOnesOwn(t *testing.T) {
	r, other := ready(t), newRig(t)
	other.cluster = r.cluster
	other.tokens = 1000
	_, a := r.want(1, ledger.First)
	r.pass(16 * time.Second) // in which r has not given a sign of life
	other.tick()
	token, _, _ := other.claim(ledger.Claim{ID: [32]byte{1}, Fingerprint: [32]byte{1}, Policy: 1, RetryUnknown: true, Terms: ledger.Terms{TTL: rigTTL}})
	other.all()
	taken := other.answers[token]
	if taken.Verdict != ledger.First || taken.Lease.Attempt != 2 {
		t.Fatalf("taken over: %+v", taken)
	}
	other.store.Settle(taken.Lease, complete("the other's"))
	other.all()
	r.store.Settle(a.Lease, complete("its own"))
	r.all()
	if got := r.store.Settle(a.Lease, ledger.Outcome{Event: ledger.MarkUnknown}); got != ledger.Fenced || len(r.late) != 0 || !slices.Equal(r.notices, []ledger.Notice{ledger.LateFenced}) {
		t.Errorf("a second word: %d, told of %v, counted %v", got, r.late, r.notices)
	}
	r.all()
	if _, a := other.want(1, ledger.Replay); string(a.Reply.Message) != "the other's" {
		t.Errorf("got %q", a.Reply.Message)
	}
}

// Calls that fail one after the other end the asking: nobody waits in vain, and nothing piles up. The tick finds out when it is over.
func TestDown(t *testing.T) {
	r := ready(t)
	r.status = grpcUnavailable
	for range mostFailed {
		r.want(1, ledger.RefusedUnavailable)
	}
	strays := len(r.store.strays)
	for range 100 {
		if _, a, now := r.begin(1); !now || a.Verdict != ledger.RefusedUnavailable {
			t.Fatalf("asked though etcd is down: %v", a.Verdict)
		}
	}
	if len(r.store.strays) != strays || strays > mostFailed {
		t.Errorf("%d strays, then %d", strays, len(r.store.strays))
	}
	for range 3 {
		r.pass(time.Second)
		r.tick()
	}
	if len(r.logs) != 1 || !strings.Contains(r.logs[0], "does not answer in time") || r.up[len(r.up)-1] {
		t.Errorf("logged %q, up %v", r.logs, r.up)
	}
	r.status = 0
	r.pass(time.Second)
	r.tick()
	r.want(1, ledger.First)
	r.tick()
	if len(r.logs) != 2 || !strings.Contains(r.logs[1], "takes claims again") || !r.up[len(r.up)-1] {
		t.Errorf("logged %q, up %v", r.logs, r.up)
	}
	if r.reasons[Unreachable] < mostFailed+100 {
		t.Errorf("reasons: %v", r.reasons)
	}
}

// Each way in which etcd may fail has its reason, in the log once and in the count.
func TestReasons(t *testing.T) {
	for name, c := range map[string]struct {
		fail func(*rig)
		why  Reason
		says string
	}{
		"no cluster":      {func(r *rig) { r.err = errNoCluster }, NoCluster, "knows no cluster"},
		"not gRPC":        {func(r *rig) { r.status = grpcUnimplemented }, NotEtcd, "http2_protocol_options"},
		"no quorum":       {func(r *rig) { r.cluster.Leaderless = true }, Unreachable, "no leader"},
		"no permission":   {func(r *rig) { r.cluster.Denied = true }, Denied, "readwrite on the prefix"},
		"unauthenticated": {func(r *rig) { r.status = grpcUnauthenticated }, Denied, "readwrite on the prefix"},
		"no space":        {func(r *rig) { r.cluster.Full = true }, Exhausted, "NOSPACE"},
	} {
		t.Run(name, func(t *testing.T) {
			for _, late := range []bool{false, true} {
				r := newRig(t)
				if late {
					r.tick()
					r.want(1, ledger.First)
				}
				c.fail(r)
				for range 3 {
					r.want(2, ledger.RefusedUnavailable)
					r.pass(time.Second)
					r.tick()
				}
				r.tick()
				if len(r.logs) != 1 || !strings.Contains(r.logs[0], c.says) || !strings.Contains(r.logs[0], "/callonce/") || r.reasons[c.why] == 0 || len(r.up) == 0 || r.up[len(r.up)-1] {
					t.Errorf("late %v: logged %q, counted %v, up %v", late, r.logs, r.reasons, r.up)
				}
				r.err, r.status = nil, 0
				r.cluster.Leaderless, r.cluster.Denied, r.cluster.Full = false, false, false
				for range 3 {
					r.pass(time.Second)
					r.tick()
				}
				r.want(2, ledger.First)
				if late {
					r.want(1, ledger.RefusedInFlight)
				}
			}
		})
	}
}

// Etcd that was emptied, or lost a lease, gets new ones; and a settlement waits for that.
func TestLeasesGone(t *testing.T) {
	r := ready(t)
	token, a := r.want(1, ledger.First)
	was := r.store.self.incarnation
	// As after a restore from an older snapshot, with its revisions bumped as etcd advises: nothing is there.
	empty := etcdsim.New()
	empty.Revision, empty.NextLease = 1000, 9000
	empty.Advance(r.cluster.Now())
	*r.cluster = *empty
	r.want(2, ledger.RefusedUnavailable)
	for range 3 {
		r.pass(time.Second)
		r.tick()
	}
	if r.store.self.incarnation == was {
		t.Error("the worker goes on as one that etcd does not know")
	}
	r.want(2, ledger.First)
	r.store.Settle(a.Lease, complete("hello"))
	r.all()
	r.ends(token)
	r.tick()
	if len(r.store.grants) != 1 {
		t.Errorf("%d grants are left, want the one in flight", len(r.store.grants))
	}
}

// A grant lasts until its stream has ended and etcd has the last word; streams that nothing was said of count too.
func TestForgottenWithItsStream(t *testing.T) {
	r := ready(t)
	token, a := r.want(1, ledger.First)
	r.store.Settle(a.Lease, complete("hello"))
	r.all()
	r.tick()
	if len(r.store.grants) != 1 {
		t.Error("forgotten while its stream may have a worse word to say")
	}
	r.store.Settle(a.Lease, ledger.Outcome{Event: ledger.MarkUnknown})
	r.all()
	r.want(1, ledger.RefusedUnknown)
	r.ends(token)
	lost, _ := r.want(2, ledger.First)
	r.ends(lost) // by a fault: it was never settled
	r.tick()
	r.tick()
	if len(r.store.grants)+len(r.store.holder) != 0 {
		t.Errorf("left over: %d grants, %d holders", len(r.store.grants), len(r.store.holder))
	}
	r.want(2, ledger.RefusedUnknown)
	if !slices.Equal(r.late, []ledger.Event{ledger.Complete, ledger.MarkUnknown, ledger.MarkUnknown}) {
		t.Errorf("told of %v", r.late)
	}
}

// A reply that etcd does not take is not kept, and its key is settled all the same.
func TestRepliesTooLong(t *testing.T) {
	r := ready(t)
	token, a := r.want(1, ledger.First)
	if got := r.store.Settle(a.Lease, complete(strings.Repeat("x", mostReply+1))); got != ledger.Pending|ledger.Unkept {
		t.Errorf("settled: %d", got)
	}
	r.all()
	r.ends(token)
	r.want(1, ledger.RefusedNotReplayable)
	// Etcd was told to take less.
	_, a = r.want(2, ledger.First)
	r.store.Settle(a.Lease, complete(strings.Repeat("x", worthTrying+1)))
	r.status = grpcInvalid
	r.all()
	r.status = 0
	r.tick()
	r.want(2, ledger.RefusedNotReplayable)
	// What it refuses for another reason stays as it is.
	_, a = r.want(3, ledger.First)
	r.store.Settle(a.Lease, complete("short"))
	r.status = grpcInvalid
	r.all()
	r.status = 0
	r.tick()
	r.want(3, ledger.Replay)
}

// Times of another proxy are given as times of this one's clock.
func TestTimesOfAnotherClock(t *testing.T) {
	r := ready(t)
	began := r.now()
	_, a := r.want(1, ledger.First)
	r.pass(3 * time.Second)
	r.store.Settle(a.Lease, complete("hello"))
	r.all()
	wall := int64(1_700_000_000_000_000_000)
	r.pass(time.Second)
	shift := wall - int64(r.now())
	key := r.store.recordKey(&[32]byte{1})
	old, _ := decodeRecord(r.cluster.Keys[key].Value)
	old.claimed, old.settled = old.claimed+ledger.Mono(shift), old.settled+ledger.Mono(shift)
	r.cluster.Keys[key].Value = old.encode()
	r.store.env.Wall = func() int64 { return int64(r.now()) + shift }
	if _, a := r.want(1, ledger.Replay); a.Prior.Claimed != began || a.Prior.Settled != began+ledger.Mono(3*time.Second) {
		t.Errorf("claimed %v, settled %v, began %v", a.Prior.Claimed, a.Prior.Settled, began)
	}
}
