package schedule

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/callonce/callonce/hostsim"
)

// watch looks at the ledger's records after every write. It reads them for itself: the layout is the one that package ledger documents.
type watch struct {
	lease  time.Duration
	limits map[string]int
	store  *hostsim.Store
	now    time.Duration
	dirty  bool
	most   struct{ keys, bytes int }
}

func newWatch(lease time.Duration) *watch { return &watch{lease: lease, limits: map[string]int{}} }

func (w *watch) readLimits(members string) {
	var all map[string]any
	if err := json.Unmarshal([]byte("{"+members+"}"), &all); err != nil {
		panic(err)
	}
	for name, v := range all {
		if n, ok := v.(float64); ok {
			w.limits[name] = int(n)
		}
	}
}

// log takes the stated maximum from the line that the filter logs at its start.
func (w *watch) log(_ int, _ hostsim.LogLevel, line string) {
	if _, rest, ok := strings.Cut(line, "holds at most "); ok {
		fmt.Sscanf(rest, "%d keys and %d bytes", &w.most.keys, &w.most.bytes)
	}
}

func (w *watch) after(c *hostsim.Call, s hostsim.Status) {
	if c.Function == setData && s == hostsim.StatusOK {
		w.dirty = true
	}
}

// entry is one entry of a bucket: what of it must hold at any instant.
type entry struct {
	state                            byte
	holder, policy, principal, scope uint64
	claimed, lease                   time.Duration
	id                               string
}

const (
	inFlight = 1
	entryLen = 190
)

func (w *watch) entries() ([]entry, error) {
	var out []entry
	for _, key := range w.store.Keys("v") {
		if !strings.HasPrefix(key, "callonce/t/b/") {
			continue
		}
		b, _, _ := w.store.Get("v", key)
		if len(b) < 16 || !bytes.HasPrefix(b, []byte("co\x01")) {
			return nil, fmt.Errorf("%s holds no bucket: %x", key, b)
		}
		for b = b[16:]; len(b) > 0; b = b[entryLen:] {
			if len(b) < entryLen || binary.LittleEndian.Uint16(b) != entryLen {
				return nil, fmt.Errorf("%s holds a broken entry: %x", key, b)
			}
			u := func(at int) uint64 { return binary.LittleEndian.Uint64(b[at:]) }
			out = append(out, entry{state: b[43], holder: u(87), policy: u(95), principal: u(103), scope: u(111), claimed: time.Duration(u(135)),
				lease: time.Duration(binary.LittleEndian.Uint32(b[151:])) * time.Millisecond, id: string(b[2:34])})
		}
	}
	return out, nil
}

// check holds the caps and the stated maximum to what is there.
func (w *watch) check() error {
	if !w.dirty {
		return nil
	}
	w.dirty = false
	if n := len(w.store.Keys("v")); n > w.most.keys {
		return fmt.Errorf("%d keys of shared data, stated maximum %d", n, w.most.keys)
	}
	if n := w.store.Bytes("v"); n > w.most.bytes {
		return fmt.Errorf("%d bytes of shared data, stated maximum %d", n, w.most.bytes)
	}
	all, err := w.entries()
	if err != nil {
		return err
	}
	count := map[string]map[uint64]int{}
	add := func(limit string, row uint64) {
		if count[limit] == nil {
			count[limit] = map[uint64]int{}
		}
		count[limit][row]++
	}
	for _, e := range all {
		for suffix, row := range map[string]uint64{"": e.policy, "_per_principal": e.principal, "_per_scope": e.scope} {
			add("entries"+suffix, row)
			if e.state == inFlight {
				add("in_flight"+suffix, row)
			}
		}
	}
	for _, limit := range slices.Sorted(maps.Keys(count)) {
		for _, n := range count[limit] {
			if most := w.limits[limit]; most > 0 && n > most {
				return fmt.Errorf("%d %s, limit %d", n, limit, most)
			}
		}
	}
	return nil
}

// rest checks what must hold once everything has come to rest for longer than the lease: nothing is in flight.
func (w *watch) rest() error {
	all, err := w.entries()
	if err != nil {
		return err
	}
	for _, e := range all {
		if e.state == inFlight {
			return fmt.Errorf("an entry is in flight %v after it was claimed, nobody holds it, lease %v", w.now-e.claimed, e.lease)
		}
	}
	return nil
}
