package abi

import "testing"

// A status is named as the ABI names it; one that it does not have is its number.
func TestStatusIsNamed(t *testing.T) {
	for s, want := range map[status]string{
		statusNotFound: "the proxy returned status 1 (not found)", statusInvalidMemory: "the proxy returned status 6 (invalid memory access)",
		12: "the proxy returned status 12 (unimplemented)", 13: "the proxy returned status 13", 1<<32 - 1: "the proxy returned status 4294967295",
	} {
		if got := s.Error(); got != want || s.err() == nil {
			t.Errorf("%d: %q, want %q", uint32(s), got, want)
		}
	}
	if statusOK.err() != nil {
		t.Error("ok is an error")
	}
}
