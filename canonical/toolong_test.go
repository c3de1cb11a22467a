//go:build unix && !wasm

package canonical_test

import (
	"strconv"
	"syscall"
	"testing"

	"github.com/callonce/callonce/canonical"
)

// TestTooLong maps memory that is never touched but for the one byte that is named.
func TestTooLong(t *testing.T) {
	if strconv.IntSize == 32 {
		t.Skip("no text can be too long on this machine")
	}
	length := uint64(canonical.MaxLength) + 1
	text, err := syscall.Mmap(-1, 0, int(length), syscall.PROT_READ, syscall.MAP_ANON|syscall.MAP_PRIVATE)
	if err != nil {
		t.Skipf("cannot reserve 2 GiB of addresses: %v", err)
	}
	defer syscall.Munmap(text)
	e := refusal(t, text)
	const want = "JSON: at byte 2147483647: expected at most 2147483647 bytes of text, found 0x00"
	if e.Error() != want || e.Reason != canonical.TooLong {
		t.Errorf("%v, want %s", e, want)
	}
}
