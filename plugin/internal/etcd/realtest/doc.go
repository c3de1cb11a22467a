// Package realtest holds the store against a real etcd, embedded in its test. It is a Go
// module of its own, so that nobody else gets etcd's dependencies. It must not know a
// proxy.
package realtest
