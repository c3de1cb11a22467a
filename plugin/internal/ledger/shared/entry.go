package shared

import (
	"github.com/callonce/callonce/plugin/internal/ledger"
	"github.com/callonce/callonce/plugin/internal/ledger/quota"
	"github.com/callonce/callonce/plugin/internal/ledger/record"
	"github.com/callonce/callonce/plugin/internal/ledger/state"
)

// found is what the state machine needs to know of an entry; of nil, that there is none. fingerprint is that of the asking call,
// nil where nobody asks.
func found(e record.Entry, fingerprint *[32]byte) (f state.Found) {
	switch {
	case e == nil:
		return f
	case !e.Readable():
		return state.Found{Unreadable: true, Expires: e.ExpiresAt()}
	}
	f = state.Found{
		State: e.State(), Expires: e.ExpiresAt(), Attempt: e.Attempt(), Fence: e.Fence(), Holder: e.Holder(),
		Task: e.Flags()&record.FlagTask != 0, Shed: e.Flags()&record.FlagShed != 0, Held: e.Flags()&record.FlagHeld != 0,
		Elsewhere: e.Flags()&record.FlagElsewhere != 0,
	}
	f.Same = fingerprint != nil && e.Fingerprint() == *fingerprint
	return f
}

// expired reports whether an entry counts for nothing any more.
func expired(e record.Entry, now ledger.Mono) bool {
	f := found(e, nil)
	return f.Expired(now)
}

// expires is when an entry that is settled now is free again.
func expires(e record.Entry, now ledger.Mono) ledger.Mono {
	return state.Expires(e.Claimed(), now, e.TTL(), e.Window())
}

// turned is an entry that is settled now.
func turned(e record.Entry, to ledger.State, now ledger.Mono, why ledger.Why) record.Turned {
	return record.Turned{To: to, Settled: now, Expires: expires(e, now), Why: why}
}

// rowsOf are the rows that an entry counts in.
func rowsOf(e record.Entry) quota.Rows { return quota.RowsOf(e.Policy(), e.Principal(), e.Scope()) }
