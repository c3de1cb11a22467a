// Package schedule plays a scenario under hostsim one step at a time, in an order that is chosen: at random by a seed, or every order
// there is. A step is a step of a worker's event loop or its next access to shared data; what clients, servers, clocks and faults do are
// steps too, offered by the scenario. Nothing happens between steps, and the clock moves only when a step moves it, so a run is
// repeated exactly by its seed.
//
// The package knows nothing about any particular filter: what must hold is for the scenario to check, after each step and at the end.
package schedule
