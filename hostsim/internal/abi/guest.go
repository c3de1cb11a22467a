package abi

import (
	"context"

	"github.com/tetratelabs/wazero/api"
)

// Guest is a module's instance as the functions see it: whom they ask for it, its memory, and how to get more of that.
type Guest struct {
	Proxy  Proxy
	Memory api.Memory
	// Malloc is the module's own. The functions call it with Context.
	Malloc  api.Function
	Context context.Context

	watch Watch // of the call that happens, nil = nobody watches
}

type guestKey struct{}

// With lets the functions find the guest whose code runs under the context.
func With(ctx context.Context, g *Guest) context.Context {
	return context.WithValue(ctx, guestKey{}, g)
}

func guestOf(ctx context.Context) *Guest { return ctx.Value(guestKey{}).(*Guest) }

// word reads the i-th argument.
func word(s []uint64, i int) uint32 { return uint32(s[i]) }

// bytes reads the bytes that the arguments i (pointer) and i+1 (size) describe. They are a copy, for guest memory may move or change.
func (g *Guest) bytes(s []uint64, i int) ([]byte, bool) {
	b, ok := g.Memory.Read(word(s, i), word(s, i+1))
	if !ok {
		return nil, false
	}
	return append([]byte(nil), b...), true
}

// several reads n arguments of bytes, from the i-th word on.
func (g *Guest) several(s []uint64, i, n int) ([][]byte, bool) {
	out := make([][]byte, n)
	for k := range out {
		var ok bool
		if out[k], ok = g.bytes(s, i+2*k); !ok {
			return nil, false
		}
	}
	return out, true
}

// alloc asks the module for memory of its own and copies b there. 0 bytes are not asked for: the pointer is then null.
func (g *Guest) alloc(b []byte) (uint32, bool) {
	if len(b) == 0 {
		return 0, true
	}
	results, err := g.Malloc.Call(g.Context, uint64(len(b)))
	if err != nil || len(results) == 0 || uint32(results[0]) == 0 {
		if err != nil {
			// The trap must unwind the callback that asked, as it would if the module had called malloc itself.
			panic(err)
		}
		return 0, false
	}
	ptr := uint32(results[0])
	return ptr, g.Memory.Write(ptr, b)
}

// give returns bytes to the module through a pointer and a size that it passed.
func (g *Guest) give(b []byte, ptrPtr, sizePtr uint32) Status {
	if g.watch != nil {
		b = g.watch.Hands(b)
	}
	ptr, ok := g.alloc(b)
	return written(ok && g.Memory.WriteUint32Le(ptrPtr, ptr) && g.Memory.WriteUint32Le(sizePtr, uint32(len(b))))
}

// written is the result of a call that had to write into the module's memory.
func written(ok bool) Status {
	if !ok {
		return InvalidMemory
	}
	return OK
}
