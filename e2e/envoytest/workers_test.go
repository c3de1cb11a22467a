package envoytest

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestWorkerCPU(t *testing.T) {
	dir := t.TempDir()
	for id, c := range map[string]struct{ name, ran string }{
		"1": {"envoy\n", "900 1 1\n"}, "2": {"wrk:worker_0\n", "1000 5 3\n"}, "3": {"wrk:worker_1\n", "2000 7 9\n"}, "4": {"V8 DefaultWorke\n", "800 1 1\n"},
	} {
		if err := os.MkdirAll(filepath.Join(dir, id), 0o755); err != nil {
			t.Fatal(err)
		}
		for file, text := range map[string]string{"comm": c.name, "schedstat": c.ran} {
			if err := os.WriteFile(filepath.Join(dir, id, file), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	if got, err := workerCPU(dir); err != nil || got != 3000*time.Nanosecond {
		t.Errorf("want the workers' 3 µs, got %v, %v", got, err)
	}
	if _, err := workerCPU(t.TempDir()); err == nil {
		t.Error("no thread of a worker: want an error")
	}
}

// Two VMs; what is writable beside a hole that is not right behind it, or too small, is none.
func TestLinearMemories(t *testing.T) {
	const smaps = `7f74bb4e0000-7f74bb960000 rw-p 00000000 00:00 0
Size:               4608 kB
Rss:                3000 kB
7f74bb960000-7f76bb4e0000 ---p 00000000 00:00 0
Rss:                   0 kB
7f76bb4e0000-7f76bb960000 rw-p 00000000 00:00 0 [anon:x]
Rss:                4608 kB
7f76bb960000-7f78bb4e0000 ---p 00000000 00:00 0
Rss:                   0 kB
7f79bb4e0000-7f79bb960000 rw-p 00000000 00:00 0
Rss:                1000 kB
7f79bb961000-7f7bbb4e0000 ---p 00000000 00:00 0
7f7cbb4e0000-7f7cbb960000 rw-p 00000000 00:00 0
7f7cbb960000-7f7cfb4e0000 ---p 00000000 00:00 0
ffffffffff600000-ffffffffff601000 --xp 00000000 00:00 0 [vsyscall]
Rss:                   4 kB
`
	got, err := linearMemories(strings.NewReader(smaps))
	want := []Memory{{0x480000, 3000 << 10}, {0x480000, 4608 << 10}}
	if err != nil || len(got) != 2 || got[0] != want[0] || got[1] != want[1] {
		t.Errorf("want %v, got %v, %v", want, got, err)
	}
}
