package serve

import (
	"embed"
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
	"sync"

	"github.com/callonce/callonce/hostsim"
)

//go:embed page
var pageFiles embed.FS

// recentRequests is how many requests the page can look back on.
const recentRequests = 500

// seenRequest is a request as the page shows it.
type seenRequest struct {
	N        int               `json:"n"` // from 1
	Time     string            `json:"time"`
	Method   string            `json:"method"`
	Path     string            `json:"path"`
	Status   int               `json:"status"`
	Millis   int64             `json:"ms"`
	Worker   int               `json:"worker"`
	Upstream bool              `json:"upstream"` // the answer is the server's own
	Details  string            `json:"details,omitempty"`
	Fields   map[string]string `json:"fields"`
}

// recent keeps what the page shows.
type recent struct {
	fields  []LogField
	tones   map[string]string
	example string
	own     bool // the filter has a part of its own

	mu       sync.Mutex
	requests []seenRequest
	n, ran   int
}

func (r *recent) add(record hostsim.Record) {
	s := seenRequest{
		Time: record.Time.Format("15:04:05.000"), Method: record.Method, Path: record.Path, Status: record.Status, Millis: record.Duration.Milliseconds(),
		Worker: record.Worker, Upstream: record.Details == "via_upstream", Details: record.Details, Fields: map[string]string{},
	}
	for _, f := range r.fields {
		if value := record.FilterState[strings.TrimPrefix(f.State, stateSpace)]; value != "" {
			s.Fields[f.Name] = value
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.n++
	if s.N = r.n; s.Upstream {
		r.ran++
	}
	if r.requests = append(r.requests, s); len(r.requests) > recentRequests {
		r.requests = append(r.requests[:0], r.requests[len(r.requests)-recentRequests:]...)
	}
}

// gauge is a metric that has a value now.
type gauge struct {
	Name   string            `json:"name"`
	Labels map[string]string `json:"labels"`
	Value  int64             `json:"value"`
}

// since is what is newer than the request of a number.
func (r *recent) since(n int, metrics []hostsim.Metric) any {
	gauges := []gauge{}
	for _, m := range metrics {
		if m.Kind != "gauge" {
			continue
		}
		s := takeApart(m)
		g := gauge{Name: s.name, Labels: map[string]string{}, Value: int64(m.Value)}
		for _, l := range s.labels {
			g.Labels[l[0]] = l[1]
		}
		gauges = append(gauges, g)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	names := []string{}
	for _, f := range r.fields {
		names = append(names, f.Name)
	}
	newer := []seenRequest{}
	for _, s := range r.requests {
		if s.N > n {
			newer = append(newer, s)
		}
	}
	return map[string]any{"requests": newer, "fields": names, "gauges": gauges, "total": r.n, "upstream": r.ran, "tones": r.tones, "example": r.example, "own": r.own}
}

// protectPage lets nothing come from elsewhere, and no other page show this one.
func protectPage(h http.Header) {
	h.Set("Content-Security-Policy", "default-src 'self'; frame-ancestors 'none'")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Cache-Control", "no-store")
}

// serve answers the page and what it asks for; false for anything else.
func (r *recent) serve(w http.ResponseWriter, q *http.Request, metrics []hostsim.Metric) bool {
	h := w.Header()
	protectPage(h)
	file := ""
	switch q.URL.Path {
	case "/":
		file = "page/index.html"
	case "/page.js", "/page.css":
		file = "page" + q.URL.Path
	case "/requests":
		n, _ := strconv.Atoi(q.URL.Query().Get("after"))
		h.Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(r.since(n, metrics))
		return true
	default:
		return false
	}
	http.ServeFileFS(w, q, pageFiles, file)
	return true
}
