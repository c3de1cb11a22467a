// Package figures compares what the filter costs with what was recorded: the size of the module, and for each kind of request the calls
// of the host by name, the functions entered, the memory allocated, and the bytes that cross the ABI. Nothing of it depends on the machine
// or on time, and it knows of the filter only what a host sees. docs/measurements.md has the reason of each call of the host.
package figures
