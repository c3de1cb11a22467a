package guard

import (
	"strconv"
	"testing"
)

// What one kind of request costs, with the fake host's own allocations in it: compare two
// builds, not the figure with a proxy's.
func BenchmarkFirstCall(b *testing.B) {
	w := newWorld(b)
	g := w.worker(plain)
	b.ReportAllocs()
	for i := range b.N {
		w.send(g, toolCall("1", `{"amount":1}`), "idempotency-key", "k"+strconv.Itoa(i)).answer(404, "text/plain", "no")
	}
}

func BenchmarkReplay(b *testing.B) {
	w := newWorld(b)
	g := w.worker(plain)
	w.send(g, toolCall("1", `{"amount":1}`), "idempotency-key", "k").answer(200, "application/json", okResult)
	b.ReportAllocs()
	for range b.N {
		w.send(g, toolCall("1", `{"amount":1}`), "idempotency-key", "k").stream.Done()
	}
}

func BenchmarkUnkeyedCall(b *testing.B) {
	w := newWorld(b)
	g := w.worker(plain)
	b.ReportAllocs()
	for range b.N {
		w.send(g, toolCall("1", `{"amount":1}`)).stream.Done()
	}
}
