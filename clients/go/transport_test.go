package callonce_test

import (
	"net/http"
	"net/http/httptest"
	"testing"

	callonce "github.com/callonce/callonce/clients/go"
)

func TestKeyAndAnswer(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Keys", r.Header.Get(callonce.Header))
		w.Header().Set(callonce.ReplayedHeader, "true")
		w.Header().Set("Retry-After", "1")
		w.WriteHeader(http.StatusConflict)
	}))
	t.Cleanup(server.Close)
	client := &http.Client{Transport: callonce.Transport{}}

	for _, key := range []string{"", "k1"} {
		ctx, call := callonce.WithKey(t.Context(), key)
		if _, ok := call.Answer(); ok {
			t.Error("before the call: want no answer")
		}
		req, err := http.NewRequestWithContext(ctx, "POST", server.URL, nil)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if got := resp.Header.Get("X-Keys"); got != key {
			t.Errorf("want the server to see the key %q, it saw %q", key, got)
		}
		if req.Header.Get(callonce.Header) != "" {
			t.Error("want the caller's own request unchanged")
		}
		if answer, ok := call.Answer(); !ok || answer != (callonce.Answer{Status: 409, Replayed: true, RetryAfter: "1"}) {
			t.Errorf("want 409, replayed, 1; got %+v, %t", answer, ok)
		}
	}

	resp, err := client.Get(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if got := resp.Header.Get("X-Keys"); got != "" {
		t.Errorf("without a call in the context: want no key, got %q", got)
	}
}
