package envoytest

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"strings"
)

// Memory is the linear memory of one VM of WebAssembly, in bytes: how long it is, and how much of it is in use.
type Memory struct{ Size, Resident int64 }

// LinearMemories finds the memory of each VM that V8 runs in Envoy. Linux only.
func (e *Envoy) LinearMemories() ([]Memory, error) {
	file, err := os.Open(fmt.Sprintf("/proc/%d/smaps", e.PID()))
	if err != nil {
		return nil, err
	}
	defer file.Close()
	return linearMemories(file)
}

// guard is the least of what V8 keeps free behind a memory, so that no index leads anywhere else.
const guard = 4 << 30

// linearMemories reads the map of a process: what may be written, right before so large a piece that nobody may touch.
func linearMemories(smaps io.Reader) (out []Memory, err error) {
	var from, to, last int64
	var writable bool
	var resident int64
	lines := bufio.NewScanner(smaps)
	for lines.Scan() {
		line := lines.Text()
		var a, b int64
		var mode string
		if n, _ := fmt.Sscanf(line, "%x-%x %s", &a, &b, &mode); n == 3 && strings.HasSuffix(mode, "p") && len(mode) == 4 {
			if writable && a == to && mode == "---p" && b-a >= guard {
				out = append(out, Memory{Size: to - from, Resident: resident})
			}
			from, to, writable, resident = a, b, mode == "rw-p", 0
			continue
		}
		if n, _ := fmt.Sscanf(line, "Rss: %d kB", &last); n == 1 {
			resident = last << 10
		}
	}
	return out, lines.Err()
}
