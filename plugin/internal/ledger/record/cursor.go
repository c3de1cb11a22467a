package record

// A cursor goes round in a ring of pieces.
//
//	cursor  magic 'c' 'c', format, 0 | next piece u32 | pieces ever used u32 | lap u32
const (
	cursorFormat = 1
	CursorSize   = 16
)

// Cursor is where a ring's next reply goes. The zero value is that of a ring never used.
type Cursor struct {
	Next uint32 // piece
	Top  uint32 // pieces ever used, less those emptied since
	Lap  uint32 // turns made
}

// Slot is where a reply lies, and in which lap of the cursor it was written.
type Slot struct {
	Ring   uint32
	At     uint32 // its first piece
	Lap    uint32
	Length uint32 // bytes of the reply's record; 0 = there is none
}

// ReadCursor reads a valid record.
func ReadCursor(b []byte) Cursor {
	return Cursor{le.Uint32(b[4:]), le.Uint32(b[8:]), le.Uint32(b[12:])}
}

// ValidCursor reports whether the bytes are a cursor.
func ValidCursor(b []byte) bool { return len(b) == CursorSize && is(b, CursorSize, 'c', cursorFormat) }

// AppendCursor appends its record.
func AppendCursor(dst []byte, c Cursor) []byte {
	dst = append(dst, 'c', 'c', cursorFormat, 0)
	dst = le.AppendUint32(dst, c.Next)
	dst = le.AppendUint32(dst, c.Top)
	return le.AppendUint32(dst, c.Lap)
}
