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

// Variables by which the process that prepares tells the one that tests; the first two may be given, to test programs from elsewhere.
const (
	varIstio   = "CALLONCE_MESH_ISTIO"
	varGateway = "CALLONCE_MESH_GATEWAY"
	varEnvoy   = "ENVOY"
	varInside  = "CALLONCE_MESH_INSIDE"
)

func TestMain(m *testing.M) {
	if filepath.Base(os.Args[0]) == "kubectl" {
		os.Exit(kubectl(os.Args[1:]))
	}
	flag.Parse()
	if os.Getenv(varInside) == "" {
		os.Exit(prepare())
	}
	dir, err := os.MkdirTemp("", "callonce-mesh-")
	if err == nil {
		err = furnish(dir)
	}
	status := 1
	if err != nil {
		fmt.Fprintln(os.Stderr, "mesh: a world of its own:", err)
	} else {
		status = m.Run()
	}
	_ = os.RemoveAll(dir) // a temporary folder
	os.Exit(status)
}

func programs(mesh, variable string) (string, error) {
	if dir := os.Getenv(variable); dir != "" {
		return dir, nil
	}
	return tools.Mesh(mesh)
}

// prepare builds and installs, for which the network is needed, and then starts this program again where there is none but its own.
func prepare() int {
	envoy, err := tools.Envoy()
	istio, err2 := programs("istio", varIstio)
	gateway, err3 := programs("gateway", varGateway)
	if err := errors.Join(err, err2, err3); err != nil {
		fmt.Fprintln(os.Stderr, "mesh:", err)
		return 1
	}
	cmd := exec.Command("/proc/self/exe", os.Args[1:]...)
	cmd.Args[0] = os.Args[0]
	cmd.Env = append(os.Environ(), varInside+"=1", varIstio+"="+istio, varGateway+"="+gateway, varEnvoy+"="+envoy)
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

// hosts are the names in the manifests and pages.
const hosts = `127.0.0.1 localhost
` + gatewayIP + ` gateway.example.com
` + registryIP + ` registry.example.com
` + issuerIP + ` issuer.example.com
` + modulesIP + ` modules.example.com
`

// furnish makes the world that the manifests speak of: an interface that is up, names, an authority that vouches for them, and an
// empty /var/lib, since pilot-agent keeps modules in /var/lib/istio, which no option changes. Nobody outside sees any of it.
func furnish(dir string) error {
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
	if err := unix.Mount("none", "/var/lib", "tmpfs", 0, ""); err != nil {
		return err
	}
	if err := os.MkdirAll("/var/lib/istio/data", 0o755); err != nil {
		return err
	}
	if authority, err = newAuthority(); err != nil {
		return err
	}
	for over, text := range map[string]string{"/etc/hosts": hosts, "/etc/ssl/certs/ca-certificates.crt": authority.pem} {
		file := filepath.Join(dir, filepath.Base(over))
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			return err
		}
		if err := unix.Mount(file, over, "", unix.MS_BIND, ""); err != nil {
			return fmt.Errorf("%s: %w", over, err)
		}
	}
	return nil
}
