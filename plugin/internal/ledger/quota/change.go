package quota

// How a page takes a change that comes from a bucket read at an epoch. The recount counts buckets while claims go on; the epoch says
// whether its count has seen this bucket before or after the change.
type taking uint8

const (
	// plain: no recount has counted the bucket yet, or none is under way.
	plain taking = iota
	// shadowed: the recount under way has counted the bucket without the change, so its result must know of it.
	shadowed
	// stale: the bucket has been counted since, with or without the change: there is nothing to say.
	stale
)

func (p Page) takes(epoch uint32) taking {
	switch {
	case epoch < p.Installed():
		return stale
	case epoch == p.opened() && p.opened() != p.Installed():
		return shadowed
	}
	return plain
}

// add adds what a change does to a row, and to its shadow where the recount must know.
func (r *pageRow) add(c *Change, how taking) {
	r.main = r.main.Plus(c.Delta)
	if how == shadowed {
		r.shadow = r.shadow.Plus(c.Delta)
	}
}

// appendChanged appends the page as it is with changes. ok is false where they are stale.
func (p Page) appendChanged(dst []byte, changes []Change, epoch uint32) (out []byte, ok bool) {
	how := p.takes(epoch)
	if how == stale {
		return dst, false
	}
	dst = appendPage(dst, p.opened(), p.Installed())
	for rest := p.rows(); len(rest) > 0; rest = rest[RowSize:] {
		r := readRow(rest)
		for i := range changes {
			if changes[i].Row == r.key {
				r.add(&changes[i], how)
			}
		}
		dst = appendRow(dst, r)
	}
	for i := range changes {
		if p.has(changes[i].Row) || firstOf(changes, i) != i {
			continue
		}
		r := pageRow{key: changes[i].Row}
		for j := range changes[i:] {
			if c := &changes[i+j]; c.Row == r.key {
				r.add(c, how)
			}
		}
		dst = appendRow(dst, r)
	}
	return dst, true
}

// firstOf is the index of the first change of the same row.
func firstOf(changes []Change, i int) int {
	for j := range changes {
		if changes[j].Row == changes[i].Row {
			return j
		}
	}
	return i
}
