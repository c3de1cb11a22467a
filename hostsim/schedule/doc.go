// Package schedule plays a scenario under hostsim one step at a time, in an order that is chosen: at random by a seed ([Play]), or every order
// there is ([Every]). A step is a step of a worker's event loop or its next access to shared data; what clients, servers, clocks and faults do are
// steps too, offered by the scenario. Nothing happens between steps, and the clock moves only when a step moves it, so a run is
// repeated exactly by its seed.
//
// Every plays one of all orders that differ only in steps that may be swapped. Which may is seen while they run: two steps depend on each
// other if they are one actor's, if one posts or offers the other, if both post to one worker, if one moves the clock and the other looks at
// it, if both go to one key of shared data and one of them writes it (a set that is refused does not), or if the scenario says so. It
// is right only where a scenario's own callbacks tell what they touch. Check sees the states of the orders that are played; what it
// compares across keys must be named in Compared.
//
// Scenarios of two claims have hundreds to thousands of such orders. What makes their number grow is tries: a set that is refused is tried
// again, so that each write of one worker may come between a read and a write of another.
//
// The package knows nothing about any particular filter: what must hold is for the scenario to check, after each step and at the end.
package schedule
