package callonce_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	callonce "github.com/callonce/callonce/clients/go"
)

const (
	result  = `{"jsonrpc":"2.0","id":7,"result":{"content":[]}}`
	refusal = `{"jsonrpc":"2.0","id":7,"error":{"code":-31410,"message":"This call …","data":{"type":"%s","may_have_run":"%s","retry":"%s","operation":"0123","retry_after_ms":1}}}`
)

// script answers one request after the other, the last answer again and again, and notes their keys.
type script struct {
	*httptest.Server
	keys []string
}

func answers(t *testing.T, list ...http.HandlerFunc) *script {
	s := &script{}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		answer := list[min(len(s.keys), len(list)-1)]
		s.keys = append(s.keys, r.Header.Get(callonce.Header))
		answer(w, r)
	}))
	t.Cleanup(s.Close)
	return s
}

func say(status int, kind, body string, header ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", kind)
		for i := 0; i < len(header); i += 2 {
			w.Header().Set(header[i], header[i+1])
		}
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	}
}

func cut(kind, begin string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", kind)
		_, _ = io.WriteString(w, begin)
		if begin != "" {
			http.NewResponseController(w).Flush() // else it would never leave
		}
		panic(http.ErrAbortHandler)
	}
}

func refuse(status int, name, mayHaveRun, retry string) http.HandlerFunc {
	return say(status, "application/json", fmt.Sprintf(refusal, name, mayHaveRun, retry))
}

// post is a client that reads an answer to its end and takes only what is a result for one.
func post(url string, seen *string) func(context.Context) error {
	client := &http.Client{Transport: callonce.Transport{}}
	return func(ctx context.Context) error {
		req, err := http.NewRequestWithContext(ctx, "POST", url, strings.NewReader(`{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"charge"}}`))
		if err != nil {
			return err
		}
		resp, err := client.Do(req)
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		body, err := io.ReadAll(resp.Body)
		*seen = string(body)
		if err == nil && !strings.Contains(*seen, `"result"`) {
			err = fmt.Errorf("no result: %d", resp.StatusCode)
		}
		return err
	}
}

func TestDo(t *testing.T) {
	ok := say(200, "application/json", result)
	event := "event: message\ndata: " + result + "\n\n"
	for name, c := range map[string]struct {
		answers  []http.HandlerFunc
		attempts int
		replayed bool
		err      error
		kind     string // of the refusal in err
	}{
		"a result":                 {answers: []http.HandlerFunc{ok}, attempts: 1},
		"a replay":                 {answers: []http.HandlerFunc{say(200, "application/json", result, callonce.ReplayedHeader, "true")}, attempts: 1, replayed: true},
		"an event":                 {answers: []http.HandlerFunc{say(200, "text/event-stream", event)}, attempts: 1},
		"in flight, then a result": {answers: []http.HandlerFunc{refuse(409, "idempotency_in_flight", "running", "same_key_later"), ok}, attempts: 2},
		"no answer, then a result": {answers: []http.HandlerFunc{cut("application/json", ""), ok}, attempts: 2},
		"half an answer":           {answers: []http.HandlerFunc{cut("application/json", result[:9]), ok}, attempts: 2},
		"half an event":            {answers: []http.HandlerFunc{cut("text/event-stream", event[:30]), ok}, attempts: 2},
		"a stream without an end":  {answers: []http.HandlerFunc{say(200, "text/event-stream", ": nothing\n\n"), ok}, attempts: 2},
		"a proxy's 503":            {answers: []http.HandlerFunc{say(503, "text/plain", "no healthy upstream"), ok}, attempts: 2},
		"a limiter's 429":          {answers: []http.HandlerFunc{say(429, "text/plain", "slow down"), ok}, attempts: 2},
		"a 401":                    {answers: []http.HandlerFunc{say(401, "text/plain", "who are you")}, attempts: 1, err: callonce.ErrRefused},
		"unknown outcome":          {answers: []http.HandlerFunc{refuse(409, "idempotency_outcome_unknown", "unknown", "reconcile_first")}, attempts: 1, err: callonce.ErrReconcileFirst, kind: "idempotency_outcome_unknown"},
		"conflict":                 {answers: []http.HandlerFunc{refuse(409, "idempotency_key_conflict", "unknown", "new_key_if_new_intent")}, attempts: 1, err: callonce.ErrKeyConflict, kind: "idempotency_key_conflict"},
		"after a fix":              {answers: []http.HandlerFunc{refuse(400, "idempotency_key_required", "no", "after_fix")}, attempts: 1, err: callonce.ErrRefused, kind: "idempotency_key_required"},
		"a word of the future":     {answers: []http.HandlerFunc{refuse(400, "idempotency_x", "no", "ask_mum")}, attempts: 1, err: callonce.ErrRefused, kind: "idempotency_x"},
		"as a tool's result": {answers: []http.HandlerFunc{say(200, "application/json",
			`{"jsonrpc":"2.0","id":7,"result":{"isError":true,"content":[{"type":"text","text":"This call …"}],"_meta":{"callonce.dev/refusal":{"type":"t","may_have_run":"unknown","retry":"reconcile_first"}}}}`)},
			attempts: 1, err: callonce.ErrReconcileFirst, kind: "t"},
	} {
		t.Run(name, func(t *testing.T) {
			s := answers(t, c.answers...)
			var seen string
			caller := &callonce.Caller{}
			got, err := caller.Do(t.Context(), "i", post(s.URL, &seen))
			if got != (callonce.Outcome{Attempts: c.attempts, Replayed: c.replayed}) || !errors.Is(err, c.err) || c.err == nil && err != nil {
				t.Errorf("want %d attempts, replayed %t, %v; got %+v, %v", c.attempts, c.replayed, c.err, got, err)
			}
			if r, found := errors.AsType[*callonce.Refusal](err); found != (c.kind != "") || found && r.Type != c.kind {
				t.Errorf("want the refusal %q, got %+v", c.kind, r)
			}
			for _, key := range s.keys {
				if len(key) < 20 || key != s.keys[0] {
					t.Errorf("want one good key, got %q", s.keys)
				}
			}
		})
	}
}

func TestLostAnswerIsReadable(t *testing.T) {
	for name, answer := range map[string]http.HandlerFunc{
		"half an event": cut("text/event-stream", "data: {\n"), "half a message": cut("application/json", "{"), "nothing": cut("application/json", ""),
		"a 502": say(502, "text/html", "bad gateway"),
	} {
		t.Run(name, func(t *testing.T) { lostAnswer(t, answer) })
	}
}

func lostAnswer(t *testing.T, answer http.HandlerFunc) {
	s := answers(t, answer)
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	var seen string
	caller := &callonce.Caller{}
	if _, err := caller.Do(ctx, "i", post(s.URL, &seen)); !errors.Is(err, callonce.ErrNotSettled) || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("want ErrNotSettled at the end of the time, got %v", err)
	}
	if !strings.Contains(seen, `"id":7,"error":{"code":-32000`) {
		t.Errorf("want an error for the lost answer, got %q", seen)
	}
}

// Another process goes on with the key of the one before; too late, it does not.
func TestKeysOutliveTheProcess(t *testing.T) {
	path := filepath.Join(t.TempDir(), "keys.json")
	s := answers(t, say(200, "application/json", result))
	var seen string
	do := func(intent string, ttl time.Duration) error {
		caller := &callonce.Caller{Store: callonce.NewFileStore(path), TTL: ttl}
		_, err := caller.Do(t.Context(), intent, post(s.URL, &seen))
		return err
	}
	for _, intent := range []string{"a", "a", "b"} {
		if err := do(intent, 0); err != nil {
			t.Fatal(err)
		}
	}
	if s.keys[0] != s.keys[1] || s.keys[0] == s.keys[2] {
		t.Errorf("want a key for each intent, got %q", s.keys)
	}
	time.Sleep(10 * time.Millisecond)
	err := do("a", time.Millisecond)
	if r, _ := errors.AsType[*callonce.Refusal](err); !errors.Is(err, callonce.ErrReconcileFirst) || r == nil || r.MayHaveRun != "yes" || len(s.keys) != 3 {
		t.Errorf("after ttl: want ErrReconcileFirst and nothing sent, got %v, %d sent", err, len(s.keys))
	}
	if err := (&callonce.Caller{Store: callonce.NewFileStore(path)}).Forget("a"); err != nil {
		t.Fatal(err)
	}
	if err := do("a", time.Minute); err != nil || s.keys[3] == s.keys[0] {
		t.Errorf("forgotten: want a new key, got %v, %q", err, s.keys)
	}
	if err := os.WriteFile(path, []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := do("a", 0); err == nil || len(s.keys) != 4 {
		t.Errorf("a broken file: want an error and nothing sent, got %v, %d sent", err, len(s.keys))
	}
}

func TestWithoutTheTransport(t *testing.T) {
	caller := &callonce.Caller{}
	if _, err := caller.Do(t.Context(), "i", func(context.Context) error { return nil }); err == nil {
		t.Error("a call that was never sent: want an error, got none")
	}
}
