package callonce

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strconv"
	"sync"
)

// attempt is what was seen of one sending of a call.
type attempt struct {
	mu       sync.Mutex
	refusal  *Refusal
	response bool // a JSON-RPC response came whole
	lost     error
}

type attemptKey struct{}

func (a *attempt) hear(m message) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.refusal, a.response = m.refusal, m.response
}

func (a *attempt) lose(why error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.lost = why
}

type statusError string

func (s statusError) Error() string { return "the answer was HTTP " + string(s) }

// message is what a JSON-RPC message says of a call's fate.
type message struct {
	response bool
	refusal  *Refusal
}

// refusalPlace is where a refusal that is shaped as a tool's result carries its data.
const refusalPlace = "callonce.dev/refusal"

func readMessage(text []byte) message {
	var m struct {
		Method *string         `json:"method"`
		Result json.RawMessage `json:"result"`
		Error  *struct {
			Message string          `json:"message"`
			Data    json.RawMessage `json:"data"`
		} `json:"error"`
	}
	if json.Unmarshal(text, &m) != nil || m.Method != nil || m.Result == nil && m.Error == nil {
		return message{}
	}
	if m.Error != nil {
		return message{true, readRefusal(m.Error.Data, m.Error.Message)}
	}
	var result struct {
		IsError bool `json:"isError"`
		Content []struct {
			Text string `json:"text"`
		} `json:"content"`
		Meta map[string]json.RawMessage `json:"_meta"`
	}
	if json.Unmarshal(m.Result, &result) != nil || !result.IsError {
		return message{response: true}
	}
	var said string
	for _, part := range result.Content {
		said += part.Text
	}
	return message{true, readRefusal(result.Meta[refusalPlace], said)}
}

// readRefusal returns nil for the data of any other error.
func readRefusal(data []byte, said string) *Refusal {
	r := Refusal{Message: said}
	if json.Unmarshal(data, &r) != nil || r.Type == "" || r.Retry == "" || r.MayHaveRun == "" {
		return nil
	}
	return &r
}

// readCall tells whether a request is a tools/call, and its id as it was sent; the
// request that it returns can still be sent.
func readCall(req *http.Request) (id json.RawMessage, isCall bool, _ *http.Request, err error) {
	if req.Method != http.MethodPost || req.Body == nil {
		return nil, false, req, nil
	}
	body, err := io.ReadAll(req.Body)
	req.Body.Close()
	if err != nil {
		return nil, false, nil, err
	}
	req = req.Clone(req.Context())
	req.Body = bodyOf(body)
	req.GetBody = func() (io.ReadCloser, error) { return bodyOf(body), nil }
	var m struct {
		ID     json.RawMessage `json:"id"`
		Method string          `json:"method"`
	}
	if json.Unmarshal(body, &m) != nil || m.Method != "tools/call" || m.ID == nil {
		return nil, false, req, nil
	}
	return m.ID, true, req, nil
}

func bodyOf(text []byte) io.ReadCloser { return io.NopCloser(bytes.NewReader(text)) }

func isStream(resp *http.Response) bool {
	kind, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	return resp.StatusCode == http.StatusOK && kind == "text/event-stream"
}

// response is a JSON answer with status 200.
func response(req *http.Request, header http.Header, body []byte) *http.Response {
	header = header.Clone()
	header.Set("Content-Type", "application/json")
	header.Set("Content-Length", strconv.Itoa(len(body)))
	return &http.Response{
		Status: "200 OK", StatusCode: http.StatusOK, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: header, Body: bodyOf(body), ContentLength: int64(len(body)), Request: req,
	}
}

func lostResponse(req *http.Request, id json.RawMessage) *http.Response {
	return response(req, http.Header{}, lostMessage(id))
}

func lostMessage(id json.RawMessage) []byte {
	return fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%s,"error":{"code":-32000,"message":"The answer to this call was lost on its way.","data":{"type":"callonce_answer_lost"}}}`, id)
}

// streamReader passes an event stream on, each event once it is whole, and ends it with
// an error message when it ends without the call's response. (Half an event, passed on,
// would end the connection of some clients.) A stream whose server named its events may
// be taken up again (MCP 2025-11-25), and ends as it does.
type streamReader struct {
	body    io.ReadCloser
	id      json.RawMessage
	attempt *attempt

	pieces  [4096]byte
	event   []byte // what came of the event that is not whole yet
	begin   int    // of its last line
	ready   []byte // not read yet
	named   bool   // an event had an id
	heard   bool
	failure error // what ends the stream after ready
}

func (s *streamReader) Read(p []byte) (int, error) {
	for len(s.ready) == 0 {
		if s.failure != nil {
			return 0, s.failure
		}
		n, err := s.body.Read(s.pieces[:])
		s.scan(s.pieces[:n])
		if err != nil {
			s.end(err)
		}
	}
	n := copy(p, s.ready)
	s.ready = s.ready[n:]
	return n, nil
}

func (s *streamReader) Close() error { return s.body.Close() }

func (s *streamReader) end(err error) {
	s.failure = err
	if err == io.EOF && len(s.event) > 0 { // a last event may lack its blank line
		s.scan([]byte("\n\n"))
	}
	if !s.heard && !s.named {
		s.attempt.lose(fmt.Errorf("the stream ended without a response: %w", err))
		s.ready = fmt.Appendf(s.ready, "event: message\ndata: %s\n\n", lostMessage(s.id))
		s.failure = io.EOF
	}
}

func (s *streamReader) scan(p []byte) {
	for _, c := range p {
		s.event = append(s.event, c)
		if c != '\n' {
			continue
		}
		if line := bytes.TrimRight(s.event[s.begin:], "\r\n"); len(line) > 0 {
			s.begin = len(s.event)
			continue
		}
		s.read()
		s.ready = append(s.ready, s.event...)
		s.event, s.begin = s.event[:0], 0
	}
}

func (s *streamReader) read() {
	if s.heard {
		return
	}
	var data []byte
	for line := range bytes.Lines(s.event) {
		name, value, _ := bytes.Cut(bytes.TrimRight(line, "\r\n"), []byte(":"))
		value = bytes.TrimPrefix(value, []byte(" "))
		switch {
		case string(name) == "data":
			data = append(append(data, value...), '\n')
		case string(name) == "id" && len(value) > 0:
			s.named = true
		}
	}
	if m := readMessage(data); m.response {
		s.heard = true
		s.attempt.hear(m)
	}
}
