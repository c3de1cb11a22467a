package hostsim_test

import (
	"net/http"
	"testing"

	"github.com/callonce/callonce/hostsim"
	"github.com/callonce/callonce/hostsim/hosttest"
)

// Two workers count together: the third request is the third, whichever of them serves it.
func TestWorkersCountTogether(t *testing.T) {
	filter := hosttest.Build(t, "./testdata/seen")
	front := hosttest.Start(t, hostsim.Config{Wasm: filter, Workers: 2}, http.NotFoundHandler())
	for _, want := range []string{"1", "2", "3"} {
		resp, _ := front.Send("GET", "/", "")
		if got := resp.Header.Get("x-seen"); got != want {
			t.Errorf("x-seen: got %q, want %q", got, want)
		}
	}
}
