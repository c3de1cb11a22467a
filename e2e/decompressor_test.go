package e2e_test

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/callonce/callonce/e2e/envoytest"
)

// A decompressor ahead lets packed calls be guarded. Beyond max_inflate_ratio (100 unless set) Envoy hands on what it has
// unpacked so far as if that were all, so that the filter sees a body that breaks off and refuses it; with the ratio that
// envoy/README.md names no body of gzip is beyond it.
func TestDecompressorAhead(t *testing.T) {
	long := strings.Replace(chargeBody, "alice", strings.Repeat("a", 200_000), 1)
	var packed bytes.Buffer
	w, _ := gzip.NewWriterLevel(&packed, gzip.BestCompression)
	io.WriteString(w, long)
	w.Close()
	if ratio := len(long) / packed.Len(); ratio < 294 {
		t.Fatalf("want a body packed 294:1 or more, got %d:1", ratio)
	}
	for ratio, status := range map[int]int{0: 400, 1032: 200} {
		t.Run(fmt.Sprint("max_inflate_ratio ", ratio), func(t *testing.T) {
			var runs atomic.Int32
			var got atomic.Value
			server := scripted(t, func(w http.ResponseWriter, r *http.Request) {
				runs.Add(1)
				got.Store(r.Header.Get("Content-Encoding") + r.Header.Get("Accept-Encoding"))
				w.Header().Set("Content-Type", "application/json")
				io.WriteString(w, `{"jsonrpc":"2.0","id":1,"result":{"content":[]}}`)
			})
			e := startEnvoy(t, envoytest.Options{Plugin: must(t, buildPlugin), Upstream: server, Edit: func(tree *envoytest.Tree) {
				text := block(t, "envoy/README.md", "yaml", "- name: unpack")
				if !strings.Contains(text, "        max_inflate_ratio: 1032\n") {
					t.Fatalf("want a max_inflate_ratio of 1032 in\n%s", text)
				}
				if ratio == 0 {
					text = strings.Replace(text, "        max_inflate_ratio: 1032\n", "", 1)
				}
				tree.Insert(listOf(t, text), envoytest.Filters...)
			}})
			resp, text := send(t, "POST", e.URL(), packed.String(), "Content-Encoding", "gzip", "Idempotency-Key", "one")
			if resp.StatusCode != status {
				t.Errorf("packed: want %d, got %d %s", status, resp.StatusCode, text)
			}
			if status == 400 {
				if runs.Load() != 0 || !strings.Contains(text, "idempotency_unsupported_request") {
					t.Errorf("want the filter's refusal and no run, got %d runs, %s", runs.Load(), text)
				}
				return
			}
			for name, body := range map[string][]string{"packed": {packed.String(), "Content-Encoding", "gzip"}, "plain": {long}} {
				resp, again := send(t, "POST", e.URL(), body[0], append(body[1:], "Idempotency-Key", "one")...)
				if resp.StatusCode != 200 || again != text || resp.Header.Get("Idempotency-Replayed") != "true" {
					t.Errorf("the repeat, %s: want the first answer, got %d %s", name, resp.StatusCode, again)
				}
			}
			if runs.Load() != 1 || got.Load() != "" {
				t.Errorf("want 1 run, and no encoding told to the server, got %d, %q", runs.Load(), got.Load())
			}
		})
	}
}
