package tools

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// checkout makes a folder that Root takes for a checkout, and goes there.
func checkout(t *testing.T) {
	t.Helper()
	dir := t.TempDir()
	if err := os.MkdirAll(filepath.Join(dir, "e2e", "deep"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "e2e", "envoy.version"), []byte("1.0.0\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	t.Chdir(filepath.Join(dir, "e2e", "deep"))
}

func TestInstalledOnce(t *testing.T) {
	checkout(t)
	var mu sync.Mutex
	filled := 0
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			dir, err := installed("thing", []byte("1"), func(_ context.Context, dir string) error {
				mu.Lock()
				defer mu.Unlock()
				filled++
				return os.WriteFile(filepath.Join(dir, "file"), nil, 0o644)
			})
			if err != nil || !exists(filepath.Join(dir, "file")) {
				t.Errorf("want a filled folder, got %q, %v", dir, err)
			}
		})
	}
	all.Wait()
	if filled != 1 {
		t.Errorf("want one installation, got %d", filled)
	}
}

// One tool may take long, and another is installed meanwhile.
func TestInstalledBesideAnother(t *testing.T) {
	checkout(t)
	nothing := func(context.Context, string) error { return nil }
	if _, err := installed("long", []byte("1"), func(context.Context, string) error {
		other := make(chan error, 1)
		go func() {
			_, err := installed("other", []byte("1"), nothing)
			other <- err
		}()
		select {
		case err := <-other:
			return err
		case <-time.After(10 * time.Second):
			return errors.New("the other one waits")
		}
	}); err != nil {
		t.Error(err)
	}
}

func TestInstalledTriesAgainAfterAFailure(t *testing.T) {
	checkout(t)
	_, err := installed("thing", []byte("1"), func(_ context.Context, dir string) error {
		os.WriteFile(filepath.Join(dir, "half"), nil, 0o644)
		return errors.New("no network")
	})
	if err == nil || !strings.Contains(err.Error(), "install thing (") || !strings.Contains(err.Error(), ": no network") {
		t.Fatalf("want an error that names the tool and the cause, got %v", err)
	}
	dir, err := installed("thing", []byte("1"), func(context.Context, string) error { return nil })
	if err != nil || exists(filepath.Join(dir, "half")) {
		t.Errorf("want a fresh folder, got %q with the half installation's file (%v)", dir, err)
	}
	other, err := installed("thing", []byte("2"), func(context.Context, string) error { return nil })
	if err != nil || other == dir {
		t.Errorf("other pins: want another folder, got %q, %v", other, err)
	}
}

func TestRunTellsTheCommandAndItsOutput(t *testing.T) {
	err := run(t.Context(), t.TempDir(), "sh", "-c", "echo could not resolve host; exit 1")
	if err == nil || !strings.Contains(err.Error(), "could not resolve host") || !strings.Contains(err.Error(), "sh -c") {
		t.Errorf("want the command and what it printed, got %v", err)
	}
}

func TestRootOutsideACheckout(t *testing.T) {
	t.Chdir(t.TempDir())
	if root, err := Root(); err == nil || !strings.Contains(err.Error(), "e2e/envoy.version") {
		t.Errorf("want an error that says what was looked for, got %q, %v", root, err)
	}
}

func TestEnvoyNamedWrongly(t *testing.T) {
	for variable, find := range map[string]func() (string, error){"ENVOY": Envoy, "ENVOY_OLDEST": OldestEnvoy} {
		t.Setenv(variable, "/no/such/envoy")
		if got, err := find(); err == nil || !strings.HasPrefix(err.Error(), variable+": ") {
			t.Errorf("want an error that names %s, got %q, %v", variable, got, err)
		}
	}
}
