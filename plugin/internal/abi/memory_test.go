package abi

import (
	"bytes"
	"math/rand/v2"
	"testing"
	"unsafe"
)

// hostWrites is what a host does: it asks for room, and fills it.
func hostWrites(m *memory, size int, with byte) {
	into := unsafe.Slice((*byte)(m.allocate(size)), size)
	for i := range into {
		into[i] = with
	}
}

// What the host was given room for is its own until the callback returns: nothing that it
// writes reaches another piece, or beyond the end of one.
func TestMemoryPiecesDoNotMeet(t *testing.T) {
	var m memory
	random := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		m.begin()
		type piece struct {
			bytes []byte
			with  byte
		}
		var pieces []piece
		lent := bytes.Repeat([]byte{0xEE}, 64)[:0]
		for i := range 40 {
			size := 1 + random.IntN(4000)
			if random.IntN(20) == 0 {
				size += scratchBytes
			}
			with := byte(1 + i)
			lends := random.IntN(10) == 0
			if lends {
				m.lend(&lent)
			}
			hostWrites(&m, size, with)
			got := m.taken(uint32(size))
			if len(got) != size || cap(got) != size {
				t.Fatalf("%d bytes came back as %d of %d", size, len(got), cap(got))
			}
			if lends {
				if &got[0] != &lent[0] {
					t.Fatal("the bytes are not where they were to go")
				}
				continue // it is written again
			}
			pieces = append(pieces, piece{got, with})
		}
		for _, p := range pieces {
			if bytes.Count(p.bytes, []byte{p.with}) != len(p.bytes) {
				t.Fatalf("a piece of %d bytes was written over", len(p.bytes))
			}
		}
	}
}

// Guard bytes stand around what is lent, and around the scratch.
func TestMemoryStaysInItsBounds(t *testing.T) {
	const guards = 16
	for _, size := range []int{1, 100, scratchBytes} {
		all := bytes.Repeat([]byte{0xA5}, guards+scratchBytes+guards)
		m := memory{scratch: all[guards : guards+scratchBytes : guards+scratchBytes]}
		m.begin()
		hostWrites(&m, size, 1)
		lent := all[guards : guards+size : guards+size]
		m.lend(&lent)
		hostWrites(&m, size, 2)
		for i, c := range all {
			if (i < guards || i >= guards+scratchBytes) && c != 0xA5 {
				t.Fatalf("%d bytes: byte %d was written over", size, i)
			}
		}
	}
}

// Each callback begins at the scratch's front: after many, nothing is allocated.
func TestMemoryBeginsAgain(t *testing.T) {
	var m memory
	m.begin()
	first := m.allocate(100)
	m.taken(100)
	if m.allocate(100) == first {
		t.Error("the same room was given twice in one callback")
	}
	if n := testing.AllocsPerRun(100, func() {
		m.begin()
		if m.allocate(100) != first {
			t.Error("a callback did not begin at the front")
		}
		m.allocate(scratchBytes - 100)
	}); n > 0 {
		t.Errorf("%v allocations for each callback", n)
	}
	// A buffer that was lent and not used is not where the next callback's bytes go.
	var kept []byte
	m.lend(&kept)
	m.begin()
	hostWrites(&m, 10, 7)
	if kept != nil {
		t.Error("bytes went to what an earlier callback lent")
	}
}

// A host that says that it wrote more than it asked room for, or anything without asking,
// is not believed.
func TestTakenIsWhatWasGiven(t *testing.T) {
	var m memory
	m.begin()
	m.allocate(10)
	if b := m.taken(11); b != nil {
		t.Errorf("11 bytes of 10: %d", len(b))
	}
	m.allocate(10)
	if b := m.taken(0); b != nil {
		t.Error("no bytes are some")
	}
	m.begin()
	if b := m.taken(5); b != nil {
		t.Errorf("without room: %d bytes", len(b))
	}
	m.allocate(10)
	m.taken(10)
	if b := m.taken(10); b != nil {
		t.Error("bytes were taken twice")
	}
}
