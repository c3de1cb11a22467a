package main

import (
	"io"
	"sync"
)

// untilStarted passes on what hostsim prints while it starts, so that nobody waits
// before a silent screen; after that only if always is set.
type untilStarted struct {
	to     io.Writer
	always bool

	mu   sync.Mutex
	done bool
}

func (u *untilStarted) started() {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.done = true
}

func (u *untilStarted) Write(b []byte) (int, error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.done && !u.always {
		return len(b), nil
	}
	return u.to.Write(b)
}
