package etcd

import (
	"bytes"
	"testing"
	"time"

	"github.com/callonce/callonce/plugin/internal/ledger"
)

// What is no answer of etcd's is not taken as one.
func TestAnswersThatAreNone(t *testing.T) {
	header := appendBytes(nil, 1, appendNumber(nil, 3, 7))
	for name, b := range map[string][]byte{
		"nothing":                    nil,
		"no revision":                appendNumber(nil, 2, 1),
		"bytes beyond the end":       append(bytes.Clone(header), 9<<3|wireBytes, 9, 0),
		"a tag without a value":      append(bytes.Clone(header), 2<<3|wireVarint),
		"a field of number 0":        append(bytes.Clone(header), 0, 0),
		"a group":                    append(bytes.Clone(header), 2<<3|3),
		"more ranges than asked for": append(bytes.Clone(header), bytes.Repeat(appendBytes(nil, 3, appendBytes(nil, 1, nil)), maxRanges+1)...),
	} {
		if got, ok := decodeTxn(b); ok {
			t.Errorf("%s: taken as %+v", name, got)
		}
	}
	if got, ok := decodeTxn(append(bytes.Clone(header), appendNumber(nil, 2, 1)...)); !ok || !got.succeeded || got.revision != 7 {
		t.Errorf("an answer: taken as %+v, %v", got, ok)
	}
	if got, ok := decodeTxn(appendBytes(nil, 1, []byte{3<<3 | wireVarint})); ok {
		t.Errorf("a header cut short: taken as %+v", got)
	}
}

// What is no record of ours is left alone, and nothing behind its end is read.
func TestRecordsThatAreNone(t *testing.T) {
	r := record{state: ledger.Completed, attempt: 300, nonce: 7, reply: ledger.Reply{Status: 200, IDStart: 1, IDEnd: 3, Message: []byte("hello")}}
	whole := r.encode()
	if got, ok := decodeRecord(whole); !ok || got.attempt != 300 || string(got.reply.Message) != "hello" {
		t.Fatalf("a record: read as %+v, %v", got, ok)
	}
	for n := range recordHead + replyHead {
		if got, ok := decodeRecord(whole[:n:n]); ok {
			t.Errorf("%d bytes of %d: read as %+v", n, len(whole), got)
		}
	}
	for name, change := range map[string]func(b []byte){
		"another magic":              func(b []byte) { b[1] = 'f' },
		"another version":            func(b []byte) { b[2]++ },
		"no state":                   func(b []byte) { b[offState] = 99 },
		"a free one":                 func(b []byte) { b[offState] = byte(ledger.Free) },
		"unknown flags":              func(b []byte) { b[offFlags] = 2 },
		"in flight, with an answer":  func(b []byte) { b[offState] = byte(ledger.InFlight) },
		"an id that ends behind it":  func(b []byte) { b[recordHead+8] = 6 },
		"an id that ends far behind": func(b []byte) { b[recordHead+11] = 0xff },
		"an id that ends too early":  func(b []byte) { b[recordHead+8] = 0 },
	} {
		b := bytes.Clone(whole)
		change(b)
		if got, ok := decodeRecord(b); ok {
			t.Errorf("%s: read as %+v", name, got)
		}
	}
}

// A lease in whole seconds never ends before its time.
func TestSecondsAreRoundedUp(t *testing.T) {
	for d, want := range map[time.Duration]int64{0: 0, 1: 1, time.Second: 1, time.Second + 1: 2, 90 * time.Second: 90} {
		if got := seconds(d); got != want {
			t.Errorf("%v: %d s, expected %d", d, got, want)
		}
	}
}

// A claim is made only while the worker's own leases have not lapsed, and a record gets no lease that ends before it.
func TestLeasesThatEndTooEarly(t *testing.T) {
	const ttl = time.Hour
	now := ledger.Mono(24 * time.Hour)
	s := &Store{env: Env{Now: func() ledger.Mono { return now }}, opts: Options{Lease: 15 * time.Second}}
	begin := func() *self {
		s.self = self{incarnation: 1, longest: ttl, alive: lease{id: 1, signed: now}, running: lease{id: 2, signed: now},
			kept: map[time.Duration]*kept{ttl: {id: 3, granted: now}}}
		return &s.self
	}
	begin()
	if !s.ready(ttl) || s.keptFor(ttl) != 3 {
		t.Fatal("with all leases fresh nothing can be claimed")
	}
	for name, change := range map[string]func(me *self){
		"no sign of life for a lease":  func(me *self) { me.alive.signed = now - ledger.Mono(15*time.Second) },
		"running not kept for a lease": func(me *self) { me.running.signed = now - ledger.Mono(15*time.Second) },
		"kept granted too long ago":    func(me *self) { me.kept[ttl].granted = now - ledger.Mono(stepOf(ttl)) - 1 },
		"running granted for less":     func(me *self) { me.longest = ttl - 1 },
		"no incarnation":               func(me *self) { me.incarnation = 0 },
	} {
		change(begin())
		if s.ready(ttl) {
			t.Errorf("%s: a claim may be made", name)
		}
	}
	begin().kept[ttl].granted = now - ledger.Mono(stepOf(ttl)) - 1
	if id := s.keptFor(ttl); id != 0 {
		t.Errorf("a record gets lease %d, which ends before it", id)
	}
}
