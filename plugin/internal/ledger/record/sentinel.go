package record

// The sentinel holds the salt of the hashes, without which chosen keys could fill few
// buckets, and the table's shape.
//
//	sentinel  magic 'c' 's', format, 0 | salt 24 | buckets, pages, piece bytes, worker slots u32
const (
	sentinelFormat = 1
	SentinelSize   = 44
)

// Sentinel is the record, in place.
type Sentinel []byte

// Valid reports whether the bytes are a sentinel.
func (s Sentinel) Valid() bool {
	return len(s) == SentinelSize && is(s, SentinelSize, 's', sentinelFormat)
}

// Salt is the salt of digests and buckets, and that of pages.
func (s Sentinel) Salt() (salt [2]uint64, pages uint64) {
	return [2]uint64{le.Uint64(s[4:]), le.Uint64(s[12:])}, le.Uint64(s[20:])
}

// SameShape reports whether two sentinels are of tables of the same shape.
func (s Sentinel) SameShape(t Sentinel) bool { return string(s[28:]) == string(t[28:]) }

// NewSentinel makes one of a random salt and the numbers of the table's shape.
func NewSentinel(salt *[24]byte, shape [4]int) Sentinel {
	b := append(make([]byte, 0, SentinelSize), 'c', 's', sentinelFormat, 0)
	b = append(b, salt[:]...)
	for _, n := range shape {
		b = le.AppendUint32(b, uint32(n))
	}
	return b
}
