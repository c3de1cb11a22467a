package e2e_test

import (
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"

	callonce "github.com/callonce/callonce/clients/go"
	"github.com/callonce/callonce/e2e/payments"
)

// trouble at a server or on the way is ordered by a call's note.
const (
	cutBefore = "cut-before" // on the way back to the client, once: nothing arrives
	cutWithin = "cut-within" // the same, in the middle of the answer
	lose      = "lose"       // the server does its work, and its answer is lost
	crash     = "crash"      // the server dies before its work
	broken    = "broken"     // the server does its work and answers 500
)

// fragile is a payments server that crashes and loses answers.
func fragile(t *testing.T) (*payments.Book, string) {
	book := new(payments.Book)
	handler := payments.NewHandler(book, payments.Options{Stateless: true})
	url := serveFunc(t, func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		r.Body = io.NopCloser(strings.NewReader(string(body)))
		switch noteOf(body) {
		case crash:
			panic(http.ErrAbortHandler)
		case lose:
			handler.ServeHTTP(nowhere{}, r)
			panic(http.ErrAbortHandler)
		case broken:
			handler.ServeHTTP(nowhere{}, r)
			http.Error(w, "something broke", http.StatusInternalServerError)
		default:
			handler.ServeHTTP(w, r)
		}
	})
	return book, url
}

// nowhere takes an answer that nobody gets.
type nowhere struct{}

func (nowhere) Header() http.Header         { return http.Header{} }
func (nowhere) Write(p []byte) (int, error) { return len(p), nil }
func (nowhere) WriteHeader(int)             {}
func (nowhere) Flush()                      {}

// noteOf is the note of a charge; "" of anything else.
func noteOf(body []byte) string {
	var m struct {
		Params struct {
			Arguments struct {
				Note string `json:"note"`
			} `json:"arguments"`
		} `json:"params"`
	}
	_ = json.Unmarshal(body, &m) // what is no call has no note
	return m.Params.Arguments.Note
}

// cutting stands between clients and the filter, and cuts an answer once for each body.
func cutting(t *testing.T, upstream string) string {
	var mu sync.Mutex
	cut := map[string]bool{}
	return serveFunc(t, func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		req, err := http.NewRequestWithContext(r.Context(), r.Method, upstream+r.URL.Path, strings.NewReader(string(body)))
		if err != nil {
			panic(err)
		}
		req.Header = r.Header.Clone()
		resp, err := http.DefaultTransport.RoundTrip(req)
		if err != nil {
			panic(http.ErrAbortHandler)
		}
		defer resp.Body.Close()
		for name, values := range resp.Header {
			w.Header()[name] = values
		}
		note := noteOf(body)
		w.WriteHeader(resp.StatusCode)
		if note != cutBefore && note != cutWithin {
			_, _ = io.Copy(w, resp.Body)
			return
		}
		answer, err := io.ReadAll(resp.Body)
		if err != nil {
			panic(http.ErrAbortHandler)
		}
		intent := r.Header.Get(callonce.Header)
		mu.Lock()
		first := !cut[intent]
		cut[intent] = true
		mu.Unlock()
		if !first {
			_, _ = w.Write(answer)
			return
		}
		if note == cutWithin {
			_, _ = w.Write(answer[:len(answer)/2])
			http.NewResponseController(w).Flush()
		}
		panic(http.ErrAbortHandler)
	})
}
