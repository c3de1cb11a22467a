package hostsim

import (
	"math"
	"slices"
	"sync"
)

// InsertOnly is the cas with which a set creates an absent key and never replaces a present one. The ABI does not name it;
// it works because the counter that hands out cas numbers does not reach it (measured on Envoy: 300 of 300 races had one winner).
const InsertOnly = math.MaxUint32

// Store is what one proxy process keeps outside its VMs: shared data and queues by vm_id, and metrics. It outlives VMs that
// crash and configurations that change. Safe for concurrent use.
type Store struct {
	mu      sync.Mutex
	tables  map[string]map[string]sharedValue
	lastCAS uint32
	owners  map[string]int

	queues  queueTable
	metrics metricTable
}

type sharedValue struct {
	value []byte
	cas   uint32
}

// NewStore returns the empty store of a process that has just started.
func NewStore() *Store {
	return &Store{tables: map[string]map[string]sharedValue{}, owners: map[string]int{}, queues: newQueueTable(), metrics: newMetricTable()}
}

// Get returns a copy of the value under key and its cas. An empty value is present.
func (s *Store) Get(vmID, key string) (value []byte, cas uint32, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	v, ok := s.tables[vmID][key]
	if !ok {
		return nil, 0, false
	}
	return append([]byte{}, v.value...), v.cas, true
}

// Set stores a copy of value as the host does. On a present key a cas of 0 always overwrites and any other must equal the
// key's own, else StatusCasMismatch. An absent key is created whatever the cas.
func (s *Store) Set(vmID, key string, value []byte, cas uint32) Status {
	s.mu.Lock()
	defer s.mu.Unlock()
	t := s.tables[vmID]
	if t == nil {
		t = map[string]sharedValue{}
		s.tables[vmID] = t
	}
	if old, ok := t[key]; ok && cas != 0 && cas != old.cas {
		return StatusCasMismatch
	}
	t[key] = sharedValue{value: append([]byte{}, value...), cas: s.nextCAS()}
	return StatusOK
}

// nextCAS counts for the whole process, not by key. 0 means "do not compare" and is skipped.
func (s *Store) nextCAS() uint32 {
	s.lastCAS++
	if s.lastCAS == 0 {
		s.lastCAS++
	}
	return s.lastCAS
}

// Keys lists the keys under vmID in order. Keys are never deleted: the ABI has no such call.
func (s *Store) Keys(vmID string) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	keys := make([]string, 0, len(s.tables[vmID]))
	for k := range s.tables[vmID] {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

// Bytes counts the bytes of all keys and values under vmID, without what the table itself needs.
func (s *Store) Bytes(vmID string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := 0
	for k, v := range s.tables[vmID] {
		n += len(k) + len(v.value)
	}
	return n
}

func (s *Store) acquire(vmID string) {
	s.mu.Lock()
	s.owners[vmID]++
	s.mu.Unlock()
}

// release drops what belongs to vmID when its last Host has gone, as the host does with its last VM.
func (s *Store) release(vmID string) {
	s.mu.Lock()
	s.owners[vmID]--
	last := s.owners[vmID] == 0
	if last {
		delete(s.tables, vmID)
		delete(s.owners, vmID)
	}
	s.mu.Unlock()
	if last {
		s.queues.drop(vmID)
	}
}
