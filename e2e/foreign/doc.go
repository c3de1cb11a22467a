// Package foreign tests hostsim with filters that this project did not write, or that are written in other languages than its own:
// the examples of the Go SDK and of the Rust SDK, and a filter each in Rust, AssemblyScript and C. It installs the compilers that
// they need; of other people's code nothing lies here, but what a registry serves at a pinned version is fetched and built.
//
// Everything runs on a machine with Go, Python, Node and the registries of their packages, except what is in Rust: that also wants
// rustup, or a compiler that has the target, and is skipped without.
//
// It must not know the filter of this project.
package foreign
