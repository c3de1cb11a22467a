package manifests_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"
)

// What envoy/README.md shows of a pod that drains is a pod's, its script is there, and it is given longer than the script waits.
func TestPodSpec(t *testing.T) {
	text, err := os.ReadFile("../../envoy/README.md")
	if err != nil {
		t.Fatal(err)
	}
	const begins = "terminationGracePeriodSeconds:"
	_, rest, found := strings.Cut(string(text), "```yaml\n"+begins)
	block, _, closed := strings.Cut(rest, "```")
	if !found || !closed {
		t.Fatalf("envoy/README.md has no block that begins with %s", begins)
	}
	var pod corev1.PodSpec
	if err := yaml.UnmarshalStrict([]byte(begins+block), &pod); err != nil {
		t.Fatal(err)
	}
	command := pod.Containers[0].Lifecycle.PreStop.Exec.Command
	if _, err := os.Stat("../../envoy/" + filepath.Base(command[0])); err != nil || len(command) != 3 || command[2] != "600" || *pod.TerminationGracePeriodSeconds <= 600 {
		t.Errorf("want the script drain.sh, and longer than its 600 s, got %q and %d s, %v", command, *pod.TerminationGracePeriodSeconds, err)
	}
}
