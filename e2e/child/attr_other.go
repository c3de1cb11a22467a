//go:build !linux

package child

import "syscall"

// attributes put the program in a process group of its own.
func attributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }
