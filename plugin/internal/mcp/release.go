package mcp

import "github.com/callonce/callonce/plugin/internal/scratch"

// Release lets go of the message that was read, and of what a huge one made the reader
// grow to. It must be called once nothing more is asked of a message.
func (r *Response) Release() {
	r.doc.Shrink(scratch.Most)
	r.envelope.src, r.envelope.scratch = nil, scratch.Keep(r.envelope.scratch)
	r.mine, r.its = scratch.Keep(r.mine), scratch.Keep(r.its)
}
