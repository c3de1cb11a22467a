// Package docs has nothing but tests: they hold the project's documents to what is built, and what the code cites to the
// documents. It must not know how anything works, only where it is said.
package docs
