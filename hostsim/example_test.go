package hostsim_test

import (
	"context"
	"fmt"
	"log"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/callonce/callonce/hostsim"
)

// Two workers run a filter that counts requests in shared data. The second worker's VM ends in between; what the process keeps
// outlives it. No connection is needed: requests are played.
func Example() {
	host, err := hostsim.New(context.Background(), hostsim.Config{Wasm: seen(), Workers: 2, FailReload: true, ReloadBackoff: time.Nanosecond})
	if err != nil {
		log.Fatal(err)
	}
	defer host.Close()
	count := func(worker int) {
		done := make(chan hostsim.Reply, 1)
		_, err := host.Play(worker, hostsim.Request{
			Method: "GET", Path: "/", Authority: "example",
			Server: func(a *hostsim.Arrival) { a.Respond(http.StatusOK, nil, []byte("hello")) },
			Done:   func(r hostsim.Reply) { done <- r },
		})
		if err != nil {
			log.Fatal(err)
		}
		r := <-done
		fmt.Println("worker", worker, "status", r.Status, "seen", r.Header("x-seen"))
	}
	count(0)
	count(1)
	if err := host.Crash(1); err != nil {
		log.Fatal(err)
	}
	count(1)
	// Output:
	// worker 0 status 200 seen 1
	// worker 1 status 200 seen 2
	// worker 1 status 200 seen 3
}

// Shared data has no insert-if-absent. A cas that no value has does it; a cas of 0 always overwrites.
func ExampleStore_Set() {
	store := hostsim.NewStore()
	fmt.Println(store.Set("vm", "key", []byte("first"), hostsim.InsertOnly) == hostsim.StatusOK)
	fmt.Println(store.Set("vm", "key", []byte("second"), hostsim.InsertOnly) == hostsim.StatusCasMismatch)
	fmt.Println(store.Set("vm", "key", []byte("third"), 0) == hostsim.StatusOK)
	value, _, _ := store.Get("vm", "key")
	fmt.Println(string(value))
	// Output:
	// true
	// true
	// true
	// third
}

// Time passes when a test says so, and what was due meanwhile has happened when Advance returns.
func ExampleManualClock() {
	clock := hostsim.NewManualClock(time.Date(2026, 12, 1, 0, 0, 0, 0, time.UTC))
	clock.AfterFunc(5*time.Minute, func() { fmt.Println("five minutes later") })
	clock.Advance(4 * time.Minute)
	fmt.Println("four minutes later")
	clock.Advance(time.Minute)
	// Output:
	// four minutes later
	// five minutes later
}

// seen compiles the filter in testdata/seen.
func seen() []byte {
	dir, err := os.MkdirTemp("", "hostsim-example-")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	wasm := filepath.Join(dir, "seen.wasm")
	build := exec.Command("go", "build", "-buildmode=c-shared", "-o", wasm, ".")
	build.Dir, build.Env = filepath.Join("testdata", "seen"), append(os.Environ(), "GOOS=wasip1", "GOARCH=wasm", "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		log.Fatalf("%v\n%s", err, out)
	}
	code, err := os.ReadFile(wasm)
	if err != nil {
		log.Fatal(err)
	}
	return code
}
