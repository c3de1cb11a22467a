package serve

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/callonce/callonce/hostsim"
)

// The page's data is bounded, says what the filter said and no more, and nothing of the page comes from elsewhere.
func TestPageData(t *testing.T) {
	store := hostsim.NewStore()
	r := &recent{fields: []LogField{{Name: "outcome", State: "wasm.f.outcome"}}}
	s := httptest.NewServer(&admin{store: store, recent: r})
	defer s.Close()
	get := func(path string) (*http.Response, string) {
		t.Helper()
		resp, err := http.Get(s.URL + path)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		text, _ := io.ReadAll(resp.Body)
		return resp, string(text)
	}
	for i := range recentRequests + 5 {
		details := "via_upstream"
		if i%5 == 0 {
			details = ""
		}
		r.add(hostsim.Record{Method: "POST", Path: "/mcp", Status: 200, Details: details, FilterState: map[string]string{"f.outcome": "first", "f.secret": "secret"}})
	}
	var got struct {
		Requests []seenRequest
		Fields   []string
		Total    int
		Upstream int
	}
	resp, text := get("/requests?after=2")
	if err := json.Unmarshal([]byte(text), &got); err != nil || resp.Header.Get("Content-Type") != "application/json" {
		t.Fatalf("%v: %s", err, text)
	}
	if len(got.Requests) != recentRequests || got.Requests[0].N != 6 || got.Total != recentRequests+5 || got.Upstream != 404 || got.Requests[0].Fields["outcome"] != "first" || got.Requests[0].Upstream {
		t.Errorf("%d requests from %+v, %d in all, %d by the server", len(got.Requests), got.Requests[0], got.Total, got.Upstream)
	}
	if strings.Contains(text, "secret") {
		t.Error("what is no field is shown")
	}
	if _, text := get("/requests?after=505"); !strings.Contains(text, `"requests":[]`) || !strings.Contains(text, `"gauges":[]`) {
		t.Errorf("nothing new: %s", text)
	}
	for path, want := range map[string]string{"/": "text/html", "/page.js": "javascript", "/page.css": "text/css"} {
		resp, text := get(path)
		if resp.StatusCode != 200 || !strings.Contains(resp.Header.Get("Content-Type"), want) || strings.Contains(text, "//cdn") || strings.Contains(text, "http") {
			t.Errorf("%s: %s %s", path, resp.Status, resp.Header.Get("Content-Type"))
		}
		if !strings.Contains(resp.Header.Get("Content-Security-Policy"), "default-src 'self'") {
			t.Errorf("%s may load from elsewhere", path)
		}
	}
	if resp, _ := get("/page/index.html"); resp.StatusCode != 404 {
		t.Errorf("another file: %s", resp.Status)
	}
}

// What requests were, the page alone gets: not one of another site whose name has come to stand for this address.
func TestPageByItsNumberOnly(t *testing.T) {
	a := &admin{store: hostsim.NewStore(), recent: &recent{}}
	a.recent.add(hostsim.Record{Method: "POST", Path: "/mcp?token=t"})
	for host, want := range map[string]int{"127.0.0.1:9902": 200, "[::1]:9902": 200, "localhost:9902": 200, "localhost": 200, "rebound.example:9902": 403} {
		r := httptest.NewRequest("GET", "/requests?after=0", nil)
		r.Host = host
		w := httptest.NewRecorder()
		if a.ServeHTTP(w, r); w.Code != want {
			t.Errorf("%s: got %d %s", host, w.Code, w.Body)
		}
	}
}
