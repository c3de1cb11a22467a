// Package guard follows one request from its headers to its settlement:
//
//	headers     headers.go, classify.go   what they alone decide
//	body        stream.go, buffering.go   how the request waits until it is there
//	read        judge.go                  what the body is
//	policy      key.go                    what the tool that is called costs
//	key         key.go, scope.go          under which key, whose call, and which
//	claim       claim.go                  the ledger is asked, and answers
//	forward     forward.go, replay.go     sent on, or answered in the server's stead
//	read along  answer.go, readalong.go   the answer, while it passes
//	settle      settle.go                 what the answer makes of the key
//
// Data goes one way, and every decision is made here or in the packages below (mcp: what
// was asked; policy: what may be done; ledger: what happened before). It must not know
// proxy-wasm: a proxy is the Host interface, so that all of it runs, and is tested, as
// plain Go.
package guard
