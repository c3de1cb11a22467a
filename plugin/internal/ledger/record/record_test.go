package record

import (
	"bytes"
	"errors"
	"testing"
	"time"

	"github.com/callonce/callonce/plugin/internal/ledger"
)

func someBucket() []byte {
	var b []byte
	for n := range 3 {
		c := ledger.Claim{ID: [32]byte{byte(n)}, Fingerprint: [32]byte{9}, Policy: 1, Principal: 2, Scope: 3, Session: 4, Request: 5, Tool: 10}
		c.Terms = ledger.Terms{TTL: 1500 * time.Microsecond, Window: 7 * time.Millisecond, LeaseTTL: time.Second}
		b, _ = AppendClaimed(nil, b, &c, &ledger.Lease{Fence: uint64(n + 1), Holder: 6, Claimed: 8, Attempt: 1 << 20})
	}
	return b
}

// The bytes of each record are what tables in use hold: a change of one is a new format.
func TestBytes(t *testing.T) {
	random := [24]byte{1, 2, 3}
	reply := ledger.Reply{Status: 200, IDStart: 1, IDEnd: 2, Task: true, Message: []byte("hello")}
	for name, c := range map[string]struct{ got, want []byte }{
		"cursor":      {AppendCursor(nil, Cursor{1, 2, 3}), []byte("cc\x01\x00\x01\x00\x00\x00\x02\x00\x00\x00\x03\x00\x00\x00")},
		"worker slot": {AppendWorkerSlot(nil, 1, 2, 3), []byte("ch\x01\x00\x01\x00\x00\x00\x00\x00\x00\x00\x02\x00\x00\x00\x00\x00\x00\x00\x03\x00\x00\x00\x00\x00\x00\x00")},
		"sweeper":     {AppendSweeper(nil, Sweeper{1, 2, 3}), []byte("cw\x01\x00\x01\x00\x00\x00\x02\x00\x00\x00\x00\x00\x00\x00\x03\x00\x00\x00\x00\x00\x00\x00")},
		"marks":       {Marks(nil).Put(0, Mark{1, 2, 3}), []byte("cx\x01\x00\x01\x00\x00\x00\x00\x00\x00\x00\x02\x00\x00\x00\x00\x00\x00\x00\x03\x00\x00\x00\x00\x00\x00\x00")},
		"dues":        {AppendDue(AppendDues(nil), 1, Due{2, 3}), []byte("cd\x01\x00\x01\x00\x00\x00\x00\x00\x00\x00\x02\x00\x00\x00\x00\x00\x00\x00\x03\x00\x00\x00\x00\x00\x00\x00")},
		"sentinel":    {NewSentinel(&random, [4]int{1, 2, 3, 4}), append(append([]byte("cs\x01\x00"), random[:]...), "\x01\x00\x00\x00\x02\x00\x00\x00\x03\x00\x00\x00\x04\x00\x00\x00"...)},
		"reply": {AppendReply(nil, &reply, &[32]byte{7}, 8),
			append(append([]byte("cr\x01\x01\x07"), make([]byte, 31)...), "\x08\x00\x00\x00\x00\x00\x00\x00\xc8\x00\x01\x00\x00\x00\x02\x00\x00\x00hello"...)},
	} {
		if !bytes.Equal(c.got, c.want) {
			t.Errorf("%s: %q, want %q", name, c.got, c.want)
		}
	}
	b := Bucket(someBucket())
	if head := []byte("co\x01\x00\x00\x00\x00\x00\x03\x00\x00\x00\x00\x00\x00\x00"); !bytes.HasPrefix(b, head) || len(b) != BucketHeader+3*EntrySize {
		t.Errorf("a bucket begins with %q", b[:BucketHeader])
	}
	e := b.Find(&[32]byte{1})
	if e == nil || e.State() != ledger.InFlight || e.Fence() != 2 || e.Holder() != 6 || e.Attempt() != 1<<16-1 || e.Policy() != 1 || e.Principal() != 2 || e.Scope() != 3 ||
		e.Claimed() != 8 || e.TTL() != 2e6 || e.Window() != 7e6 || e.LeaseTTL() != 1e9 || e.ExpiresAt() != 8+Foreseeable || e.Fingerprint() != [32]byte{9} ||
		e.Prior() != (ledger.Prior{Known: true, Session: 4, Request: 5, Claimed: 8, Attempt: 1<<16 - 1}) {
		t.Errorf("an entry reads %x", []byte(e))
	}
	stored := Stored{At: Slot{1, 2, 3, 4}, Flags: FlagTask}
	settled := Bucket(AppendSettled(nil, b, e, Turned{ledger.Completed, 20, 30, ledger.Why{Cause: 7, Status: 502}}, &stored))
	s := settled.Find(&[32]byte{1})
	if s == nil || s.State() != ledger.Completed || s.Settled() != 20 || s.ExpiresAt() != 30 || s.Slot() != stored.At || s.Flags() != FlagTask || s.Why() != (ledger.Why{Cause: 7, Status: 502}) || s.Tool() != 10 || settled.Fence() != 3 {
		t.Errorf("settled it reads %x", []byte(s))
	}
	if shed := Entry(AppendShed(nil, s)); shed.Flags() != FlagTask|FlagShed {
		t.Errorf("shed it has flags %d", shed.Flags())
	}
	if gone := Bucket(AppendWithout(nil, b, &[32]byte{1})); gone.Find(&[32]byte{1}) != nil || len(gone) != BucketHeader+2*EntrySize || !ValidBucket(gone) {
		t.Error("an entry that was removed is there")
	}
}

// Bytes that are cut, too long, of another letter, format or length are none of ours.
func TestForeignRecordsAreNone(t *testing.T) {
	reply := AppendReply(nil, &ledger.Reply{IDEnd: 1, Message: []byte("12345")}, &[32]byte{7}, 8)
	for name, c := range map[string]struct {
		sound []byte
		valid func([]byte) bool
		ends  int // extra bytes that make it a longer sound one
	}{
		"bucket":      {someBucket(), ValidBucket, 0},
		"cursor":      {AppendCursor(nil, Cursor{1, 2, 3}), ValidCursor, 0},
		"worker slot": {AppendWorkerSlot(nil, 1, 2, 3), func(b []byte) bool { return WorkerSlot(b).Valid() }, 0},
		"sweeper":     {AppendSweeper(nil, Sweeper{1, 2, 3}), ValidSweeper, 0},
		"marks":       {Marks(nil).Put(0, Mark{1, 2, 3}), func(b []byte) bool { return Marks(b).Valid() }, MarkSize},
		"dues":        {AppendDue(AppendDues(nil), 1, Due{2, 3}), func(b []byte) bool { return Dues(b).Valid() }, DueSize},
		"sentinel":    {NewSentinel(&[24]byte{}, [4]int{}), func(b []byte) bool { return Sentinel(b).Valid() }, 0},
		"reply": {reply, func(b []byte) bool {
			_, ok := ReadReply(b, &[32]byte{7}, 8, uint32(len(reply)))
			return ok
		}, 0},
	} {
		if !c.valid(c.sound) {
			t.Errorf("%s: a sound one is not valid", name)
		}
		for n := range c.sound {
			whole := name == "bucket" && (n-BucketHeader)%EntrySize == 0 && n >= BucketHeader || (name == "marks" || name == "dues") && n == MarksHeader
			if c.valid(c.sound[:n]) != whole {
				t.Errorf("%s: %d of %d bytes: valid %v", name, n, len(c.sound), !whole)
			}
		}
		for n := 1; n < 60; n++ {
			if longer := append(bytes.Clone(c.sound), make([]byte, n)...); c.valid(longer) != (c.ends > 0 && n%c.ends == 0) {
				t.Errorf("%s: with %d bytes more: valid %v", name, n, c.valid(longer))
			}
		}
		for i := range 3 {
			other := bytes.Clone(c.sound)
			if other[i]++; c.valid(other) {
				t.Errorf("%s: another byte %d is taken", name, i)
			}
		}
	}
	if WorkerSlot(AppendWorkerSlot(nil, 1, 2, 0)).Valid() || WorkerSlot(AppendWorkerSlot(nil, 1, 2, Foreseeable+1)).Valid() {
		t.Error("a worker slot with a lease that cannot be is taken")
	}
	var most Marks
	for i := range MostMarks {
		most = most.Put(i, Mark{Call: uint64(i)})
	}
	if !most.Valid() || most.Put(MostMarks, Mark{}).Valid() {
		t.Error("more marks than a record may have are taken")
	}
	if !Bucket("co\x09").Ours() || Bucket("cp\x01").Ours() || Bucket("c").Ours() {
		t.Error("a bucket of another format is not told from others' bytes")
	}
}

// table answers each key with one thing.
type table map[string]string

func (t table) Get(key string) ([]byte, uint32, bool, error) {
	v, ok := t[key]
	if v == "fails" {
		return nil, 0, false, errors.New("no answer")
	}
	return []byte(v), 5, ok, nil
}

func (t table) Set(string, []byte, uint32) (bool, error) { return true, nil }

// Each way that reading a record may end; only foreign bytes are told.
func TestRead(t *testing.T) {
	told := 0
	x := Table{Table: table{"a": "fails", "b": "sound", "c": "foreign", "d": ""}, Foreign: func(string) { told++ }}
	for _, tt := range []struct {
		key  string
		cas  uint32
		st   Status
		told int
	}{{"a", 0, Failed, 0}, {"b", 5, Present, 0}, {"none", ledger.InsertIfAbsent, Absent, 0}, {"c", 0, Foreign, 1}, {"d", 0, Foreign, 1}} {
		told = 0
		_, cas, st := x.Read(tt.key, func(b []byte) bool { return string(b) == "sound" })
		if cas != tt.cas || st != tt.st || told != tt.told || st.OK() != (st == Present || st == Absent) {
			t.Errorf("%s: cas %d, status %d, told %d times", tt.key, cas, st, told)
		}
	}
}
