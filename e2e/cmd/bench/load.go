package main

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"

	keyed "github.com/callonce/callonce/clients/go"
)

// call is a tools/call of 400 bytes, and result what the server answers to it.
var (
	call = pad(`{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"charge","_meta":{"progressToken":7},` +
		`"arguments":{"customer":"alice","amount_cents":1200,"currency":"EUR","lines":[{"item":"tea","count":2,"price":6.0}],"note":"*"}}}`)
	result = pad(`{"jsonrpc":"2.0","id":7,"result":{"content":[{"type":"text","text":"*"}],` +
		`"structuredContent":{"charge_id":"ch_1","customer":"alice","amount_cents":1200,"refunded":false}}}`)
)

const size = 400

// pad fills a text up to the size, at the star in it.
func pad(text string) string { return padTo(text, size) }

func padTo(text string, size int) string {
	return strings.Replace(text, "*", strings.Repeat("x", size-len(text)+1), 1)
}

// grown gives a text of size bytes more x, where there is a row of them. It must not be called for each request.
func grown(text string, to int) string {
	return strings.Replace(text, "xxx", strings.Repeat("x", to-size+3), 1)
}

// answer is the MCP server: as little as can be, since it is not what is measured.
func answer(w http.ResponseWriter, r *http.Request) { answerWith(w, r, result) }

func answerWith(w http.ResponseWriter, r *http.Request, text string) {
	// A body that cannot be read shows as a request without an answer.
	_, _ = io.Copy(io.Discard, r.Body)
	w.Header().Set("Content-Type", "application/json")
	_, _ = io.WriteString(w, text)
}

// request is one call of the load.
type request struct {
	key      string // "" sends none
	user     string // the principal, where the configuration reads it; "" sends none
	tool     string // "" is charge
	path     string // "" is /mcp
	body     string // in place of call, for no tool but charge; "" is call
	replayed bool   // whether the answer must be a replay
}

// text is the call as it is sent.
func (r request) text() string {
	if r.tool == "" {
		return cmp.Or(r.body, call)
	}
	return strings.Replace(call, `"charge"`, `"`+r.tool+`"`, 1)
}

// load sends calls over connections that stay open.
type load struct {
	client      *http.Client
	url         string
	connections int
	took        func(time.Duration) // is told how long each call took, at any time; may be nil
}

func newLoad(url string, connections int) *load {
	return &load{
		client:      &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: connections, MaxConnsPerHost: connections}},
		url:         url,
		connections: connections,
	}
}

func (l *load) close() { l.client.CloseIdleConnections() }

// run sends n calls and returns the first error. An answer that is not the tool's
// result, or not as replayed as it should be, is an error: a refusal is cheaper than
// what is measured.
func (l *load) run(ctx context.Context, n int, what func(n int) request) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var all sync.WaitGroup
	for connection := range l.connections {
		all.Go(func() {
			for i := connection; i < n && ctx.Err() == nil; i += l.connections {
				if err := l.send(ctx, what(i)); err != nil {
					cancel(err)
				}
			}
		})
	}
	all.Wait()
	return context.Cause(ctx)
}

func (l *load) send(ctx context.Context, r request) error {
	req, err := http.NewRequestWithContext(ctx, "POST", l.url+cmp.Or(r.path, "/mcp"), strings.NewReader(r.text()))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json, text/event-stream")
	if r.key != "" {
		req.Header.Set(keyed.Header, r.key)
	}
	if r.user != "" {
		req.Header.Set("X-User", r.user)
	}
	began := time.Now()
	resp, err := l.client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return err
	}
	if l.took != nil {
		l.took(time.Since(began))
	}
	replayed := resp.Header.Get(keyed.ReplayedHeader) == "true"
	if resp.StatusCode != http.StatusOK || replayed != r.replayed || !bytes.Contains(body, []byte("ch_1")) {
		return fmt.Errorf("want a result (200, replayed %t), got %d, replayed %t: %s", r.replayed, resp.StatusCode, replayed, body)
	}
	return nil
}
