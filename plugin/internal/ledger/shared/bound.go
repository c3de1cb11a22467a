package shared

import (
	"strconv"

	"github.com/callonce/callonce/plugin/internal/ledger"
	"github.com/callonce/callonce/plugin/internal/ledger/quota"
	"github.com/callonce/callonce/plugin/internal/ledger/record"
)

// Quota is what one policy may keep, for the stated maximum.
type Quota struct {
	Limits     ledger.Limits
	Budget     ledger.Budget
	ReplyBytes int // most bytes of one message
}

// Most states the most keys, and the most bytes of keys and values together, that the
// table can come to hold under a namespace with these policies, whatever is asked. It
// is what the constants and limits allow, not what is in use. Where limits were
// larger before, since this table began, those count.
func (l Layout) Most(namespace string, policies []Quota) (keys int, bytes int64) {
	l = l.filled()
	prefix := len("callonce/" + namespace + "/")
	add := func(n, key, value int) {
		keys += n
		bytes += int64(n) * int64(prefix+key+value)
	}
	digits := func(n int) int { return len(strconv.Itoa(max(n-1, 0))) }
	add(1, len("sentinel"), record.SentinelSize)
	add(1, len("s"), record.SweeperSize)
	add(marksKeys, 2+digits(marksKeys), record.MarksHeader+record.MostMarks*record.MarkSize)
	add(repeatsKeys, 2+digits(repeatsKeys), record.RepeatsHeader+record.MostRepeats*record.RepeatSize)
	add(l.Holders, 2+digits(l.Holders), record.WorkerSlotSize)
	add(l.Buckets, 2+digits(l.Buckets), record.BucketHeader)
	add(l.Pages, 2+digits(l.Pages), quota.PageHeader)
	add(l.Pages, 2+digits(l.Pages), record.DuesHeader)
	entries := 0
	for _, p := range policies {
		entries += p.Limits.Entries
		pieces := max(p.Budget.Bytes/max(l.PieceBytes, 1), 1)
		ring := digits(p.Budget.Ring + 1)
		add(1, 2+ring, record.CursorSize)
		add(pieces, 3+ring+digits(pieces), record.ReplyHeader)
		// A writer that was stalled in the middle of a reply may leave one of its size too
		// many, until the cursor comes round.
		bytes += int64(p.Budget.Bytes) + int64(l.Holders)*int64(min(p.ReplyBytes, p.Budget.Bytes))
	}
	entries = min(entries, l.Buckets*l.Ways)
	bytes += int64(entries) * record.EntrySize
	// A row for each policy, and for each entry at most one principal and one scope; a
	// worker may have cached quota in rows of nothing else, which a crash leaves until the next
	// pass.
	bytes += int64(len(policies)+2*entries+(quota.Levels+quota.MostCachedRows)*l.Holders) * quota.RowSize
	// What ends is written down for rows of entries only.
	bytes += int64(len(policies)+2*entries) * record.DueSize
	return keys, bytes
}
