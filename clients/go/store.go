package callonce

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"
)

// Entry is what is kept of an intent.
type Entry struct {
	// Key is the intent's key. It is nobody else's business.
	Key string
	// Sent is when the intent was last sent; zero if never.
	Sent time.Time
	// Done says that its answer came.
	Done bool
}

// Store keeps entries by intent. A [Caller] makes one call of it at a time. Put must
// not return before the entry would outlive a crash.
type Store interface {
	Get(intent string) (e Entry, known bool, err error)
	Put(intent string, e Entry) error
	Delete(intent string) error
}

// keptDone is how long a FileStore keeps entries whose answer came.
const keptDone = 7 * 24 * time.Hour

type memory struct{ entries map[string]Entry }

func (m *memory) Get(intent string) (Entry, bool, error) {
	e, known := m.entries[intent]
	return e, known, nil
}

func (m *memory) Put(intent string, e Entry) error { m.entries[intent] = e; return nil }

func (m *memory) Delete(intent string) error { delete(m.entries, intent); return nil }

// FileStore keeps entries in one JSON file, which the Python and the TypeScript helper
// read too. One process at a time may use a file. Entries whose answer came are
// dropped a week after they were sent.
type FileStore struct{ path string }

// NewFileStore returns a store in a file, which need not be there yet. Its folder must.
func NewFileStore(path string) *FileStore { return &FileStore{path} }

type fileEntry struct {
	Key  string  `json:"key"`
	Sent float64 `json:"sent"` // seconds since 1970; 0 = never
	Done bool    `json:"done"`
}

type file struct {
	Version int                  `json:"version"`
	Intents map[string]fileEntry `json:"intents"`
}

func (s *FileStore) read() (file, error) {
	f := file{Version: 1, Intents: map[string]fileEntry{}}
	text, err := os.ReadFile(s.path)
	if errors.Is(err, fs.ErrNotExist) {
		return f, nil
	}
	if err != nil {
		return f, err
	}
	// Never a new key where an old one can not be read: that would be a second run.
	if err := json.Unmarshal(text, &f); err != nil {
		return f, fmt.Errorf("%s: want the file of keys: %w", s.path, err)
	}
	if f.Version != 1 || f.Intents == nil {
		return f, fmt.Errorf("%s: want version 1 of the file of keys, found %d", s.path, f.Version)
	}
	return f, nil
}

// Get implements [Store].
func (s *FileStore) Get(intent string) (Entry, bool, error) {
	f, err := s.read()
	if err != nil {
		return Entry{}, false, err
	}
	e, known := f.Intents[intent]
	entry := Entry{Key: e.Key, Done: e.Done}
	if e.Sent > 0 {
		entry.Sent = time.UnixMilli(int64(e.Sent * 1000))
	}
	return entry, known, nil
}

// Put implements [Store].
func (s *FileStore) Put(intent string, e Entry) error {
	kept := fileEntry{Key: e.Key, Done: e.Done}
	if !e.Sent.IsZero() {
		kept.Sent = float64(e.Sent.UnixMilli()) / 1000
	}
	return s.change(func(intents map[string]fileEntry) { intents[intent] = kept })
}

// Delete implements [Store].
func (s *FileStore) Delete(intent string) error {
	return s.change(func(intents map[string]fileEntry) { delete(intents, intent) })
}

func (s *FileStore) change(edit func(map[string]fileEntry)) error {
	f, err := s.read()
	if err != nil {
		return err
	}
	edit(f.Intents)
	oldest := float64(time.Now().Add(-keptDone).Unix())
	for intent, e := range f.Intents {
		if e.Done && e.Sent < oldest {
			delete(f.Intents, intent)
		}
	}
	text, err := json.Marshal(f)
	if err != nil {
		return err
	}
	return replace(s.path, text)
}

// replace writes a file so that after a crash there is the old one or the new one.
func replace(path string, text []byte) error {
	temporary, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".*") // mode 0600
	if err != nil {
		return err
	}
	defer os.Remove(temporary.Name()) // fails once it is renamed
	_, err = temporary.Write(text)
	err = errors.Join(err, temporary.Sync(), temporary.Close())
	if err != nil {
		return err
	}
	return os.Rename(temporary.Name(), path)
}
