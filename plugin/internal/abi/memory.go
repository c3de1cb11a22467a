package abi

import "unsafe"

// memory is where the host puts what it hands over. It asks for room in the middle of
// a host call, and copies its bytes there.
//
// What it gives lies in scratch by default, and is valid until the callback that is
// running returns: the next one begins at the front again. A caller that needs the
// bytes for longer lends a buffer of its own (give).
type memory struct {
	scratch []byte // of this VM, for good
	used    int
	into    *[]byte // where the next bytes go instead, nil = scratch
	last    []byte  // what was given out last
}

// scratchBytes is enough for what a call and its answer of a few KiB need. What does
// not fit is allocated, and is the collector's.
const scratchBytes = 64 << 10

// begin starts a callback.
func (m *memory) begin() {
	m.used, m.into, m.last = 0, nil, nil
}

// lend makes the next bytes go to a buffer that the caller keeps. It grows as needed,
// and what was in it is lost.
func (m *memory) lend(buf *[]byte) { m.into = buf }

// allocate gives the host room for size bytes.
func (m *memory) allocate(size int) unsafe.Pointer {
	m.last = m.room(size)
	return unsafe.Pointer(unsafe.SliceData(m.last))
}

func (m *memory) room(size int) []byte {
	if buf := m.into; buf != nil {
		m.into = nil
		if cap(*buf) < size {
			*buf = make([]byte, size+size/4)
		}
		*buf = (*buf)[:size]
		return *buf
	}
	if size > len(m.scratch)-m.used {
		if m.scratch != nil || size > scratchBytes {
			return make([]byte, max(size, 1))
		}
		m.scratch = make([]byte, scratchBytes)
	}
	b := m.scratch[m.used : m.used+size : m.used+size]
	m.used += size
	return b
}

// answer gives the bytes of a host call that is over, of which the host says where and how many they are. It asks for no room
// when there are none. What it did not put where it was given room is not believed: it would be what some other call left there.
func (m *memory) answer(at uintptr, size uint32, st status) ([]byte, status) {
	b := m.last
	m.into, m.last = nil, nil
	switch {
	case st != statusOK:
		return nil, st
	case size == 0:
		return nil, statusOK
	case uint64(size) > uint64(len(b)), at != uintptr(unsafe.Pointer(unsafe.SliceData(b))):
		return nil, statusInvalidMemory
	}
	return b[:size:size], statusOK
}
