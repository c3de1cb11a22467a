package etcd

import "time"

// Reason is why etcd could not be asked, or could not answer: a label of metrics.
type Reason string

const (
	Unreachable Reason = "unreachable" // no answer in time, no connection, no leader
	NoCluster   Reason = "no_cluster"  // the proxy would not even send
	NotEtcd     Reason = "not_etcd"    // what answered does not speak etcd's gRPC
	Denied      Reason = "denied"      // by etcd's own users and roles
	Exhausted   Reason = "exhausted"   // no space left in etcd, or too many requests
	LeaseGone   Reason = "lease_gone"  // etcd does not know a lease of ours any more
	Refused     Reason = "refused"     // another status of etcd's
	Unreadable  Reason = "unreadable"  // an answer or a record that this build cannot read
	NotReady    Reason = "not_ready"   // this worker has not got its leases yet, or has lost them
	Contended   Reason = "contended"   // others changed the key each time
	Uncounted   Reason = "uncounted"   // the proxy's shared data could not count the call
)

// words say it to an operator.
var words = map[Reason]string{
	Unreachable: "it does not answer in time, cannot be reached, or has no leader",
	NoCluster:   "the proxy knows no cluster of that name, or cannot call it",
	NotEtcd:     "what answers does not speak etcd's gRPC: the cluster must have http2_protocol_options and lead to etcd's client port",
	Denied:      "it denies the request: the user of the client certificate needs a role with readwrite on the prefix",
	Exhausted:   "it has no space left (alarm NOSPACE), or too many requests",
	LeaseGone:   "it does not know a lease that it has granted",
	Refused:     "it refuses the request",
	Unreadable:  "its answer cannot be read",
}

// The status codes of gRPC that mean something here.
const (
	grpcInvalid         = 3
	grpcDeadline        = 4
	grpcNotFound        = 5
	grpcDenied          = 7
	grpcExhausted       = 8
	grpcUnimplemented   = 12
	grpcInternal        = 13
	grpcUnavailable     = 14
	grpcUnauthenticated = 16
)

func reasonOf(status int) Reason {
	switch status {
	case grpcUnavailable, grpcDeadline, grpcInternal:
		return Unreachable
	case grpcUnimplemented:
		return NotEtcd
	case grpcDenied, grpcUnauthenticated:
		return Denied
	case grpcExhausted:
		return Exhausted
	case grpcNotFound:
		return LeaseGone
	}
	return Refused
}

// health is whether etcd takes what it is asked for.
type health struct {
	last    Reason // why the last call that failed did
	failed  int    // calls in a row that failed
	tried   bool   // since the last tick some call failed,
	took    bool   // or a transaction was taken
	known   bool
	up      bool
	told    Reason // what the log says; "" = nothing, or that it is up
	probing bool
}

// mostFailed is how many calls must fail in a row before no more claims are sent: only the tick asks then.
const mostFailed = 8

// down says that claims would only wait in vain.
func (s *Store) down() bool { return s.health.failed >= mostFailed }

func (s *Store) trouble(why Reason) {
	if s.env.Trouble != nil {
		s.env.Trouble(why)
	}
}

func (s *Store) failed(why Reason) {
	h := &s.health
	h.last, h.tried = why, true
	h.failed++
	s.trouble(why)
	if !h.known {
		s.report()
	}
}

// took notes that a transaction was taken: etcd has a quorum, lets us in and, if it put something, has space. What waited is tried again
// at once.
func (s *Store) took(put bool) {
	h := &s.health
	if h.failed > 0 && h.last == Exhausted && !put {
		return
	}
	was := s.down()
	h.failed, h.took = 0, true
	if !h.known {
		s.report()
	}
	if was {
		s.retry()
	}
}

// report says what has changed since the last tick, once. Where some calls failed and others did not, it is as it was.
func (s *Store) report() {
	h := &s.health
	switch {
	case h.took && (!h.tried || !h.known):
		if h.told != "" {
			s.env.Log("the store etcd (cluster " + s.opts.Cluster + ", prefix " + s.opts.Prefix + ") takes claims again")
		}
		h.known, h.up, h.told = true, true, ""
	case h.tried && !h.took:
		if h.told != h.last {
			s.env.Log("the store etcd (cluster " + s.opts.Cluster + ", prefix " + s.opts.Prefix + ") cannot be used: " + words[h.last] + ". Guarded calls get what on_store_error says")
		}
		h.known, h.up, h.told = true, false, h.last
	}
	h.took, h.tried = false, false
	if h.known && s.env.Up != nil {
		s.env.Up(h.up)
	}
}

// probe writes the worker's own key again while calls fail: what it needs is what a claim needs.
func (s *Store) probe() {
	h, me := &s.health, &s.self
	if h.probing || me.incarnation == 0 || h.failed == 0 && (h.up || !h.known) {
		return
	}
	key := s.holderKey(me.incarnation)
	var x txn
	x.compare(key, targetVersion, greater, 0)
	x.then(opPut(key, s.holderValue(), me.alive.id))
	incarnation := me.incarnation
	h.probing = s.txn(&x, func(r *txnResponse) {
		h.probing = false
		if r != nil && !r.succeeded && me.incarnation == incarnation {
			s.lapsed()
		}
	})
}

// Answered takes what has come of a call: etcd's message, or none and a status of gRPC other than 0.
func (s *Store) Answered(id CallID, status int, message []byte) {
	if f := s.calls[id]; f != nil {
		delete(s.calls, id)
		f(status, message)
	}
}

// txn begins a transaction. done is given nil where nothing is known of it: it may have been applied.
func (s *Store) txn(x *txn, done func(*txnResponse)) bool {
	return s.txnWithin(x, s.opts.Timeout, done)
}

func (s *Store) txnWithin(x *txn, timeout time.Duration, done func(*txnResponse)) bool {
	return s.txnStatus(x, timeout, func(_ int, r *txnResponse) { done(r) })
}

// txnStatus is txnWithin, for those who want gRPC's status too.
func (s *Store) txnStatus(x *txn, timeout time.Duration, done func(status int, r *txnResponse)) bool {
	return s.call(ServiceKV, MethodTxn, x.message(), timeout, func(status int, message []byte) {
		if status == 0 {
			if r, ok := decodeTxn(message); ok {
				s.took(x.puts && r.succeeded)
				done(0, &r)
				return
			}
			s.failed(Unreadable)
		}
		if status == grpcNotFound {
			s.leasesGone()
		}
		done(status, nil)
	})
}

func (s *Store) call(service, method string, message []byte, timeout time.Duration, done func(status int, message []byte)) bool {
	id, err := s.env.Caller.Call(service, method, message, timeout)
	if err != nil {
		s.failed(NoCluster)
		return false
	}
	s.calls[id] = func(status int, message []byte) {
		if status != 0 {
			s.failed(reasonOf(status))
		}
		done(status, message)
	}
	return true
}
