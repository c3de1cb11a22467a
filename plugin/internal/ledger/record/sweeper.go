package record

import "github.com/callonce/callonce/plugin/internal/ledger"

// One record says who sweeps.
//
//	sweeper  magic 'c' 'w', format, 0 | epoch u32 | sweeper u64 | last step i64
const (
	sweeperFormat = 1
	SweeperSize   = 24
)

// Sweeper is who sweeps, in which epoch, and when it did its last step.
type Sweeper struct {
	Epoch uint32
	Who   uint64
	Last  ledger.Mono
}

// ValidSweeper reports whether the bytes are a sweeper record.
func ValidSweeper(b []byte) bool {
	return len(b) == SweeperSize && is(b, SweeperSize, 'w', sweeperFormat)
}

// ReadSweeper reads a valid record.
func ReadSweeper(b []byte) Sweeper {
	return Sweeper{le.Uint32(b[4:]), le.Uint64(b[8:]), ledger.Mono(le.Uint64(b[16:]))}
}

// AppendSweeper appends the record.
func AppendSweeper(dst []byte, s Sweeper) []byte {
	dst = append(dst, 'c', 'w', sweeperFormat, 0)
	dst = le.AppendUint32(dst, s.Epoch)
	dst = le.AppendUint64(dst, s.Who)
	return le.AppendUint64(dst, uint64(s.Last))
}
