// Command matrix runs the tests whose results hang on Envoy on each version that is
// supported, and prints what came of it.
package main

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/callonce/callonce/e2e/tools"
)

// hang are the tests that show something else where Envoy does something else; the rest
// of e2e is about clients, commands and documents.
var hang = []string{
	"TestCases", "TestNoCapabilityTooMany", "TestConfigurationAsItStands", "TestStartsWithoutARemark", "TestRefusedConfiguration", "TestTypedClaims", "TestEnds", "TestLarge",
	"TestHeadersNotHeld", "TestMeshRetries", "TestMeshPaths", "TestMeshPathsUnclosed", "TestGatewayBuffer", "TestPeerCertificates", "TestTokens", "TestGuardedPath",
	"TestProxyReplies", "TestFormatsOfLocalRepliesLeaveOursAlone", "TestTwiceInOneChain", "TestRoutes",
}

func main() {
	of := flag.String("of", "^("+strings.Join(hang, "|")+")$", "`PATTERN` of the tests, as -run of go test has it")
	on := flag.String("on", "", "`VERSIONS` to run on, with commas between them (default: all that are supported)")
	flag.Parse()
	failed, err := run(*of, *on)
	if err != nil {
		fmt.Fprintln(os.Stderr, "matrix:", err)
		os.Exit(2)
	}
	if failed {
		os.Exit(1)
	}
}

func run(of, on string) (failed bool, err error) {
	root, err := tools.Root()
	if err != nil {
		return false, err
	}
	all, err := tools.Envoys()
	if err != nil {
		return false, err
	}
	dir, err := os.MkdirTemp("", "callonce-matrix-")
	if err != nil {
		return false, err
	}
	defer os.RemoveAll(dir)
	tests := filepath.Join(dir, "e2e.test")
	if err := start(root, nil, "go", "test", "-C", "e2e", "-c", "-o", tests, "."); err != nil {
		return false, err
	}
	var lines []string
	for _, envoy := range all {
		if on != "" && !strings.Contains(","+on+",", ","+envoy.Version+",") {
			continue
		}
		binary, err := envoy.Install()
		if err != nil {
			return false, err
		}
		fmt.Printf("--- Envoy %s\n", envoy.Version)
		began := time.Now()
		// Tests that take the oldest beside it take the same one.
		err = start(filepath.Join(root, "e2e"), []string{"ENVOY=" + binary, "ENVOY_OLDEST=" + binary}, tests, "-test.run", of, "-test.timeout", "70m")
		result := "ok"
		if err != nil {
			result, failed = "FAILED", true
		}
		lines = append(lines, fmt.Sprintf("%-8s %-7s %s", envoy.Version, result, time.Since(began).Round(time.Second)))
	}
	if len(lines) == 0 {
		return false, fmt.Errorf("-on %s: none of them is supported", on)
	}
	fmt.Println(strings.Join(lines, "\n"))
	return failed, nil
}

func start(dir string, environment []string, name string, args ...string) error {
	cmd := exec.Command(name, args...)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), environment...)
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	return cmd.Run()
}
