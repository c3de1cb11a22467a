package mesh_test

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/callonce/callonce/e2e/tools"
)

// record writes what the control planes sent into e2e/testdata/meshes, instead of comparing it.
var record = flag.Bool("record", false, "record the meshes' listeners anew")

// Variables by which the process that prepares tells the one that tests.
const (
	varIstio   = "CALLONCE_MESH_ISTIO"
	varGateway = "CALLONCE_MESH_GATEWAY"
	varEnvoy   = "ENVOY"
)

func TestMain(m *testing.M) {
	flag.Parse()
	switch {
	case filepath.Base(os.Args[0]) == "kubectl":
		os.Exit(kubectl(os.Args[1:]))
	case os.Getenv(varIstio) == "":
		os.Exit(prepare())
	}
	if err := furnish(); err != nil {
		fmt.Fprintln(os.Stderr, "mesh: a network and a /var/lib of its own:", err)
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// prepare builds and installs, for which the network is needed, and then starts this program again where there is none but its own.
func prepare() int {
	envoy, err := tools.Envoy()
	istio, err2 := tools.Mesh("istio")
	gateway, err3 := tools.Mesh("gateway")
	if err := errors.Join(err, err2, err3); err != nil {
		fmt.Fprintln(os.Stderr, "mesh:", err)
		return 1
	}
	cmd := exec.Command("/proc/self/exe", os.Args[1:]...)
	cmd.Args[0] = os.Args[0]
	cmd.Env = append(os.Environ(), varIstio+"="+istio, varGateway+"="+gateway, varEnvoy+"="+envoy)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWNET | unix.CLONE_NEWNS, Pdeathsig: syscall.SIGKILL}
	if os.Getuid() != 0 {
		cmd.SysProcAttr.Cloneflags |= unix.CLONE_NEWUSER
		cmd.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}}
		cmd.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}}
	}
	var ended *exec.ExitError
	if err := cmd.Run(); errors.As(err, &ended) {
		return ended.ExitCode()
	} else if err != nil {
		fmt.Fprintln(os.Stderr, "mesh: want to make namespaces (root, or a kernel that lets others make them):", err)
		return 1
	}
	return 0
}

// furnish brings the loopback interface up, and lays an empty folder over /var/lib: pilot-agent keeps modules in /var/lib/istio,
// which no option changes.
func furnish() error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	lo, err := unix.NewIfreq("lo")
	if err != nil {
		return err
	}
	lo.SetUint16(unix.IFF_UP | unix.IFF_RUNNING)
	if err := unix.IoctlIfreq(fd, unix.SIOCSIFFLAGS, lo); err != nil {
		return err
	}
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return err
	}
	return unix.Mount("none", "/var/lib", "tmpfs", 0, "")
}
