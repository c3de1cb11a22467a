package canonical

import "crypto/sha256"

// Append appends the canonical form of src, one JSON text, to dst and returns the
// extended buffer; or dst as it was, and the [*Error] of [Doc.Parse].
func Append(dst, src []byte) ([]byte, error) {
	var d Doc
	if err := d.Parse(src); err != nil {
		return dst, err
	}
	return d.Append(dst, d.Root()), nil
}

// Fingerprint is the SHA-256 of the canonical form of src, one JSON text; or the
// [*Error] of [Doc.Parse].
func Fingerprint(src []byte) ([sha256.Size]byte, error) {
	form, err := Append(nil, src)
	if err != nil {
		return [sha256.Size]byte{}, err
	}
	return sha256.Sum256(form), nil
}
