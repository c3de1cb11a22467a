// Package child runs the programs that a test or a demo needs beside it (a proxy,
// a server) and makes sure that none outlives it. It knows nothing of what they do.
package child

import (
	"context"
	"fmt"
	"io"
	"net"
	"os/exec"
	"sync"
	"syscall"
	"time"
)

// keptOutput is how much of a program's output stays readable, in bytes.
const keptOutput = 4 << 20

// grace is how long a program may take to stop when asked to.
const grace = 10 * time.Second

// Process is a program that was started.
type Process struct {
	name string
	cmd  *exec.Cmd
	out  tail
	done chan struct{}
	err  error // how it ended; set before done is closed
}

// Start runs cmd. What it prints is kept (the last 4 MiB), and also written to echo
// unless that is nil. The name stands in errors. A terminal's Ctrl-C does not reach
// the program by itself: whoever started it says when it stops.
func Start(name string, cmd *exec.Cmd, echo io.Writer) (*Process, error) {
	p := &Process{name: name, cmd: cmd, done: make(chan struct{})}
	p.out.echo = echo
	cmd.Stdout, cmd.Stderr = &p.out, &p.out
	cmd.SysProcAttr = attributes()
	cmd.WaitDelay = time.Second
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	go func() {
		p.err = cmd.Wait()
		close(p.done)
	}()
	return p, nil
}

// PID is the program's process id.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Output is what the program printed so far, its last 4 MiB.
func (p *Process) Output() string { return p.out.String() }

// Done is closed when the program has ended.
func (p *Process) Done() <-chan struct{} { return p.done }

// Wait returns when the program has ended; nil when it ended with status 0.
func (p *Process) Wait() error {
	<-p.done
	return p.err
}

// Stop asks the program to end, makes it after 10 s, and returns when it has. It
// may be called again, and after the program ended by itself.
func (p *Process) Stop() {
	select {
	case <-p.done:
		return
	default:
	}
	// Fails only when the program has ended meanwhile, which is what is wanted.
	_ = p.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-p.done:
	case <-time.After(grace):
		_ = p.cmd.Process.Kill()
		<-p.done
	}
}

// Await calls ready until it returns nil. It fails, with what the program printed
// unless that was echoed, when the program ends before, or when ctx does.
func (p *Process) Await(ctx context.Context, ready func() error) error {
	for {
		err := ready()
		if err == nil {
			return nil
		}
		select {
		case <-p.done:
			return fmt.Errorf("%s ended (%v) before it was ready; %s", p.name, p.exit(), p.printed())
		case <-ctx.Done():
			return fmt.Errorf("%s is not ready: %w (last: %w); %s", p.name, context.Cause(ctx), err, p.printed())
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// printed is what an error says of the output: all of it, unless it was shown as it came.
func (p *Process) printed() string {
	if p.out.echo != nil {
		return "what it printed stands above"
	}
	return "it printed:\n" + p.Output()
}

func (p *Process) exit() string { return p.cmd.ProcessState.String() }

// Listening returns a check for [Process.Await]: that something takes connections
// at addr, a host:port.
func Listening(addr string) func() error {
	return func() error {
		conn, err := net.DialTimeout("tcp", addr, time.Second)
		if err != nil {
			return err
		}
		return conn.Close()
	}
}

// FreeAddr returns a host:port on the loopback interface at which nothing listened
// a moment ago. Only for programs that cannot be given port 0.
func FreeAddr() (string, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", fmt.Errorf("find a free port: %w", err)
	}
	defer listener.Close()
	return listener.Addr().String(), nil
}

// tail keeps the end of what is written to it.
type tail struct {
	mu   sync.Mutex
	kept []byte
	echo io.Writer
}

func (t *tail) Write(b []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.kept = append(t.kept, b...)
	// Cut only at twice the size, so that a talkative program costs one copy a
	// megabyte and not one a line.
	if len(t.kept) > 2*keptOutput {
		t.kept = append([]byte(nil), t.kept[len(t.kept)-keptOutput:]...)
	}
	if t.echo != nil {
		// A closed terminal must not stop the program that writes to it.
		_, _ = t.echo.Write(b)
	}
	return len(b), nil
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return string(t.kept[max(0, len(t.kept)-keptOutput):])
}
