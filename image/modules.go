package image

import (
	"bytes"
	"errors"
	"runtime/debug"
)

// Go's linker puts the list of modules between these two (cmd/go, modload.ModInfoData).
// debug/buildinfo finds it in the formats of operating systems, but not in WebAssembly.
var infoStart, infoEnd = []byte("0w\xaf\x0c\x92t\b\x02A\xe1\xc1\a\xe6\xd6\x18\xe6"), []byte("\xf92C1\x86\x18 r\x00\x82B\x10A\x16\xd8\xf2")

// Modules reads from a compiled module what it was linked of: what is in the module, and
// not what go.mod would allow.
func Modules(wasm []byte) (*debug.BuildInfo, error) {
	_, rest, ok := bytes.Cut(wasm, infoStart)
	text, _, whole := bytes.Cut(rest, infoEnd)
	if !ok || !whole {
		return nil, errors.New("no list of modules in it: want a module that Go has linked")
	}
	return debug.ParseBuildInfo(string(text))
}
