package guard

import (
	"encoding/binary"

	"github.com/callonce/callonce/plugin/internal/ledger"
)

// Repeats may wait in another worker than the one in which the call ends. So a worker that
// has any names, in one record that all share, a queue of its own, and until when it has
// them; who settles a call of a tool whose repeats wait sends the key's id to each. What is
// lost on the way the next tick finds.
//
//	record  magic 'c' 'q', format, number | of each worker: queue u32, until u64. Little endian

// Queues are messages between the workers of a process.
type Queues interface {
	// Queue is this worker's own; ok is false where it has none.
	Queue() (queue uint32, ok bool)
	// Send hands a message to the worker of a queue. It may be lost.
	Send(queue uint32, message []byte)
}

const (
	wakesFormat = 1
	wakesHead   = 4
	wakesEach   = 12
	mostWakes   = 64
	wakesTries  = 16

	// listensFor is how much longer than needed a worker says that it has repeats that wait:
	// so it need not say it again for each.
	listensFor = 30 * tickEvery
)

type wakes struct {
	table  ledger.Table
	key    string
	queues Queues
	until  ledger.Mono // as this worker has last said
	buf    []byte
}

// MostWakeBytes is what key and value of the record take at most.
func MostWakeBytes(namespace string) int {
	return len(wakesKey(namespace)) + wakesHead + mostWakes*wakesEach
}

func wakesKey(namespace string) string { return "callonce/" + namespace + "/w" }

// each calls f with the workers in a record. ok is false where the bytes are none.
func eachWake(b []byte, f func(queue uint32, until ledger.Mono)) (ok bool) {
	if len(b) < wakesHead || b[0] != 'c' || b[1] != 'q' || b[2] != wakesFormat || int(b[3]) > mostWakes || len(b) != wakesHead+int(b[3])*wakesEach {
		return false
	}
	for b = b[wakesHead:]; len(b) > 0; b = b[wakesEach:] {
		f(binary.LittleEndian.Uint32(b), ledger.Mono(binary.LittleEndian.Uint64(b[4:])))
	}
	return true
}

// listen makes sure that this worker hears of keys that settle until then. It reports whether
// others have not known that before.
func (w *wakes) listen(until, now ledger.Mono) bool {
	if w.queues == nil || until <= w.until {
		return false
	}
	queue, ok := w.queues.Queue()
	if !ok {
		return false
	}
	until += listensFor
	for range wakesTries {
		b, cas, found, err := w.table.Get(w.key)
		if err != nil {
			return false
		}
		if !found {
			cas = ledger.InsertIfAbsent
		}
		w.buf = append(w.buf[:0], 'c', 'q', wakesFormat, 0)
		n := 0
		valid := eachWake(b, func(other uint32, t ledger.Mono) {
			if other != queue && t >= now && n < mostWakes-1 {
				w.append(other, t)
				n++
			}
		})
		if found && !valid {
			return false // not ours: left alone
		}
		w.append(queue, until)
		w.buf[3] = byte(n + 1)
		switch written, err := w.table.Set(w.key, w.buf, cas); {
		case err != nil:
			return false
		case written:
			w.until = until
			return true
		}
	}
	return false
}

func (w *wakes) append(queue uint32, until ledger.Mono) {
	w.buf = binary.LittleEndian.AppendUint32(w.buf, queue)
	w.buf = binary.LittleEndian.AppendUint64(w.buf, uint64(until))
}

// tell sends the id of a key that has settled to the other workers that have repeats that wait.
func (w *wakes) tell(id [32]byte, now ledger.Mono) {
	if w.queues == nil {
		return
	}
	b, _, found, err := w.table.Get(w.key)
	if err != nil || !found {
		return
	}
	own, have := uint32(0), false
	if w.until >= now {
		own, have = w.queues.Queue()
	}
	message := append(w.buf[:0], id[:]...)
	w.buf = message
	eachWake(b, func(queue uint32, until ledger.Mono) {
		if until >= now && !(have && queue == own) {
			w.queues.Send(queue, message)
		}
	})
}
