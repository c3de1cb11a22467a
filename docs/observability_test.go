package docs_test

import (
	"encoding/json"
	"regexp"
	"slices"
	"strings"
	"testing"
)

const observability = "envoy/observability/"

// madeMetrics are the metrics that the filter makes, with the labels that each has.
func madeMetrics(t *testing.T) map[string][]string {
	t.Helper()
	made := map[string][]string{}
	// metric{"name", []string{"label"}} or metric{"name", nil}; those without a server are counted so.
	source := read(t, "plugin/internal/guard/counts.go")
	for _, m := range regexp.MustCompile(`metric\{"([a-z_]+)", (?:nil|\[\]string\{([^}]*)\})\}`).FindAllStringSubmatch(source, -1) {
		labels := []string{"namespace", "server"}
		for _, l := range regexp.MustCompile(`"(\w+)"`).FindAllStringSubmatch(m[2], -1) {
			labels = append(labels, l[1])
		}
		made[m[1]] = labels
	}
	for _, name := range []string{"callonce_foreign_records_total", "callonce_headers_not_held_total"} {
		made[name] = []string{"namespace"}
	}
	if len(made) < 15 {
		t.Fatalf("%d metrics found in the guard: does the pattern still fit?", len(made))
	}
	return made
}

// checkExpression holds the metrics and labels of a PromQL expression to what the filter makes.
func checkExpression(t *testing.T, where, expr string, made map[string][]string, seen map[string]bool) {
	t.Helper()
	var all []string
	for _, m := range regexp.MustCompile(`\b((?:callonce|mcp_gateway)_[a-z_]+)(?:\{([^}]*)\})?`).FindAllStringSubmatch(expr, -1) {
		labels, known := made[m[1]]
		if !known {
			t.Errorf("%s: the filter does not make %s", where, m[1])
			continue
		}
		seen[m[1]] = true
		all = append(all, labels...)
		for _, l := range regexp.MustCompile(`(\w+)(?:=~|!=|!~|=)"`).FindAllStringSubmatch(m[2], -1) {
			if !slices.Contains(labels, l[1]) {
				t.Errorf("%s: %s has no label %s", where, m[1], l[1])
			}
		}
	}
	if all == nil {
		t.Errorf("%s: no metric of ours in %s", where, expr)
	}
	for _, by := range regexp.MustCompile(`by \(([^)]*)\)`).FindAllStringSubmatch(expr, -1) {
		for _, l := range strings.Split(by[1], ", ") {
			if !slices.Contains(all, l) {
				t.Errorf("%s: sums by %s, which none of its metrics has", where, l)
			}
		}
	}
}

// The dashboard is JSON, shows only metrics that the filter makes, by labels that they have, and
// leaves none of them out; no two panels lie on one another.
func TestDashboard(t *testing.T) {
	var d struct {
		Panels []struct {
			ID      int
			Title   string
			GridPos struct{ X, Y, W, H int }
			Targets []struct{ Expr, LegendFormat string }
		}
	}
	if err := json.Unmarshal([]byte(read(t, observability+"dashboard.json")), &d); err != nil {
		t.Fatal(err)
	}
	made, shown := madeMetrics(t), map[string]bool{}
	for i, p := range d.Panels {
		if p.Title == "" || len(p.Targets) == 0 {
			t.Errorf("panel %d has no title, or shows nothing", p.ID)
		}
		for _, target := range p.Targets {
			checkExpression(t, p.Title, target.Expr, made, shown)
			for _, l := range regexp.MustCompile(`\{\{(\w+)\}\}`).FindAllStringSubmatch(target.LegendFormat, -1) {
				if !regexp.MustCompile(`by \([^)]*\b` + l[1] + `\b`).MatchString(target.Expr) {
					t.Errorf("%s: its legend names %s, which %s does not keep", p.Title, l[1], target.Expr)
				}
			}
		}
		a := p.GridPos
		for _, other := range d.Panels[:i] {
			if b := other.GridPos; other.ID == p.ID || a.X < b.X+b.W && b.X < a.X+a.W && a.Y < b.Y+b.H && b.Y < a.Y+a.H {
				t.Errorf("%s and %s lie on one another, or have one id", p.Title, other.Title)
			}
		}
		if a.X < 0 || a.X+a.W > 24 {
			t.Errorf("%s: wider than the page", p.Title)
		}
	}
	for name := range made {
		if !shown[name] {
			t.Errorf("no panel shows %s", name)
		}
	}
}

// The alerts ask for metrics that the filter makes, and each is played by alerts_test.yml.
func TestAlerts(t *testing.T) {
	rules, played := read(t, observability+"alerts.yml"), read(t, observability+"alerts_test.yml")
	made, seen := madeMetrics(t), map[string]bool{}
	alerts := strings.Split(rules, "  - alert: ")[1:]
	if len(alerts) < 8 {
		t.Fatalf("%d alerts found: does the pattern still fit?", len(alerts))
	}
	for _, a := range alerts {
		name, rest, _ := strings.Cut(a, "\n")
		_, expr, _ := strings.Cut(rest, "expr:")
		expr, _, _ = strings.Cut(expr, "    labels:")
		checkExpression(t, name, expr, made, seen)
		if !regexp.MustCompile(`alertname: ` + name + `\n    eval_time: \S+\n    exp_alerts:\n    - `).MatchString(played) {
			t.Errorf("no test makes %s fire", name)
		}
	}
	for _, m := range regexp.MustCompile(`\$labels\.(\w+)`).FindAllStringSubmatch(rules, -1) {
		if m[1] != "namespace" && m[1] != "server" {
			t.Errorf("an annotation names the label %s", m[1])
		}
	}
}
