package mcp

import "bytes"

// Events reads a server-sent event stream (WHATWG HTML, section 9.2.6) chunk by
// chunk and hands out the data of each event that has any. Of an event whose data is
// longer than Cap bytes, white space between the tokens of its JSON not counted, it hands
// out the beginning as soon as that is known, with Cut set, and nothing more. It keeps at
// most Cap bytes of an event; other fields and comments cost nothing. The zero value with
// a Cap is ready.
type Events struct {
	Cap      int
	Cut      bool // what is handed out is the beginning of an event that is longer than Cap
	Oversize bool // an event that has ended was longer than Cap

	data    Text
	head    []byte // the beginning of a line whose field is not told yet
	line    line
	some    bool // this event has a data line
	told    bool // the beginning of this event was handed out
	afterCR bool
	begun   bool
}

// line is what the line that is being read turned out to be.
type line uint8

const (
	untold line = iota
	blank
	ofData
	ofNothing // another field, or a comment
)

// Open reports whether an event that is longer than Cap has not ended.
func (e *Events) Open() bool { return e.data.Over }

// Begun reports whether an event that has data has not ended.
func (e *Events) Begun() bool { return e.some }

// Feed reads a chunk and calls event with the data of every event that ends in it, or
// that becomes too long, until event returns true. data is valid during the call only.
func (e *Events) Feed(chunk []byte, event func(data []byte) bool) {
	for len(chunk) > 0 {
		if e.afterCR {
			e.afterCR = false
			if chunk[0] == '\n' {
				chunk = chunk[1:]
				continue
			}
		}
		part, end := chunk, bytes.IndexAny(chunk, "\r\n")
		if end >= 0 {
			e.afterCR = chunk[end] == '\r'
			part, chunk = chunk[:end], chunk[end+1:]
		} else {
			chunk = nil
		}
		e.data.Cap = e.Cap
		e.take(part, end >= 0)
		if e.data.Over && !e.told {
			e.told, e.Cut = true, true
			stop := event(e.data.Bytes())
			if e.Cut = false; stop {
				return
			}
		}
		if end < 0 {
			return
		}
		ends := e.line == blank
		if e.line = untold; ends && e.endEvent(event) {
			return
		}
	}
}

// longestHead is the most that can stand before a line's data: on the first line, a
// byte order mark too.
const longestHead = len(byteOrderMark + "data: ")

const byteOrderMark = "\xEF\xBB\xBF"

// take takes a part of a line; end says that it is the last.
func (e *Events) take(part []byte, end bool) {
	if e.line == untold {
		head := part
		if part = nil; len(e.head) > 0 || !end && len(head) < longestHead {
			n := min(longestHead-len(e.head), len(head))
			e.head, part = append(e.head, head[:n]...), head[n:]
			if !end && len(e.head) < longestHead {
				return
			}
			head = e.head
		}
		e.begin(head)
		e.head = e.head[:0]
	}
	if e.line == ofData {
		e.data.Add(part)
	}
}

// begin tells by a line's beginning what it is.
func (e *Events) begin(head []byte) {
	if !e.begun {
		e.begun = true
		head = bytes.TrimPrefix(head, []byte(byteOrderMark))
	}
	value, isData := bytes.CutPrefix(head, []byte("data"))
	switch {
	case len(head) == 0:
		e.line = blank
		return
	case !isData, len(value) > 0 && value[0] != ':':
		e.line = ofNothing
		return
	}
	if len(value) > 0 {
		value = bytes.TrimPrefix(value[1:], []byte(" "))
	}
	if e.some {
		e.data.Add([]byte{'\n'})
	}
	e.line, e.some = ofData, true
	e.data.Add(value)
}

// endEvent hands out an event that has ended, and reports what event returned.
func (e *Events) endEvent(event func(data []byte) bool) (stop bool) {
	over := e.data.Over
	e.Oversize = e.Oversize || over
	if !over && e.data.Len() > 0 {
		stop = event(e.data.Bytes())
	}
	e.data.Reset()
	e.some, e.told = false, false
	return stop
}

// Value finds where a JSON text ends without reading it strictly, so that a body
// sent in chunks can be judged with its last byte and not with the stream's end.
// The zero value is ready.
type Value struct {
	depth   int
	quoted  bool
	escaped bool
	Done    bool // the outermost object or array has ended
	Trailed bool // something other than white space followed it
}

// Feed reads a chunk.
func (v *Value) Feed(chunk []byte) {
	for _, c := range chunk {
		switch {
		case v.Done:
			if c != ' ' && c != '\n' && c != '\r' && c != '\t' {
				v.Trailed = true
			}
		case v.escaped:
			v.escaped = false
		case v.quoted:
			v.escaped = c == '\\'
			v.quoted = c != '"'
		case c == '"':
			v.quoted = true
		case c == '{' || c == '[':
			v.depth++
		case c == '}' || c == ']':
			v.depth--
			v.Done = v.depth <= 0
		}
	}
}
