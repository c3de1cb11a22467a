package hostsim

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
	run    func(v *vm, s []uint64) uint32
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
			stack[0] = uint64(run(ctx.Value(vmKey{}).(*vm), stack))
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
	ctx.Value(vmKey{}).(*vm).log(LogError, fmt.Sprintf("proc_exit(%d) ignored", int32(stack[0])))
}

func wasiClockTime(v *vm, s []uint64) uint32 {
	var t uint64
	switch word(s, 0) {
	case 0:
		t = uint64(v.host.clock.Now().UnixNano())
	case 1:
		t = uint64(v.host.clock.Mono())
	default:
		return wasiNotSup
	}
	return written(v.mem.WriteUint64Le(word(s, 2), t))
}

func wasiClockRes(v *vm, s []uint64) uint32 {
	if word(s, 0) > 1 {
		return wasiNotSup
	}
	return written(v.mem.WriteUint64Le(word(s, 1), 1))
}

func wasiRandom(v *vm, s []uint64) uint32 {
	if word(s, 1) > maxRandom {
		return wasiInval
	}
	b := make([]byte, word(s, 1))
	v.host.random(b)
	return written(v.mem.Write(word(s, 0), b))
}

// wasiWrite makes log lines of what the module prints: a Go panic's message arrives this way.
func wasiWrite(v *vm, s []uint64) uint32 {
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
		ptr, ok1 := v.mem.ReadUint32Le(word(s, 1) + i*8)
		size, ok2 := v.mem.ReadUint32Le(word(s, 1) + i*8 + 4)
		if !ok1 || !ok2 {
			return wasiFault
		}
		b, ok := v.mem.Read(ptr, size)
		if !ok {
			return wasiFault
		}
		text.Write(b)
	}
	n := text.Len()
	if n > 0 {
		v.log(level, strings.TrimSuffix(text.String(), "\n"))
	}
	return written(v.mem.WriteUint32Le(word(s, 3), uint32(n)))
}

func wasiNoStrings(v *vm, s []uint64) uint32 {
	return written(v.mem.WriteUint32Le(word(s, 0), 0) && v.mem.WriteUint32Le(word(s, 1), 0))
}

func wasiNothing(*vm, []uint64) uint32 { return wasiOK }

func written(ok bool) uint32 {
	if !ok {
		return wasiFault
	}
	return wasiOK
}
