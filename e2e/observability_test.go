package e2e_test

import (
	"encoding/json"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/callonce/callonce/e2e/tools"
)

// observed are the expressions of the dashboard, with Grafana's variables filled in.
func observed(t *testing.T) (all []string) {
	t.Helper()
	var d struct {
		Panels []struct{ Targets []struct{ Expr string } }
	}
	if err := json.Unmarshal([]byte(envoyFile(t, "observability/dashboard.json")), &d); err != nil {
		t.Fatal(err)
	}
	for _, p := range d.Panels {
		for _, target := range p.Targets {
			all = append(all, strings.NewReplacer("$__rate_interval", "1m", "$__range", "1h", "$namespace", ".*", "$server", ".*").Replace(target.Expr))
		}
	}
	if len(all) < 14 {
		t.Fatalf("want the dashboard's expressions, got %q", all)
	}
	return all
}

// What Prometheus is given is right by its own tool, each alert fires where it should and not
// before, and the dashboard's expressions are PromQL.
func TestPromtool(t *testing.T) {
	promtool := must(t, tools.Promtool)
	folder := filepath.Join(must(t, tools.Root), "envoy", "observability")
	type rule struct {
		Record string `yaml:"record"`
		Expr   string `yaml:"expr"`
	}
	var rules []rule
	for i, expr := range observed(t) {
		rules = append(rules, rule{fmt.Sprint("panel", i), expr})
	}
	text, err := yaml.Marshal(map[string]any{"groups": []any{map[string]any{"name": "dashboard", "rules": rules}}})
	if err != nil {
		t.Fatal(err)
	}
	dashboard := filepath.Join(t.TempDir(), "dashboard.yml")
	if err := os.WriteFile(dashboard, text, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"check", "config", "prometheus.yml"}, {"check", "rules", "alerts.yml"}, {"test", "rules", "alerts_test.yml"}, {"check", "rules", dashboard}} {
		cmd := exec.CommandContext(t.Context(), promtool, args...)
		cmd.Dir = folder
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("%v: %v\n%s", args, err, out)
		}
	}
}

// onlyInTrouble are the metrics that come into being only with a trouble that TestOperatorsSee does
// not make. That the filter makes them, docs.TestDashboard shows.
var onlyInTrouble = []string{
	"callonce_completed_errors_total", "callonce_ambiguous_total", "callonce_adverts_left_out_total", "callonce_claimed_ahead_total", "callonce_buckets_full_total",
	"callonce_foreign_records_total", "callonce_headers_not_held_total", "callonce_waits_total", "callonce_waiting", "callonce_detached_total", "callonce_detached",
}

// exported shows that Envoy exports what the dashboard and the alerts name, through the scrape
// of prometheus.yml.
func (o operator) exported() {
	o.t.Helper()
	var scrape struct {
		Configs []struct {
			Path   string              `yaml:"metrics_path"`
			Params map[string][]string `yaml:"params"`
		} `yaml:"scrape_configs"`
	}
	if err := yaml.Unmarshal([]byte(envoyFile(o.t, "observability/prometheus.yml")), &scrape); err != nil || len(scrape.Configs) != 1 {
		o.t.Fatalf("want one scrape configuration, got %+v, %v", scrape, err)
	}
	text, err := o.envoy.Admin("GET", scrape.Configs[0].Path+"?"+url.Values(scrape.Configs[0].Params).Encode())
	if err != nil {
		o.t.Fatal(err)
	}
	there := map[string]bool{}
	for _, m := range regexp.MustCompile(`(?m)^([a-z_]+)\{`).FindAllStringSubmatch(text, -1) {
		there[m[1]] = true
	}
	named := strings.Join(observed(o.t), "\n") + envoyFile(o.t, "observability/alerts.yml")
	for _, name := range regexp.MustCompile(`\b(?:callonce|mcp_gateway)_[a-z_]+`).FindAllString(named, -1) {
		if !there[name] && !slices.Contains(onlyInTrouble, name) {
			o.t.Errorf("want %s among what Prometheus scrapes, got\n%s", name, text)
		}
	}
	if !there["envoy_http_downstream_rq_total"] {
		o.t.Errorf("want Envoy's own of calls, got\n%.2000s", text)
	}
}
