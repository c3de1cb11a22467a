package hostsim

import (
	"math"
	"strings"
	"sync"
	"testing"
)

// Case 28: {absent, present} × {cas 0, right, wrong, MaxUint32}. That Envoy agrees is shown by the scenario "shared".
func TestSetByCAS(t *testing.T) {
	for _, c := range []struct {
		name    string
		present bool
		cas     func(own uint32) uint32
		want    Status
	}{
		{"absent, 0", false, func(uint32) uint32 { return 0 }, StatusOK},
		{"absent, some", false, func(uint32) uint32 { return 77 }, StatusOK},
		{"absent, insert only", false, func(uint32) uint32 { return InsertOnly }, StatusOK},
		{"present, 0", true, func(uint32) uint32 { return 0 }, StatusOK},
		{"present, right", true, func(own uint32) uint32 { return own }, StatusOK},
		{"present, wrong", true, func(own uint32) uint32 { return own + 1 }, StatusCasMismatch},
		{"present, insert only", true, func(uint32) uint32 { return InsertOnly }, StatusCasMismatch},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := NewStore()
			own := uint32(0)
			if c.present {
				s.Set("", "k", []byte("old"), 0)
				_, own, _ = s.Get("", "k")
			}
			if got := s.Set("", "k", []byte("new"), c.cas(own)); got != c.want {
				t.Errorf("set: got %v, want %v", got, c.want)
			}
			value, cas, ok := s.Get("", "k")
			want := map[Status]string{StatusOK: "new", StatusCasMismatch: "old"}[c.want]
			if !ok || string(value) != want {
				t.Errorf("value: got %q, want %q", value, want)
			}
			if c.want == StatusOK && cas == own {
				t.Error("a set that happened left the cas as it was")
			}
		})
	}
}

func TestStoreCountsCASForTheWholeProcess(t *testing.T) {
	s := NewStore()
	s.Set("", "a", nil, 0)
	s.Set("other", "b", nil, 0)
	_, a, _ := s.Get("", "a")
	_, b, _ := s.Get("other", "b")
	if b != a+1 {
		t.Errorf("cas of the second key: got %d, want %d", b, a+1)
	}
	s.lastCAS = math.MaxUint32 - 1
	for range 2 {
		s.Set("", "a", nil, 0)
	}
	if _, a, _ = s.Get("", "a"); a == 0 {
		t.Error("0 was handed out as a cas: a set with it would not compare")
	}
}

func TestStoreKeepsEmptyValuesAndScopes(t *testing.T) {
	s := NewStore()
	s.Set("x", "k", nil, 0)
	if v, _, ok := s.Get("x", "k"); !ok || len(v) != 0 {
		t.Errorf("empty value: got %q, %v", v, ok)
	}
	if _, _, ok := s.Get("y", "k"); ok {
		t.Error("another vm_id sees the key")
	}
	s.Set("x", "long", []byte("value"), 0)
	if got := s.Bytes("x"); got != len("k")+len("long")+len("value") {
		t.Errorf("bytes: got %d", got)
	}
	if got := strings.Join(s.Keys("x"), " "); got != "k long" {
		t.Errorf("keys: got %q", got)
	}
	v, _, _ := s.Get("x", "long")
	v[0] = 'X'
	if again, _, _ := s.Get("x", "long"); string(again) != "value" {
		t.Error("a change of the returned value reached the store")
	}
}

// The table lives as long as one host with its vm_id does.
func TestStoreGoesWithItsLastHost(t *testing.T) {
	s := NewStore()
	share := func(c *Config, _ *ProxyOptions) { c.Store = s }
	t.Run("hosts", func(t *testing.T) {
		a, b := newRig(t, share), newRig(t, share)
		a.do("POST", "/ok", "A", "rh sharedset k v 0", "x")
		a.host.Close()
		b.do("POST", "/ok", "B", "rh sharedget k", "x")
		if got := b.end("B"); !hasPrefix(got, `rh sharedget k -> "v"`) {
			t.Errorf("the second host does not see what the first stored: %q", got)
		}
	})
	if got := s.Keys("vmid"); len(got) != 0 {
		t.Errorf("left after the last host: %q", got)
	}
}

// Two workers add 1 eight times a thousand times, by compare-and-swap.
func TestCompareAndSwapLosesNothing(t *testing.T) {
	r := newRig(t, func(c *Config, _ *ProxyOptions) { c.Workers = 2 })
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() { r.do("POST", "/ok", string(rune('A'+i)), "rh incr n 1000", "x") })
	}
	wg.Wait()
	if got, _, _ := r.host.Store().Get("vmid", "n"); string(got) != "8000" {
		t.Errorf("got %s, want 8000", got)
	}
}

func TestMetricsByName(t *testing.T) {
	r := newRig(t, func(c *Config, _ *ProxyOptions) { c.Workers = 2 })
	for i := range 4 {
		r.do("POST", "/ok", string(rune('A'+i)), "rh counter hits 2; rh gauge level -3; rh histogram size 10", "x")
	}
	got := r.host.Metrics()
	for name, want := range map[string]int64{"hits": 8, "level": -12, "size": 4} {
		if got[name] != want {
			t.Errorf("%s: got %d, want %d", name, got[name], want)
		}
	}
}
