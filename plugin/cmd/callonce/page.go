package main

import (
	"context"
	"embed"
	"encoding/json"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/callonce/callonce/hostsim"
)

//go:embed page
var pageFiles embed.FS

// pageOperator is the entry of operators.principal by which a policy lets the page of "callonce serve --admin" see and resolve its keys.
// No proxy gives a request this metadata but that page, and none from outside.
const pageOperator = "metadata:callonce.serve/operator=page"

// operatorsPath is the operators' path of the policy that the page may act for: the default one, if that names it, else any that does. It is
// "" where none does.
func operatorsPath(config []byte) string {
	var c struct {
		Default  string
		Policies map[string]struct {
			Operators struct {
				Path      string
				Principal []any
			}
		}
	}
	if json.Unmarshal(config, &c) != nil {
		return ""
	}
	path := ""
	for name, p := range c.Policies {
		if slices.Contains(p.Operators.Principal, any(pageOperator)) && (path == "" || name == c.Default) {
			path = p.Operators.Path
		}
	}
	return path
}

// pagePatience bounds the filter's answer: a store may be away.
const pagePatience = 10 * time.Second

// keysPage is the page's part for operators: what it asks is asked of the filter, through its own interface and under its own checks.
func keysPage(h *hostsim.Host, config []byte) http.Handler {
	path := operatorsPath(config)
	if path == "" {
		return nil
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /page.js", func(w http.ResponseWriter, r *http.Request) { http.ServeFileFS(w, r, pageFiles, "page/keys.js") })
	mux.HandleFunc("GET /keys", func(w http.ResponseWriter, r *http.Request) { ask(w, r, h, path) })
	mux.HandleFunc("POST /keys/{operation}", func(w http.ResponseWriter, r *http.Request) {
		ask(w, r, h, path+"/"+url.PathEscape(r.PathValue("operation")))
	})
	return mux
}

// ask plays one request through the filter, at the first worker, and passes its answer on.
func ask(w http.ResponseWriter, r *http.Request, h *hostsim.Host, path string) {
	if r.URL.RawQuery != "" {
		path += "?" + r.URL.RawQuery
	}
	ctx, cancel := context.WithTimeout(r.Context(), pagePatience)
	defer cancel()
	done := make(chan hostsim.Reply, 1)
	stream, err := h.Play(0, hostsim.Request{
		Method: r.Method, Path: path, Authority: "callonce.serve",
		Headers:  []hostsim.Header{{Name: "content-type", Value: "application/json"}},
		Metadata: map[string]any{"callonce.serve": map[string]any{"operator": "page"}},
		// The interface is the filter's: what comes by it to a server is none of ours.
		Server: func(a *hostsim.Arrival) {
			a.Respond(http.StatusNotFound, nil, []byte(`{"error":"the policy of this route has no such interface"}`))
		},
		Done: func(r hostsim.Reply) { done <- r },
	})
	if err != nil {
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
		return
	}
	select {
	case reply := <-done:
		if strings.HasPrefix(reply.Header("content-type"), "application/json") {
			w.Header().Set("Content-Type", "application/json")
		}
		w.WriteHeader(max(reply.Status, http.StatusOK))
		w.Write(reply.Body)
	case <-ctx.Done():
		stream.Leave()
		http.Error(w, "the filter does not answer", http.StatusGatewayTimeout)
	}
}
