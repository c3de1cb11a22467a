package realtest_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"fmt"
	"net/url"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/server/v3/embed"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/callonce/callonce/plugin/internal/etcd"
	"github.com/callonce/callonce/plugin/internal/ledger"
)

// startEtcd runs one etcd in this process, on free ports, and connects to it.
func startEtcd(t *testing.T) *grpc.ClientConn {
	t.Helper()
	c := embed.NewConfig()
	c.Dir, c.LogLevel = t.TempDir(), "error"
	any := url.URL{Scheme: "http", Host: "127.0.0.1:0"}
	c.ListenClientUrls, c.AdvertiseClientUrls = []url.URL{any}, []url.URL{any}
	c.ListenPeerUrls, c.AdvertisePeerUrls = []url.URL{any}, []url.URL{any}
	c.InitialCluster = c.InitialClusterFromName(c.Name)
	e, err := embed.StartEtcd(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(e.Close)
	select {
	case <-e.Server.ReadyNotify():
	case <-time.After(time.Minute):
		t.Fatal("etcd does not get ready")
	}
	conn, err := grpc.NewClient(e.Clients[0].Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return conn
}

// etcdRaw leaves messages as they are.
type etcdRaw struct{}

func (etcdRaw) Name() string { return "proto" }
func (etcdRaw) Marshal(v any) (mem.BufferSlice, error) {
	return mem.BufferSlice{mem.SliceBuffer(*v.(*[]byte))}, nil
}
func (etcdRaw) Unmarshal(data mem.BufferSlice, v any) error {
	*v.(*[]byte) = data.Materialize()
	return nil
}

var _ encoding.CodecV2 = etcdRaw{}

// natively is a worker's store over a real etcd, called by Go's own gRPC: one message, and the end, also of the stream of signs of life.
type natively struct {
	t     *testing.T
	conn  *grpc.ClientConn
	store *etcd.Store
	ids   etcd.CallID
	came  chan func()
	got   map[ledger.Token]ledger.Answer
	sent  map[string][][]byte
	// lose keeps the answers of calls that were made.
	lose bool
	now  func() ledger.Mono
}

func newNatively(t *testing.T, conn *grpc.ClientConn, lease time.Duration, ttls ...time.Duration) *natively {
	n := &natively{t: t, conn: conn, came: make(chan func(), 100), got: map[ledger.Token]ledger.Answer{}, sent: map[string][][]byte{}}
	began := time.Now()
	n.now = func() ledger.Mono { return ledger.Mono(time.Since(began)) + 1 }
	n.store = etcd.Open(etcd.Env{Caller: n, Sink: n, Now: n.now, Random: func(b []byte) { rand.Read(b) }, Log: func(text string) { t.Log(text) }},
		etcd.Options{Prefix: "/callonce/", Timeout: 5 * time.Second, Lease: lease, TTLs: ttls})
	return n
}

func (n *natively) Call(service, method string, message []byte, timeout time.Duration) (etcd.CallID, error) {
	n.ids++
	id, lose := n.ids, n.lose
	n.sent[method] = append(n.sent[method], bytes.Clone(message))
	go func() {
		ctx, cancel := context.WithTimeout(context.Background(), timeout)
		defer cancel()
		var reply []byte
		err := n.conn.Invoke(ctx, "/"+service+"/"+method, &message, &reply, grpc.ForceCodecV2(etcdRaw{}))
		if lose {
			err = status.Error(codes.Unavailable, "lost")
		}
		n.came <- func() { n.store.Answered(id, int(status.Code(err)), reply) }
	}()
	return id, nil
}

func (n *natively) Answered(t ledger.Token, a ledger.Answer) { n.got[t] = a }

// until plays until done, with a tick every 100 ms.
func (n *natively) until(what string, done func() bool) {
	n.t.Helper()
	deadline := time.After(time.Minute)
	for !done() {
		select {
		case f := <-n.came:
			f()
		case <-time.After(100 * time.Millisecond):
			n.store.Tick(n.now())
		case <-deadline:
			n.t.Fatalf("it never came to that: %s", what)
		}
	}
}

var natives uint32

// ask asks until the store has the leases that it needs.
func (n *natively) ask(key byte, ttl time.Duration, retry bool) (ledger.Token, ledger.Answer) {
	n.t.Helper()
	var t ledger.Token
	var a ledger.Answer
	c := ledger.Claim{ID: [32]byte{key}, Fingerprint: [32]byte{1}, Policy: 1, Session: 3, Request: 4, RetryUnknown: retry, Terms: ledger.Terms{TTL: ttl}}
	n.until("an answer", func() bool {
		natives++
		t = ledger.Token{Stream: natives}
		var now bool
		if a, now = n.store.Ask(t, c); now {
			return a.Verdict != ledger.RefusedUnavailable
		}
		n.until("etcd's answer", func() bool { a, now = n.got[t]; return now })
		return true
	})
	return t, a
}

func (n *natively) want(key byte, ttl time.Duration, retry bool, v ledger.Verdict) (ledger.Token, ledger.Answer) {
	n.t.Helper()
	t, a := n.ask(key, ttl, retry)
	if a.Verdict != v {
		n.t.Fatalf("key %d: got verdict %d, want %d", key, a.Verdict, v)
	}
	return t, a
}

// The store's own code against a real etcd.
func TestLedgerInEtcd(t *testing.T) {
	conn := startEtcd(t)
	const ttl = time.Minute
	one, two := newNatively(t, conn, 2*time.Second, ttl), newNatively(t, conn, 2*time.Second, ttl)
	both := func(what string, done func() bool) {
		t.Helper()
		one.until(what, func() bool { two.until("", func() bool { two.store.Tick(two.now()); return true }); return done() })
	}
	token, a := one.want(1, ttl, false, ledger.First)
	two.want(1, ttl, false, ledger.RefusedInFlight)
	one.store.Settle(a.Lease, ledger.Outcome{Event: ledger.Complete, Reply: ledger.Reply{Status: 200, IDStart: 1, IDEnd: 2, Message: []byte("an answer")}})
	one.store.Forget(token)
	var again ledger.Answer
	both("the settlement", func() bool { _, again = two.ask(1, ttl, false); return again.Verdict != ledger.RefusedInFlight })
	if again.Verdict != ledger.Replay || string(again.Reply.Message) != "an answer" || again.Prior.Session != 3 || again.Prior.Attempt != 1 {
		t.Errorf("got %+v", again)
	}

	token, a = one.want(2, ttl, false, ledger.First)
	one.store.Settle(a.Lease, ledger.Outcome{Event: ledger.Release})
	one.store.Forget(token)
	both("the release", func() bool { _, again = two.ask(2, ttl, false); return again.Verdict != ledger.RefusedInFlight })
	if again.Verdict != ledger.First {
		t.Errorf("after a release: got verdict %d, want first", again.Verdict)
	}

	// A claim of which the answer is lost is released.
	one.lose = true
	lost := ledger.Token{Stream: 1 << 30}
	one.store.Ask(lost, ledger.Claim{ID: [32]byte{3}, Fingerprint: [32]byte{1}, Terms: ledger.Terms{TTL: ttl}})
	one.until("the loss", func() bool { return one.got[lost].Verdict == ledger.RefusedUnavailable })
	one.lose = false
	both("the claim's release", func() bool { _, again = two.ask(3, ttl, false); return again.Verdict != ledger.RefusedInFlight })
	if again.Verdict != ledger.First {
		t.Errorf("after a lost answer: got verdict %d, want first", again.Verdict)
	}

	// A worker that dies leaves an unknown outcome, which stays, and which only those who may take over.
	_, a = one.want(4, ttl, false, ledger.First)
	two.until("the end of the lease", func() bool { _, again = two.ask(4, ttl, false); return again.Verdict != ledger.RefusedInFlight })
	if again.Verdict != ledger.RefusedUnknown {
		t.Errorf("of a dead worker's call: got verdict %d, want unknown", again.Verdict)
	}
	_, taken := two.want(4, ttl, true, ledger.First)
	if taken.Lease.Attempt != 2 || taken.Lease.Fence <= a.Lease.Fence {
		t.Errorf("taken over: attempt %d, fence %d after %d", taken.Lease.Attempt, taken.Lease.Fence, a.Lease.Fence)
	}
	// The dead one wakes up, takes a new incarnation, and its settlement is refused.
	one.store.Settle(a.Lease, ledger.Outcome{Event: ledger.Complete, Reply: ledger.Reply{Message: []byte("late")}})
	one.until("a verdict", func() bool {
		return one.store.Settle(a.Lease, ledger.Outcome{Event: ledger.MarkUnknown}) == ledger.Fenced
	})
	two.want(4, ttl, false, ledger.RefusedInFlight)
	if _, a := one.want(5, ttl, false, ledger.First); a.Lease.Holder == taken.Lease.Holder {
		t.Error("two workers are one holder")
	}

	// What was sent is what etcd's own code would have sent.
	for method, messages := range map[string][][]byte{"Txn": append(one.sent["Txn"], two.sent["Txn"]...), "LeaseGrant": one.sent["LeaseGrant"], "LeaseKeepAlive": two.sent["LeaseKeepAlive"]} {
		if len(messages) == 0 {
			t.Errorf("no %s was sent", method)
		}
		for _, b := range messages {
			m := map[string]proto.Message{"Txn": &pb.TxnRequest{}, "LeaseGrant": &pb.LeaseGrantRequest{}, "LeaseKeepAlive": &pb.LeaseKeepAliveRequest{}}[method]
			if err := proto.Unmarshal(b, m); err != nil {
				t.Fatalf("%s: %v", method, err)
			}
			own, err := proto.MarshalOptions{Deterministic: true}.Marshal(m)
			if err != nil || !bytes.Equal(own, b) || len(m.ProtoReflect().GetUnknown()) > 0 {
				t.Errorf("%s: sent %x, etcd's own code would send %x (%v)", method, b, own, fmt.Sprint(err))
			}
		}
	}
}
