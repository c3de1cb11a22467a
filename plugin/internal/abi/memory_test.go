package abi

import (
	"bytes"
	"math/rand/v2"
	"strings"
	"testing"
	"unsafe"
)

// hostWrites is what a host does: it asks for room, and fills it. It gives where that is.
func hostWrites(m *memory, size int, with byte) uintptr {
	at := m.allocate(size)
	into := unsafe.Slice((*byte)(at), size)
	for i := range into {
		into[i] = with
	}
	return uintptr(at)
}

// asked is a host call that is answered well with so many bytes.
func asked(m *memory, size int, with byte) []byte {
	at := hostWrites(m, size, with)
	b, _ := m.answer(at, uint32(size), statusOK)
	return b
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
			got := asked(&m, size, with)
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

// A host that says that it wrote more than it asked room for, or elsewhere, or without asking, is not believed.
func TestTakenIsWhatWasGiven(t *testing.T) {
	var m memory
	take := func(what string, at uintptr, size uint32, st, want status) {
		t.Helper()
		if b, got := m.answer(at, size, st); b != nil || got != want {
			t.Errorf("%s: %d bytes, %v, want none, %v", what, len(b), got, want)
		}
	}
	m.begin()
	at := hostWrites(&m, 10, 1)
	take("11 bytes of 10", at, 11, statusOK, statusInvalidMemory)
	take("bytes that were taken", at, 10, statusOK, statusInvalidMemory)
	at = hostWrites(&m, 10, 1)
	take("no bytes", at, 0, statusOK, statusOK)
	take("bytes of an answer of none", at, 10, statusOK, statusInvalidMemory)
	at = hostWrites(&m, 10, 1)
	take("an answer of no", at, 10, statusNotFound, statusNotFound)
	take("bytes of an answer of no", at, 10, statusOK, statusInvalidMemory)
	hostWrites(&m, 10, 1)
	take("bytes at nowhere", 0, 10, statusOK, statusInvalidMemory)
	at = hostWrites(&m, 10, 1)
	hostWrites(&m, 10, 2)
	take("bytes that lie elsewhere", at, 10, statusOK, statusInvalidMemory)
	at = hostWrites(&m, 10, 1)
	m.begin()
	take("bytes of the last callback", at, 5, statusOK, statusInvalidMemory)
	if b := asked(&m, 10, 3); string(b) != strings.Repeat("\x03", 10) {
		t.Errorf("a host that answers well: %q", b)
	}
}

// A host may answer anything: what comes of it is bytes that it wrote for this call, or a status that says no. What it said before
// stays as it was.
func FuzzAnswers(f *testing.F) {
	f.Add([]byte{1, 10, 0, 10, 0, 0})
	f.Add([]byte{2, 10, 1, 200, 0, 0, 0, 0, 2, 5, 0, 0})
	f.Fuzz(func(t *testing.T, script []byte) {
		var m memory
		m.begin()
		type piece struct {
			bytes []byte
			with  byte
		}
		var kept []piece
		lent := make([]byte, 0, 8)
		with := byte(0)
		for ; len(script) >= 6; script = script[6:] {
			with++
			rooms, size, where, says, st, lends := script[0]%4, int(script[1]), script[2]%4, uint32(script[3]), status(script[4]%4), script[5]%4 == 3
			if lends {
				m.lend(&lent)
			}
			var at uintptr
			for range rooms {
				at = hostWrites(&m, size, with)
			}
			right := at
			switch where {
			case 1:
				at = 0
			case 2:
				at++
			case 3:
				if len(kept) > 0 {
					at = uintptr(unsafe.Pointer(unsafe.SliceData(kept[0].bytes)))
				}
			}
			b, got := m.answer(at, says, st)
			good := st == statusOK && says > 0 && rooms > 0 && at == right && int(says) <= size
			switch {
			case st != statusOK && (got != st || b != nil), st == statusOK && says == 0 && (got != statusOK || b != nil):
				t.Fatalf("status %v with %d bytes: %d, %v", st, says, len(b), got)
			case good != (len(b) > 0), len(b) > 0 && len(b) != int(says), got == statusOK && says > 0 && b == nil:
				t.Fatalf("%d rooms of %d, said %d at %d, %v: %d bytes, %v", rooms, size, says, where, st, len(b), got)
			}
			if bytes.Count(b, []byte{with}) != len(b) || cap(b) != len(b) {
				t.Fatalf("%d bytes of another call", len(b))
			}
			if len(b) > 0 && !(lends && rooms == 1) {
				kept = append(kept, piece{b, with})
			}
			for _, p := range kept {
				if bytes.Count(p.bytes, []byte{p.with}) != len(p.bytes) {
					t.Fatalf("%d bytes of an earlier call were written over", len(p.bytes))
				}
			}
			if with == 255 {
				return
			}
		}
	})
}
