package hosttest

import (
	"bytes"
	"regexp"
	"sync"
	"testing"
	"time"
)

// Output takes what a command writes, for a test of one that is made of [github.com/callonce/callonce/hostsim/serve]. The zero value is
// empty, and it may be written to and read at the same time.
type Output struct {
	mu sync.Mutex
	b  bytes.Buffer
}

// Write implements io.Writer. It never fails.
func (o *Output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.Write(p)
}

// String is all that was written so far.
func (o *Output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.String()
}

// patience bounds the wait of Find. It is long because the machine may be busy.
const patience = 20 * time.Second

// Find waits until the output matches a regular expression, and gives what matched: the whole, and each group. It ends the test
// where nothing has after 20 seconds.
func (o *Output) Find(t testing.TB, pattern string) []string {
	t.Helper()
	re := regexp.MustCompile(pattern)
	for deadline := time.Now().Add(patience); ; time.Sleep(10 * time.Millisecond) {
		if m := re.FindStringSubmatch(o.String()); m != nil {
			return m
		}
		if time.Now().After(deadline) {
			t.Fatalf("%q never came:\n%s", pattern, o.String())
		}
	}
}
