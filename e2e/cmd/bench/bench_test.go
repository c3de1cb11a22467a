package main

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/callonce/callonce/e2e/keyed"
)

func TestTextsAreWhatTheReportSays(t *testing.T) {
	for name, text := range map[string]string{"call": call, "result": result} {
		if len(text) != size || !json.Valid([]byte(text)) {
			t.Errorf("%s: want %d bytes of JSON, got %d: %s", name, size, len(text), text)
		}
	}
}

func TestLoadSendsEachCallOnce(t *testing.T) {
	var calls, keys atomic.Int32
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		calls.Add(1)
		if r.Header.Get(keyed.Header) != "" {
			keys.Add(1)
		}
		answer(w, r)
	}))
	t.Cleanup(server.Close)
	l := newLoad(server.URL, 3)
	t.Cleanup(l.close)
	err := l.run(t.Context(), 10, func(n int) request {
		if n%2 == 0 {
			return request{key: "k"}
		}
		return request{}
	})
	if err != nil || calls.Load() != 10 || keys.Load() != 5 {
		t.Errorf("want 10 calls, 5 keyed; got %d, %d, %v", calls.Load(), keys.Load(), err)
	}
}

// A refusal costs less than what is to be measured, and a replay something else: both
// must stop the measurement.
func TestLoadTellsWrongAnswers(t *testing.T) {
	for name, c := range map[string]struct {
		serve http.HandlerFunc
		what  request
	}{
		"refused": {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTooManyRequests) }, request{}},
		"replayed": {func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set(keyed.ReplayedHeader, "true")
			answer(w, r)
		}, request{}},
		"not replayed": {answer, request{key: "k", replayed: true}},
		"no result":    {func(w http.ResponseWriter, _ *http.Request) { w.Write([]byte(`{"error":{}}`)) }, request{}},
	} {
		server := httptest.NewServer(c.serve)
		l := newLoad(server.URL, 2)
		if err := l.run(t.Context(), 4, func(int) request { return c.what }); err == nil || !strings.Contains(err.Error(), "want a result") {
			t.Errorf("%s: want an error, got %v", name, err)
		}
		l.close()
		server.Close()
	}
}

func TestReport(t *testing.T) {
	us := func(n ...int) (out []time.Duration) {
		for _, v := range n {
			out = append(out, time.Duration(v)*time.Microsecond)
		}
		return out
	}
	var out strings.Builder
	report(&out, []benchCase{{name: "bare"}, {name: "other", target: "≤ +45"}}, [][]time.Duration{us(100, 300, 200), us(130, 360, 210)})
	for _, want := range []string{"bare    200      150–250", "other   210      170–285   +30   +20–+45   ≤ +45"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("want %q in\n%s", want, &out)
		}
	}
}

func TestQuantile(t *testing.T) {
	for _, c := range []struct {
		sorted []float64
		q      int
		want   float64
	}{{[]float64{7}, 2, 7}, {[]float64{1, 2}, 2, 1.5}, {[]float64{1, 2, 3, 4, 5}, 1, 2}, {[]float64{1, 2, 3, 4, 5}, 3, 4}} {
		if got := quantile(c.sorted, c.q); got != c.want {
			t.Errorf("quartile %d of %v: want %v, got %v", c.q, c.sorted, c.want, got)
		}
	}
}

func TestBadFlags(t *testing.T) {
	for _, args := range [][]string{{"-rounds", "0"}, {"-requests", "2"}, {"-connections", "0"}, {"more"}, {"-nope"}} {
		var stderr strings.Builder
		if code := run(t.Context(), args, &stderr, &stderr); code != 2 || stderr.Len() == 0 {
			t.Errorf("%v: want status 2 and an error, got %d: %s", args, code, &stderr)
		}
	}
	var stderr strings.Builder
	if code := run(t.Context(), []string{"-plugin", "/no/such.wasm"}, &stderr, &stderr); code != 1 || !strings.Contains(stderr.String(), "make build") {
		t.Errorf("no filter: want status 1 and how to get one, got %d: %s", code, &stderr)
	}
}
