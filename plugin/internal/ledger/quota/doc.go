// Package quota keeps what limits allow: rows of counts for each policy, principal and scope, in pages of shared data, and what one worker
// has cached of them for its next claims. It does not know what is counted: a change of a row is all it sees.
//
// A row is at any instant at least what the buckets hold, since quota is reserved before a bucket says so and returned after: limits are never
// exceeded. A crash leaves a row too high; the recount puts it right (recount.go).
package quota

import (
	"encoding/binary"

	"github.com/callonce/callonce/plugin/internal/ledger"
	"github.com/callonce/callonce/plugin/internal/ledger/record"
	"github.com/callonce/callonce/plugin/internal/ledger/state"
)

var le = binary.LittleEndian

// The levels at which limits count, innermost first.
const (
	Scope = iota
	Principal
	Policy
	Levels
)

// Rows are the rows that one entry counts in, by level.
type Rows [Levels]uint64

// RowsOf gives the rows of an entry.
func RowsOf(policy, principal, scope uint64) Rows {
	return Rows{
		Scope:     record.Mix(record.Mix(policy+3) ^ scope),
		Principal: record.Mix(record.Mix(policy+2) ^ principal),
		Policy:    record.Mix(policy + 1),
	}
}

// Caps are the limits of one level; 0 = none.
func Caps(l *ledger.Limits, level int) state.Counts {
	switch level {
	case Scope:
		return state.Counts{Entries: int32(l.EntriesPerScope), InFlight: int32(l.InFlightPerScope), Tombs: int32(l.TombstonesPerScope)}
	case Principal:
		return state.Counts{Entries: int32(l.EntriesPerPrincipal), InFlight: int32(l.InFlightPerPrincipal)}
	}
	return state.Counts{Entries: int32(l.Entries), InFlight: int32(l.InFlight)}
}

// Change is what happens to one row.
type Change struct {
	Row   uint64
	Delta state.Counts
}

func minus(d state.Counts) state.Counts { return state.Counts{}.Minus(d) }
