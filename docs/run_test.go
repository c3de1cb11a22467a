package docs_test

import (
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// ran says of each block and each command line of the documents, by how it begins, which test runs it or loads it. "" stands for what is
// neither a command nor a configuration: a picture, what was printed, a shape.
var ran = map[string]map[string]string{
	"README.md": {
		"make run ": "TestRunPrintsWhatWorks", "make test ": "TestCommands", `json {`: "TestReadmePolicy", "envoy -c envoy/envoy.yaml": "TestConfigurationAsItStands",
	},
	"CONTRIBUTING.md":              {" canonical/": "", " ": ""},
	"clients/go/README.md":         {"go caller :=": "TestClientReadmes", "go mod edit": "TestClientsInstall"},
	"clients/python/README.md":     {"python import callonce": "TestClientReadmes", "pip install": "TestClientsInstall"},
	"clients/typescript/README.md": {"ts import {": "TestClientReadmes", "npm install": "TestClientsInstall", "npm pack": "TestClientsInstall"},
	"docs/agents.md":               {"json {": "TestJSONBlocks"},
	"docs/configuration.md":        {"yaml - name: other": "TestDocumentsYAML", "json {": "TestJSONBlocks"},
	"docs/contract.md":             {"json {": ""},
	"docs/envoy-gateway.md":        {"sh make build": "TestGatewayPage"},
	"docs/istio.md":                {"sh make build": "TestIstioPage"},
	"docs/etcd.md": {
		"json {": "TestJSONBlocks", "yaml clusters:": "TestDocumentsYAML", "yaml   health_checks:": "TestDocumentsYAML", "yaml   transport_socket:": "TestDocumentsYAML",
		"sh etcdctl get": "TestEtcdctl", "sh etcdctl role add": "TestEtcdctl",
	},
	"docs/ledger.md":       {" ": ""},
	"docs/measurements.md": {"text Commit": ""},
	"docs/operators.md": {
		"json {\n": "TestJSONBlocks", `json {"keys"`: "", `json {"path"`: "TestRunIsTheDemo", "yaml - name: callonce-keys": "TestKeysCommand",
		"printf ": "TestOperatorDigestLine", "dist/callonce keys": "TestKeysCommand",
	},
	"envoy/README.md": {
		"envoy -c envoy/envoy.yaml": "TestConfigurationAsItStands", "envoy -c envoy/dynamic/bootstrap.yaml": "TestConfigurationAsItStands", "envoy/drain.sh": "TestDrain",
		"jq -n": "TestRepeatsRecipe", "yaml - name: unpack": "TestDecompressorAhead", "yaml terminationGracePeriodSeconds": "TestPodSpec", "yaml tracing:": "TestTraces",
		"sh mkdir -p certs": "TestRecipeForCallers", "sh t=": "TestRecipeForCallers", "yaml action: ALLOW": "TestRightsAreAskedForReplays", "yaml name: envoy.filters.http.ext_authz": "TestRightsAreAskedForReplays",
	},
	"hostsim/README.md": {
		"go package hostsim_test": "TestReadmeShowsTheExample", "json [": "TestReadmeFaults", "go mod edit": "TestOwnModule", "go mod tidy": "TestOwnModule",
		"hostsim serve": "TestNothingOfOurs", "hostsim check": "TestNothingOfOurs", "hostsim version": "TestNothingOfOurs",
		"go test ./hostsim": "TestHostsimDoesWhatEnvoyDoes", "ENVOY=": "TestHostsimDoesWhatEnvoyDoes",
	},
}

var (
	fenced = regexp.MustCompile("(?ms)^```(\\w*)\n(.*?)^```$")
	// typed is an indented line that somebody is to type.
	typed = regexp.MustCompile(`(?m)^    ((?:make|go|dist/|envoy|curl|kubectl|printf|jq|pip|npm|node|python|hostsim|etcdctl|[A-Z]+=)\S* ?.*)$`)
)

// Every block and every command line of the documents is run or loaded by a test, which the table names; and the table names nothing else.
func TestEveryBlockIsRun(t *testing.T) {
	tests := map[string]bool{}
	each(t, "_test.go", func(_, source string) {
		for _, m := range regexp.MustCompile(`(?m)^func (Test\w+)\(`).FindAllStringSubmatch(source, -1) {
			tests[m[1]] = true
		}
	})
	for file, text := range documents(t) {
		if file == "CHANGELOG.md" {
			continue
		}
		var found []string
		for _, m := range fenced.FindAllStringSubmatch(text, -1) {
			found = append(found, m[1]+" "+m[2])
		}
		for _, m := range typed.FindAllStringSubmatch(fenced.ReplaceAllString(text, ""), -1) {
			found = append(found, m[1]+"\n")
		}
		used := map[string]bool{}
		for _, block := range found {
			begins := ""
			for _, b := range slices.Sorted(maps.Keys(ran[file])) {
				if strings.HasPrefix(block, b) && len(b) > len(begins) {
					begins = b
				}
			}
			if begins == "" {
				first, _, _ := strings.Cut(block, "\n")
				t.Errorf("%s: no test is named that runs or loads %q", file, first)
				continue
			}
			used[begins] = true
			if name := ran[file][begins]; name != "" && !tests[name] {
				t.Errorf("%s: %q: there is no test %s", file, begins, name)
			}
		}
		for b := range ran[file] {
			if !used[b] {
				t.Errorf("%s has nothing that begins with %q", file, b)
			}
		}
	}
}
