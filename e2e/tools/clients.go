package tools

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"sync"
)

// Python returns a Python interpreter that has the official MCP client 1.x, at the
// versions of tools/requirements.txt; it is installed when it is not there yet.
func Python() (string, error) { return python() }

// Python2 is Python with the client 2.x, at the versions of tools/requirements-2.txt.
func Python2() (string, error) { return python2() }

// AgentsPython is Python with the OpenAI Agents SDK, at the versions of
// tools/requirements-agents.txt.
func AgentsPython() (string, error) { return agentsPython() }

var (
	agentsPython = sync.OnceValues(func() (string, error) { return pythonWith("python-agents", "requirements-agents.txt") })

	python  = sync.OnceValues(func() (string, error) { return pythonWith("python", "requirements.txt") })
	python2 = sync.OnceValues(func() (string, error) { return pythonWith("python-mcp2", "requirements-2.txt") })
)

func pythonWith(name, requirements string) (string, error) {
	file, err := path("tools", requirements)
	if err != nil {
		return "", err
	}
	pins, err := os.ReadFile(file)
	if err != nil {
		return "", err
	}
	dir, err := installed(name, pins, func(ctx context.Context, dir string) error {
		return venv(ctx, dir, "--require-hashes", "-r", file)
	})
	if err != nil {
		return "", err
	}
	return filepath.Join(dir, "bin", "python"), nil
}

// Node is a Node.js of version 22 and the folder of the packages in
// tools/package-lock.json.
type Node struct {
	// Binary is the path of node.
	Binary string
	// Modules is a node_modules folder.
	Modules string
}

// NodeTools returns them; they are installed when they are not there yet.
func NodeTools() (Node, error) { return nodeTools() }

var nodeTools = sync.OnceValues(func() (Node, error) {
	pins, err := npmPins("tools")
	if err != nil {
		return Node{}, err
	}
	dir, err := installed("node", pins, func(ctx context.Context, dir string) error { return npm(ctx, dir, "tools") })
	if err != nil {
		return Node{}, err
	}
	node := Node{Modules: filepath.Join(dir, "node_modules")}
	arch := map[string]string{"amd64": "x64"}[runtime.GOARCH]
	if arch == "" {
		arch = runtime.GOARCH
	}
	platform := "node-" + runtime.GOOS + "-" + arch
	node.Binary = filepath.Join(node.Modules, platform, "bin", "node")
	if !exists(node.Binary) {
		return Node{}, fmt.Errorf("tools/package.json: want a Node for this machine (the package %s), found none in %s", platform, node.Modules)
	}
	return node, nil
})

// npmPins are the files that say what npm installs, of a folder of the e2e folder.
func npmPins(folder ...string) (pins []byte, err error) {
	for _, name := range npmFiles {
		file, err := path(append(slices.Clone(folder), name)...)
		if err != nil {
			return nil, err
		}
		text, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		pins = append(pins, text...)
	}
	return pins, nil
}

var npmFiles = []string{"package.json", "package-lock.json"}

// npm installs what the lock file of a folder names. No package's own scripts run.
func npm(ctx context.Context, dir string, folder ...string) error {
	for _, name := range npmFiles {
		from, err := path(append(slices.Clone(folder), name)...)
		if err != nil {
			return err
		}
		text, err := os.ReadFile(from)
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(dir, name), text, 0o644); err != nil {
			return err
		}
	}
	if err := run(ctx, dir, "npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--fetch-retries", "1"); err != nil {
		return fmt.Errorf("need npm (any Node's): %w", err)
	}
	return nil
}
