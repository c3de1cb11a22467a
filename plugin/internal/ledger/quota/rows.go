package quota

import (
	"encoding/binary"

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

// Change is what happens to one row.
type Change struct {
	Row   uint64
	Delta state.Counts
}

func minus(d state.Counts) state.Counts { return state.Counts{}.Minus(d) }
