package hostsim

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// What happened since is gone: shared data, metrics, the clock.
func TestRestore(t *testing.T) {
	clock := NewManualClock(time.Unix(0, 0))
	h := seenHost(t, Config{Clock: clock})
	ask(t, h)
	m, err := h.Save()
	if err != nil {
		t.Fatal(err)
	}
	was := clock.Mono()
	for range 2 {
		if got := ask(t, h); got != "2" {
			t.Fatalf("x-seen: got %q, want 2", got)
		}
		clock.Advance(time.Minute)
		if err := h.Restore(m); err != nil {
			t.Fatal(err)
		}
	}
	if clock.Mono() != was {
		t.Errorf("the clock shows %v, want %v", clock.Mono(), was)
	}
}

func TestSaveAndRestoreRefuse(t *testing.T) {
	real := seenHost(t, Config{})
	if _, err := real.Save(); err == nil || !strings.Contains(err.Error(), "ManualClock") {
		t.Errorf("on a real clock: %v", err)
	}
	h := seenHost(t, Config{Clock: NewManualClock(time.Unix(0, 0))})
	h.Wait() // for what its VMs still do at their start
	m, err := h.Save()
	if err != nil {
		t.Fatal(err)
	}
	if err := seenHost(t, Config{Clock: NewManualClock(time.Unix(0, 0))}).Restore(m); err == nil || !strings.Contains(err.Error(), "another host") {
		t.Errorf("another host's: %v", err)
	}
	if _, err := h.Play(0, Request{Method: "GET", Path: "/", Authority: "h"}); err != nil {
		t.Fatal(err)
	}
	h.Wait()
	if _, err := h.Save(); err == nil || !strings.Contains(err.Error(), "1 streams") {
		t.Errorf("with a stream open: %v", err)
	}
	if err := h.Crash(0); err != nil {
		t.Fatal(err)
	}
	if err := h.Restore(m); err == nil || !strings.Contains(err.Error(), "not the one that was saved") {
		t.Errorf("with a dead VM: %v", err)
	}
	if _, err := h.Save(); err == nil || !strings.Contains(err.Error(), "failed") {
		t.Errorf("with a dead VM: %v", err)
	}
}

// seenHost serves the filter that counts requests.
func seenHost(t *testing.T, c Config) *Host {
	t.Helper()
	path := filepath.Join(t.TempDir(), "seen.wasm")
	if err := buildWasm("./testdata/seen", path, "-buildmode=c-shared"); err != nil {
		t.Fatal(err)
	}
	var err error
	if c.Wasm, err = os.ReadFile(path); err != nil {
		t.Fatal(err)
	}
	c.CacheDir = cacheDir
	h, err := New(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { h.Close() })
	return h
}

// ask plays a request and gives the filter's count.
func ask(t *testing.T, h *Host) (seen string) {
	t.Helper()
	_, err := h.Play(0, Request{Method: "GET", Path: "/", Authority: "h", Server: func(a *Arrival) { a.Respond(http.StatusOK, nil) },
		Done: func(r Reply) { seen = r.Header("x-seen") }})
	if err != nil {
		t.Fatal(err)
	}
	h.Wait()
	return seen
}
