//go:build !linux

package e2e_test

import "testing"

func fullBacklog(*testing.T) string { return "http://127.0.0.1:1" }
