// Package guard follows one request from its headers to its settlement:
//
//	headers → body → read → policy → key → claim → forward → read along → settle
//
// Each step is a function of that name, data goes one way, and every decision is
// made here or in the packages below it (mcp: what was asked; policy: what may be
// done; ledger: what happened before). It must not know proxy-wasm: a proxy is the
// Host interface, so that all of it runs, and is tested, as plain Go.
package guard
