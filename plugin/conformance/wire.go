package conformance

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/http2/hpack"
)

// patience is when a request that is still unanswered counts as one that hangs.
const patience = 10 * time.Second

func dial(t testing.TB, p Proxy) net.Conn {
	t.Helper()
	conn, err := net.Dial("tcp", strings.TrimPrefix(p.URL(), "http://"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	_ = conn.SetDeadline(time.Now().Add(patience))
	return conn
}

// overHTTP1 writes the parts of a request as they are, one after the other, and reads
// the answer. A part "100" waits for the proxy's 100 Continue first.
func overHTTP1(t testing.TB, p Proxy, parts ...string) reply {
	t.Helper()
	conn := dial(t, p)
	in := bufio.NewReader(conn)
	for _, part := range parts {
		if part == "100" {
			if line, err := in.ReadString('\n'); err != nil || !strings.HasPrefix(line, "HTTP/1.1 100") {
				return reply{Err: err, Body: "expected 100 Continue, found " + line}
			}
			if _, err := in.ReadString('\n'); err != nil {
				return reply{Err: err}
			}
			continue
		}
		if _, err := io.WriteString(conn, part); err != nil {
			return reply{Err: err}
		}
	}
	res, err := http.ReadResponse(in, nil)
	if err != nil {
		return reply{Err: err}
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	return reply{res.StatusCode, res.Header, string(b), err}
}

// frame is one frame of an HTTP/2 request: headers (name, value, …) or data.
type frame struct {
	headers []string
	data    string
	end     bool
}

// The frames of RFC 9113 section 6 that are used, and their flags.
const (
	frameData, frameHeaders, frameReset, frameSettings, frameGoAway = 0, 1, 3, 4, 7

	flagEndStream, flagAck, flagEndHeaders = 1, 1, 4
)

// overHTTP2 sends frames as one stream, in clear, and reads the answer.
func overHTTP2(t testing.TB, p Proxy, frames ...frame) reply {
	t.Helper()
	conn := dial(t, p)
	var out, block bytes.Buffer
	out.WriteString("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")
	writeFrame(&out, frameSettings, 0, 0, nil)
	enc := hpack.NewEncoder(&block)
	for _, f := range frames {
		flags := byte(0)
		if f.end {
			flags = flagEndStream
		}
		if f.headers == nil {
			writeFrame(&out, frameData, flags, 1, []byte(f.data))
			continue
		}
		block.Reset()
		for i := 0; i < len(f.headers); i += 2 {
			_ = enc.WriteField(hpack.HeaderField{Name: f.headers[i], Value: f.headers[i+1]})
		}
		writeFrame(&out, frameHeaders, flags|flagEndHeaders, 1, block.Bytes())
	}
	if _, err := out.WriteTo(conn); err != nil {
		return reply{Err: err}
	}
	return readHTTP2(conn)
}

func writeFrame(w *bytes.Buffer, kind, flags byte, stream uint32, payload []byte) {
	w.Write([]byte{byte(len(payload) >> 16), byte(len(payload) >> 8), byte(len(payload)), kind, flags})
	_ = binary.Write(w, binary.BigEndian, stream)
	w.Write(payload)
}

func readHTTP2(conn net.Conn) (r reply) {
	r.Header = http.Header{}
	dec := hpack.NewDecoder(4096, func(f hpack.HeaderField) {
		if f.Name == ":status" {
			r.Status, r.Err = strconv.Atoi(f.Value)
			return
		}
		r.Header.Add(f.Name, f.Value)
	})
	in := bufio.NewReader(conn)
	for {
		var head [9]byte
		if _, r.Err = io.ReadFull(in, head[:]); r.Err != nil {
			return r
		}
		payload := make([]byte, int(head[0])<<16|int(head[1])<<8|int(head[2]))
		if _, r.Err = io.ReadFull(in, payload); r.Err != nil {
			return r
		}
		kind, flags := head[3], head[4]
		switch kind {
		case frameSettings:
			if flags&flagAck == 0 {
				var ack bytes.Buffer
				writeFrame(&ack, frameSettings, flagAck, 0, nil)
				_, r.Err = ack.WriteTo(conn)
			}
			continue
		case frameHeaders: // the proxies here neither pad nor split them
			if _, err := dec.Write(payload); err != nil {
				r.Err = err
			}
		case frameData:
			r.Body += string(payload)
		case frameReset, frameGoAway:
			r.Err = fmt.Errorf("HTTP/2: frame %d, %x, before the answer's end: %d %s", kind, payload, r.Status, r.Body)
			return r
		default:
			continue
		}
		if r.Err != nil || flags&flagEndStream != 0 {
			return r
		}
	}
}
