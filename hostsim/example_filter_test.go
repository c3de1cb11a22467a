package hostsim_test

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/callonce/callonce/hostsim"
)

// Two workers count together: the third request is the third, whichever of them serves it.
func TestWorkersCountTogether(t *testing.T) {
	wasm := filepath.Join(t.TempDir(), "filter.wasm")
	build := exec.Command("go", "build", "-buildmode=c-shared", "-o", wasm, "./testdata/seen")
	build.Env = append(os.Environ(), "GOOS=wasip1", "GOARCH=wasm")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	code, err := os.ReadFile(wasm)
	if err != nil {
		t.Fatal(err)
	}
	host, err := hostsim.New(t.Context(), hostsim.Config{Wasm: code, Workers: 2})
	if err != nil {
		t.Fatal(err) // a refused configuration, with the lines that the filter logged
	}
	defer host.Close()
	server := httptest.NewServer(http.NotFoundHandler())
	defer server.Close()
	upstream, _ := url.Parse(server.URL)
	turn := 0
	byTurns := func(*http.Request) int { turn++; return turn % 2 }
	front := httptest.NewServer(hostsim.NewProxy(host, upstream, hostsim.ProxyOptions{Pick: byTurns}))
	defer front.Close()
	for _, want := range []string{"1", "2", "3"} {
		resp, err := http.Get(front.URL)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if got := resp.Header.Get("x-seen"); got != want {
			t.Errorf("x-seen: got %q, want %q", got, want)
		}
	}
}
