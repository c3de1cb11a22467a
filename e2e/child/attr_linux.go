package child

import "syscall"

// attributes put the program in a process group of its own, and end it when we are
// killed: a test that times out runs no cleanup.
func attributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
