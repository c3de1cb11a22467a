package abi

import (
	"context"
	"fmt"
	"strings"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
	"github.com/tetratelabs/wazero/imports/wasi_snapshot_preview1"
)

// WASI error numbers.
const (
	wasiOK     = 0
	wasiBadFD  = 8
	wasiFault  = 21
	wasiInval  = 28
	wasiNotSup = 58
)

// maxRandom is the most that one random_get yields.
const maxRandom = 64 << 10

type wasiFunc struct {
	name   string
	params []api.ValueType
	run    func(g *Guest, s []uint64) uint32
}

const (
	i32 = api.ValueTypeI32
	i64 = api.ValueTypeI64
)

// wasiFuncs are those that a proxy answers by itself. All others behave as WASI does without files, arguments or sockets.
var wasiFuncs = []wasiFunc{
	{"clock_time_get", []api.ValueType{i32, i64, i32}, wasiClockTime},
	{"clock_res_get", []api.ValueType{i32, i32}, wasiClockRes},
	{"random_get", []api.ValueType{i32, i32}, wasiRandom},
	{"fd_write", []api.ValueType{i32, i32, i32, i32}, wasiWrite},
	{"args_sizes_get", []api.ValueType{i32, i32}, wasiNoStrings},
	{"args_get", []api.ValueType{i32, i32}, wasiNothing},
	{"environ_sizes_get", []api.ValueType{i32, i32}, wasiNoStrings},
	{"environ_get", []api.ValueType{i32, i32}, wasiNothing},
	{"sched_yield", nil, wasiNothing},
}

func instantiateWASI(ctx context.Context, r wazero.Runtime, name string) ([]string, error) {
	b := r.NewHostModuleBuilder(name)
	wasi_snapshot_preview1.NewFunctionExporter().ExportFunctions(b)
	for _, f := range wasiFuncs {
		run := f.run
		b.NewFunctionBuilder().WithGoModuleFunction(api.GoModuleFunc(func(ctx context.Context, _ api.Module, stack []uint64) {
			stack[0] = uint64(run(guestOf(ctx), stack))
		}), f.params, []api.ValueType{i32}).Export(f.name)
	}
	b.NewFunctionBuilder().WithGoModuleFunction(api.GoModuleFunc(wasiExit), []api.ValueType{i32}, nil).Export("proc_exit")
	m, err := b.Compile(ctx)
	if err != nil {
		return nil, err
	}
	var names []string
	for n := range m.ExportedFunctions() {
		names = append(names, n)
	}
	_, err = r.InstantiateModule(ctx, m, wazero.NewModuleConfig().WithName(name))
	return names, err
}

// wasiExit returns, as Envoy's does: os.Exit has no effect there, while a panic goes on to trap.
func wasiExit(ctx context.Context, _ api.Module, stack []uint64) {
	guestOf(ctx).Proxy.Log(LogError, fmt.Sprintf("proc_exit(%d) ignored", int32(stack[0])))
}

func wasiClockTime(g *Guest, s []uint64) uint32 {
	var t uint64
	switch word(s, 0) {
	case 0:
		t = uint64(g.Proxy.Now().UnixNano())
	case 1:
		t = uint64(g.Proxy.Mono())
	default:
		return wasiNotSup
	}
	return wasiWritten(g.Memory.WriteUint64Le(word(s, 2), t))
}

func wasiClockRes(g *Guest, s []uint64) uint32 {
	if word(s, 0) > 1 {
		return wasiNotSup
	}
	return wasiWritten(g.Memory.WriteUint64Le(word(s, 1), 1))
}

func wasiRandom(g *Guest, s []uint64) uint32 {
	if word(s, 1) > maxRandom {
		return wasiInval
	}
	b := make([]byte, word(s, 1))
	g.Proxy.Random(b)
	return wasiWritten(g.Memory.Write(word(s, 0), b))
}

// wasiWrite makes log lines of what the module prints: a Go panic's message arrives this way.
func wasiWrite(g *Guest, s []uint64) uint32 {
	level := LogInfo
	switch word(s, 0) {
	case 1:
	case 2:
		level = LogError
	default:
		return wasiBadFD
	}
	var text strings.Builder
	for i := range word(s, 2) {
		ptr, ok1 := g.Memory.ReadUint32Le(word(s, 1) + i*8)
		size, ok2 := g.Memory.ReadUint32Le(word(s, 1) + i*8 + 4)
		if !ok1 || !ok2 {
			return wasiFault
		}
		b, ok := g.Memory.Read(ptr, size)
		if !ok {
			return wasiFault
		}
		text.Write(b)
	}
	n := text.Len()
	if n > 0 && level == LogError {
		g.Proxy.Printed([]byte(text.String()))
	}
	if n > 0 {
		g.Proxy.Log(level, strings.TrimSuffix(text.String(), "\n"))
	}
	return wasiWritten(g.Memory.WriteUint32Le(word(s, 3), uint32(n)))
}

func wasiNoStrings(g *Guest, s []uint64) uint32 {
	return wasiWritten(g.Memory.WriteUint32Le(word(s, 0), 0) && g.Memory.WriteUint32Le(word(s, 1), 0))
}

func wasiNothing(*Guest, []uint64) uint32 { return wasiOK }

// wasiWritten is the result of a call that had to write into the module's memory.
func wasiWritten(ok bool) uint32 {
	if !ok {
		return wasiFault
	}
	return wasiOK
}
