package envoytest

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// WorkerCPU returns the CPU time, user and system together, that the worker threads of Envoy have used since its start, without
// the main thread's and the compiler's. Linux only.
func (e *Envoy) WorkerCPU() (time.Duration, error) {
	return workerCPU(fmt.Sprintf("/proc/%d/task", e.PID()))
}

// workerCPU reads the folder of a process's threads.
func workerCPU(threads string) (time.Duration, error) {
	names, err := filepath.Glob(filepath.Join(threads, "*", "comm"))
	if err != nil {
		return 0, err
	}
	var sum time.Duration
	workers := 0
	for _, file := range names {
		name, err := os.ReadFile(file)
		if err != nil {
			continue // the thread has ended
		}
		if !strings.HasPrefix(string(name), "wrk:worker_") {
			continue
		}
		text, err := os.ReadFile(filepath.Join(filepath.Dir(file), "schedstat"))
		if err != nil {
			return 0, err
		}
		var ran int64 // ns; behind it what it waited, and how often it ran
		if _, err := fmt.Sscan(string(text), &ran); err != nil {
			return 0, fmt.Errorf("%s: want a number of ns, got %q: %w", filepath.Dir(file), text, err)
		}
		sum += time.Duration(ran)
		workers++
	}
	if workers == 0 {
		return 0, fmt.Errorf("%s: no thread is a worker of Envoy", threads)
	}
	return sum, nil
}
