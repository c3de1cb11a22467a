package operator

import (
	"strconv"
	"time"

	"github.com/callonce/callonce/canonical"
	"github.com/callonce/callonce/plugin/internal/ledger"
)

// Words are what numbers of the ledger mean.
type Words struct {
	Base  string // path of the interface
	Now   ledger.Mono
	Tool  func(number uint64) string // as configured, "" = not known
	Cause func(ledger.Cause) string  // "" = not known
}

// AppendPage appends a page of keys.
func (w *Words) AppendPage(dst []byte, p *ledger.Page) []byte {
	dst = append(dst, `{"keys":[`...)
	for i := range p.Rows {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = w.AppendKey(dst, &p.Rows[i])
	}
	dst = append(dst, ']')
	if p.Next != "" {
		dst = canonical.AppendString(append(dst, `,"next":`...), []byte(p.Next))
	}
	if p.Hidden > 0 {
		dst = number(append(dst, `,"unreadable":`...), int64(p.Hidden))
	}
	return append(dst, '}')
}

// AppendKey appends what operators see of a key.
func (w *Words) AppendKey(dst []byte, r *ledger.Row) []byte {
	operation := Operation(r.Operation)
	path := w.Base + "/" + operation
	if r.At != "" {
		path += "?at=" + Escape(r.At)
	}
	dst = canonical.AppendString(append(dst, `{"path":`...), []byte(path))
	dst = w.appendState(append(dst, ','), r)
	if tool := w.Tool(r.Tool); tool != "" {
		dst = canonical.AppendString(append(dst, `,"tool":`...), []byte(tool))
	}
	if r.Scope != 0 {
		dst = append(append(append(dst, `,"scope":"`...), Operation(r.Scope)...), '"')
	}
	if r.State != ledger.InFlight {
		if cause := w.Cause(r.Why.Cause); cause != "" {
			dst = append(append(append(dst, `,"cause":"`...), cause...), '"')
		}
		if r.Why.Status != 0 {
			dst = number(append(dst, `,"status":`...), int64(r.Why.Status))
		}
	}
	switch {
	case r.Elsewhere:
		dst = append(dst, `,"resolved":"completed_elsewhere"`...)
	case r.Held:
		dst = append(dst, `,"resolved":"refused"`...)
	}
	return append(dst, '}')
}

// AppendOwn appends what a caller sees of a key of its own.
func (w *Words) AppendOwn(dst []byte, r *ledger.Row) []byte {
	return append(w.appendState(append(dst, '{'), r), '}')
}

func (w *Words) appendState(dst []byte, r *ledger.Row) []byte {
	dst = append(append(append(dst, `"operation":"`...), Operation(r.Operation)...), `","state":"`...)
	dst = append(append(dst, States[r.State]...), `","attempt":`...)
	dst = number(dst, int64(r.Attempt))
	since := func(name string, t ledger.Mono) {
		if t != 0 {
			dst = number(append(append(append(dst, `,"`...), name...), `":`...), max(int64(w.Now-t)/int64(time.Millisecond), 0))
		}
	}
	since("age_ms", r.Claimed)
	since("settled_ms_ago", r.Settled)
	if r.Expires != 0 {
		dst = number(append(dst, `,"expires_in_ms":`...), max(int64(r.Expires-w.Now)/int64(time.Millisecond), 0))
	}
	return dst
}

// AppendResolved appends what became of an act. A key that does not take it is shown as it is.
func (w *Words) AppendResolved(dst []byte, ev ledger.Event, r *ledger.Resolution) []byte {
	if r.Done {
		dst = append(append(append(dst, `{"resolved":"`...), Acts[ev]...), `","was":`...)
	} else {
		dst = append(dst, `{"error":"this key cannot be resolved so: only an unknown outcome can be released or refused, and of a call whose answer was not kept it can be said that it completed","is":`...)
	}
	return append(w.AppendKey(dst, &r.Row), '}')
}

// AppendProblem appends why there is no answer.
func AppendProblem(dst []byte, text string) []byte {
	return append(canonical.AppendString(append(dst, `{"error":`...), []byte(text)), '}')
}

// Operation is a number as 16 hex digits.
func Operation(n uint64) string {
	const digits = "0123456789abcdef"
	var b [16]byte
	for i := range b {
		b[i] = digits[n>>(60-4*i)&15]
	}
	return string(b[:])
}

func number(dst []byte, n int64) []byte { return strconv.AppendInt(dst, n, 10) }
