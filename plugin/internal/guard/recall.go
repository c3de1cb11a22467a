package guard

import (
	"crypto/sha256"
	"encoding/binary"
	"slices"
	"strings"

	"github.com/callonce/callonce/plugin/internal/ledger"
	"github.com/callonce/callonce/plugin/internal/policy"
)

// A change of the configuration may make strangers of keys that are still kept. So that
// operators hear of it, shared data keeps what the latest configuration made keys hang on:
// digests and the policies' names, nothing of a call.
//
//	record  magic 'c' 'r', format, number of shapes | shapes u64, the latest first | traits of the latest

const (
	recordFormat = 2
	recordHead   = 4
	mostShapes   = 8
	recallTries  = 16
)

// Started are the shapes of the configurations that one VM has started.
type Started []uint64

// recallKey stands outside of every namespace, all of which begin with callonce/: a
// change of the namespace must be seen too.
func recallKey(plugin string) string { return "callonce:configuration:" + plugin }

// Recall tells, once in a process, what a configuration makes the filter of that name
// forget, and remembers it for the next. What the table contains or refuses changes nothing else.
// It returns the bytes of key and record.
func Recall(table ledger.Table, plugin string, c *policy.Config, started *Started, log Log) (size int) {
	traits := c.Traits()
	now := traits.Append(nil)
	shape := shapeOf(now)
	defer func() { *started = append(*started, shape) }()
	key := recallKey(plugin)
	for range recallTries {
		b, cas, found, err := table.Get(key)
		if err != nil {
			return 0
		}
		shapes, before := readRecord(b)
		if !found {
			cas = ledger.InsertIfAbsent
		}
		if len(shapes) > 0 {
			if shapes[0] == shape {
				return len(key) + len(b)
			}
			// A VM that starts late, or again, has an older configuration, and no other to
			// forget; one that has gone back to it had the latest first.
			if slices.Contains(shapes, shape) && !slices.Contains(*started, shapes[0]) {
				return len(key) + len(b)
			}
		}
		shapes = slices.DeleteFunc(shapes, func(s uint64) bool { return s == shape })
		shapes = append([]uint64{shape}, shapes...)
		record := appendRecord(shapes[:min(len(shapes), mostShapes)], now)
		switch written, err := table.Set(key, record, cas); {
		case err != nil:
			return 0
		case written:
			tellForgotten(traits, before, log)
			return len(key) + len(record)
		}
	}
	return 0
}

func tellForgotten(now policy.Traits, before *policy.Traits, log Log) {
	if before == nil {
		return
	}
	lost, unlike := now.Forgets(*before)
	if len(lost) > 0 {
		log("this configuration is other than the one before it in what keys hang on: " + strings.Join(lost, ", ") +
			". Keys from before are not found again under it: the repeat of a call that began earlier runs again. They are kept for their ttl, and are found again where the change is taken back")
	}
	if len(unlike) > 0 {
		log("this configuration is other than the one before it in what makes two calls the same: " + strings.Join(unlike, ", ") +
			". The repeat of a call that began earlier may be refused as a conflict, or run again where its key is derived")
	}
}

func shapeOf(traits []byte) uint64 {
	sum := sha256.Sum256(traits)
	return binary.LittleEndian.Uint64(sum[:])
}

func appendRecord(shapes []uint64, traits []byte) []byte {
	b := append(make([]byte, 0, recordHead+8*len(shapes)+len(traits)), 'c', 'r', recordFormat, byte(len(shapes)))
	for _, s := range shapes {
		b = binary.LittleEndian.AppendUint64(b, s)
	}
	return append(b, traits...)
}

// readRecord gives nothing for bytes that are no record: they are written over.
func readRecord(b []byte) (shapes []uint64, latest *policy.Traits) {
	if len(b) < recordHead || b[0] != 'c' || b[1] != 'r' || b[2] != recordFormat || len(b) < recordHead+8*int(b[3]) {
		return nil, nil
	}
	n := int(b[3])
	b = b[recordHead:]
	if n == 0 || binary.LittleEndian.Uint64(b) != shapeOf(b[8*n:]) {
		return nil, nil
	}
	for range n {
		shapes, b = append(shapes, binary.LittleEndian.Uint64(b)), b[8:]
	}
	t, ok := policy.ReadTraits(b)
	if !ok {
		return nil, nil
	}
	return shapes, &t
}
