// Package hostsim runs a proxy-wasm module (ABI 0.2.x) the way Envoy runs it: several worker VMs over one table of shared
// data, one event loop for each worker, header and body callbacks that pause and resume, local replies that pass the
// response callbacks, ticks, queues, callouts. A [Proxy] puts such a host in front of a real server.
//
// It exists for two uses: trying a filter without Envoy, and testing one harder than Envoy allows. A test may stop a worker
// at any host call, make that call fail, end the VM there, and hold the clock (see [Hooks] and [ManualClock]).
//
// A test of a filter needs little more than this (see package hosttest):
//
//	front := hosttest.Start(t, hostsim.Config{Wasm: code, PluginConfig: config, Workers: 2, HoldHeaders: true}, server)
//	resp, body := front.Send("POST", "/api", call, "content-type", "application/json")
//
// The package knows nothing about any particular filter. What it does follows measurements of Envoy 1.40 and the
// behaviour that proxy-wasm-cpp-host documents in its headers; where Envoy surprises, hostsim surprises in the same way.
package hostsim
