package e2e_test

import (
	"io"
	"net"
	"net/http"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"unicode/utf16"

	"github.com/callonce/callonce/e2e/child"
	"github.com/callonce/callonce/e2e/tools"
)

// Bodies that the strict reader refuses, or once did, run at a real FastMCP server. With a
// key in them they run once or not at all, wherever the key stands.
func TestKeysBehindDefectsAtFastMCP(t *testing.T) {
	python, err := tools.Python()
	if err != nil {
		t.Fatal(err)
	}
	addr, err := child.FreeAddr()
	if err != nil {
		t.Fatal(err)
	}
	host, port, _ := net.SplitHostPort(addr)
	server, err := child.Start("fastmcp", exec.Command(python, "clients/fastmcp.py", host, port), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Stop)
	if err := server.Await(t.Context(), child.Listening(addr)); err != nil {
		t.Fatal(err)
	}
	runs := func() int {
		res, err := http.Get("http://" + addr + "/runs")
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		b, _ := io.ReadAll(res.Body)
		n, err := strconv.Atoi(string(b))
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	post := func(url, body string) int {
		req, _ := http.NewRequestWithContext(t.Context(), http.MethodPost, url+"/mcp", strings.NewReader(body))
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("Accept", "application/json, text/event-stream")
		req.Header.Set("Mcp-Protocol-Version", "2025-06-18")
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		_, _ = io.Copy(io.Discard, res.Body)
		return res.StatusCode
	}
	const call = `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"charge","arguments":{"note":"x","idempotency_key":"KEY"}}}`
	wide := func(s string) string {
		var b strings.Builder
		for _, u := range utf16.Encode([]rune(s)) {
			b.Write([]byte{byte(u), byte(u >> 8)})
		}
		return b.String()
	}
	bodies := []struct {
		name, body string
		runs       int // of two sent with a key
	}{
		{"as it should be", call, 1},
		{"half of a surrogate pair", strings.Replace(call, `"x"`, `"cut \ud83d"`, 1), 1},
		{"a byte order mark", "\xef\xbb\xbf" + call, 0},
		{"a duplicate member", strings.Replace(call, `"note"`, `"note":"y","note"`, 1), 0},
		{"NaN", strings.Replace(call, `"name"`, `"_meta":{"a":NaN},"name"`, 1), 0},
		{"UTF-16", wide(call), 0},
	}
	// Which of them the server itself runs, without a proxy.
	taken := map[string]bool{}
	for _, b := range bodies {
		before := runs()
		post("http://"+addr, b.body)
		taken[b.name] = runs() > before
	}
	t.Logf("FastMCP runs by itself: %v", taken)
	for _, proxy := range proxies {
		t.Run(proxy.name, func(t *testing.T) {
			url := proxy.start(t, "http://"+addr, `{"policies":{"p":{"server":"fastmcp","anonymous":true,"strip":true}},"default":"p"}`)
			for i, b := range bodies {
				before := runs()
				for range 2 {
					post(url, strings.Replace(b.body, "KEY", "key-"+strconv.Itoa(i), 1))
				}
				want := b.runs
				if !taken[b.name] {
					want = 0
				}
				if n := runs() - before; n != want {
					t.Errorf("%s: ran %d times, want %d", b.name, n, want)
				}
				before = runs()
				for range 2 {
					post(url, strings.NewReplacer("idempotency_key", "order", wide("idempotency_key"), wide("order")).Replace(b.body))
				}
				if n := runs() - before; (n == 2) != taken[b.name] {
					t.Errorf("%s, without a key: ran %d times, want 2 where the server takes it (%v)", b.name, n, taken[b.name])
				}
			}
		})
	}
}
