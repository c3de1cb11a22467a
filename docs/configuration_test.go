package docs_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func read(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", file))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// What is said in several places is the same in all of them.
func TestSaidAlike(t *testing.T) {
	for line, files := range map[string][]string{
		`metadata: {filter_metadata: {callonce: {policy: "off"}}}`:                          {"README.md", "docs/configuration.md", "envoy/envoy.yaml", "envoy/mtls-jwt.yaml"},
		"envoy -c envoy/envoy.yaml --use-dynamic-base-id --file-flush-interval-msec 1000\n": {"README.md", "envoy/README.md", "envoy/envoy.yaml"},
	} {
		for _, file := range files {
			if !strings.Contains(read(t, file), line) {
				t.Errorf("%s: want %s", file, line)
			}
		}
	}
}
