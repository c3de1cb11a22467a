package scratch

import "testing"

func TestKeep(t *testing.T) {
	if b := Keep(make([]byte, 10, Most)); len(b) != 0 || cap(b) != Most {
		t.Errorf("a buffer of %d bytes came back with %d of %d", Most, len(b), cap(b))
	}
	if b := Keep(make([]byte, 0, Most+1)); b != nil {
		t.Errorf("a buffer of %d bytes was kept", cap(b))
	}
	// Bytes count, not elements.
	if b := Keep(make([][2]string, 0, Most/8)); b != nil {
		t.Errorf("%d pairs were kept", cap(b))
	}
	if allocs := testing.AllocsPerRun(10, func() { kept = Keep(kept) }); allocs != 0 {
		t.Errorf("%v allocations", allocs)
	}
}

var kept = make([]byte, 100)
