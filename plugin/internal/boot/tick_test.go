package boot

import (
	"testing"
	"time"

	"github.com/callonce/callonce/plugin/internal/policy"
)

func TestTickPeriod(t *testing.T) {
	for times, want := range map[string]time.Duration{
		``:                          time.Second,
		`,"ttl":"2s"`:               time.Second,
		`,"ttl":"10s","lease":"2s"`: time.Second,
		`,"ttl":"1s"`:               250 * time.Millisecond,
		`,"ttl":"1s"},"q":{"server":"t","anonymous":true`: 250 * time.Millisecond,
	} {
		c, mistakes := policy.Parse([]byte(`{"policies":{"p":{"server":"s","anonymous":true` + times + `}},"default":"p"}`))
		if len(mistakes) > 0 {
			t.Fatal(mistakes)
		}
		if got := tickPeriod(c); got != want {
			t.Errorf("%s: %v, expected %v", times, got, want)
		}
	}
}
