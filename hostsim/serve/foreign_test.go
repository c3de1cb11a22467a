package serve

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"

	"github.com/callonce/callonce/hostsim/hosttest"
)

// ours are words of the filter that this project is about. Whoever serves another one meets none of them.
var ours = regexp.MustCompile(`(?i)callonce|idempot|replay|outcome|mcp|payment`)

// The command serves a filter that it knows nothing about, and says nothing that is not about that: in its help, its log, its page and its metrics.
func TestNothingOfOurs(t *testing.T) {
	up := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "hello") }))
	defer up.Close()
	c := &Command{Name: "hostsim", Version: func() string { return "1.0" }}
	var stdout, stderr hosttest.Output
	for _, args := range [][]string{nil, {"help"}, {"serve", "--help"}, {"check", "--help"}, {"serve"}, {"check"}, {"keys"}, {"version"}} {
		c.Run(t.Context(), args, &stdout, &stderr)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan int, 1)
	go func() {
		ended <- c.Run(ctx, []string{"serve", "--plugin", probe, "--cache", cache, "--upstream", up.URL, "--admin", "127.0.0.1:0"}, &stdout, &stderr)
	}()
	front, admin := stderr.Find(t, `listening on (http://[0-9.]+:[0-9]+)`)[1], stderr.Find(t, `admin on (http://[0-9.]+:[0-9]+)`)[1]
	req, err := http.NewRequest("GET", front+"/", nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("x-name", "n")
	req.Header.Set("x-do", "rh counter some.metric 1")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	stdout.Find(t, `GET / 200`)
	for _, path := range []string{"/", "/page.js", "/page.css", "/requests", "/metrics", "/ready", "/filter/keys"} {
		resp, err := http.Get(admin + path)
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		if err != nil {
			t.Fatal(err)
		}
		if found := ours.FindString(string(text)); found != "" {
			t.Errorf("%s speaks of %q", path, found)
		}
		if path == "/filter/keys" && resp.StatusCode != http.StatusNotFound {
			t.Errorf("%s: %s, of a filter that has no part of the page", path, resp.Status)
		}
	}
	stop()
	<-ended
	for line := range strings.SplitSeq(stdout.String()+stderr.String(), "\n") {
		if found := ours.FindString(line); found != "" {
			t.Errorf("%q in what is printed: %s", found, line)
		}
	}
}
