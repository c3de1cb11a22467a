package envoytest

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/callonce/callonce/e2e/tools"
)

// serversKeepIdle is how long common servers (Node, uvicorn) keep an idle connection.
const serversKeepIdle = 5 * time.Second

// A cluster that keeps idle connections longer than its server does loses the call that
// meets the close. Looked at are all configurations of the project, those that its
// documents show, and those that the tests make of them.
func TestClustersLetGoOfIdleConnectionsFirst(t *testing.T) {
	root, err := tools.Root()
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]int{}
	check := func(file, text string) {
		decoder := yaml.NewDecoder(strings.NewReader(text))
		for {
			var doc any
			if err := decoder.Decode(&doc); err != nil {
				return // the end; or a part that is no YAML, such as a template
			}
			clusters(doc, func(c map[string]any) {
				found[file]++
				checkIdle(t, file, c)
			})
		}
	}
	err = filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && (strings.HasPrefix(d.Name(), ".") && path != root || d.Name() == "node_modules" || d.Name() == "dist") {
			return filepath.SkipDir
		}
		ext := filepath.Ext(path)
		if ext != ".yaml" && ext != ".yml" && ext != ".md" {
			return nil
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		name, _ := filepath.Rel(root, path)
		if ext != ".md" {
			check(name, string(text))
			return nil
		}
		for _, block := range fenced.FindAllStringSubmatch(string(text), -1) {
			check(name, block[1])
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range []string{"envoy.yaml", "mtls-jwt.yaml", "detach.yaml"} {
		if found[filepath.Join("envoy", file)] == 0 {
			t.Errorf("no cluster was found in envoy/%s", file)
		}
		tree, err := configuration(Options{File: file, Plugin: "p", Upstream: "http://127.0.0.1:1", Edit: func(tree *Tree) {
			tree.Insert([]any{tree.Cluster("another", "http://127.0.0.1:2")}, Clusters...)
		}}, "log")
		if err != nil {
			t.Fatal(err)
		}
		seen := 0
		clusters(tree.top, func(c map[string]any) { seen++; checkIdle(t, "made of "+file, c) })
		if seen < 2 {
			t.Errorf("made of %s: want 2 clusters or more, found %d", file, seen)
		}
	}
}

var fenced = regexp.MustCompile("(?s)```ya?ml\n(.*?)```")

// clusters finds what looks like a cluster, at any depth.
func clusters(node any, f func(map[string]any)) {
	switch node := node.(type) {
	case map[string]any:
		if node["load_assignment"] != nil || node["connect_timeout"] != nil || node["lb_policy"] != nil {
			f(node)
		}
		for _, v := range node {
			clusters(v, f)
		}
	case []any:
		for _, v := range node {
			clusters(v, f)
		}
	}
}

func checkIdle(t *testing.T, file string, cluster map[string]any) {
	t.Helper()
	var node any = cluster
	for _, step := range []string{"typed_extension_protocol_options", "envoy.extensions.upstreams.http.v3.HttpProtocolOptions",
		"common_http_protocol_options", "idle_timeout"} {
		m, _ := node.(map[string]any)
		node = m[step]
	}
	d, err := time.ParseDuration(fmt.Sprint(node))
	if err != nil || d <= 0 || d >= serversKeepIdle {
		t.Errorf("%s: cluster %v: want an idle_timeout above 0 and below %v, found %v", file, cluster["name"], serversKeepIdle, node)
	}
}
