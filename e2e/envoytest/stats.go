package envoytest

import (
	"fmt"
	"strconv"
	"strings"
)

// Counter returns a metric as Envoy's /stats/prometheus shows it: the sum of all
// series of that name that carry the labels given, and perhaps others; 0 when there
// is none.
func (e *Envoy) Counter(name string, labels map[string]string) (int64, error) {
	text, err := e.Admin("GET", "/stats/prometheus")
	if err != nil {
		return 0, err
	}
	return sum(text, name, labels)
}

// sum adds up series in a text of the Prometheus exposition format 0.0.4.
func sum(text, name string, labels map[string]string) (int64, error) {
	var total float64
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' {
			continue
		}
		s, err := parseSeries(line)
		if err != nil {
			return 0, err
		}
		if s.name == name && s.has(labels) {
			total += s.value
		}
	}
	return int64(total), nil
}

type series struct {
	name   string
	labels map[string]string
	value  float64
}

func (s series) has(labels map[string]string) bool {
	for name, want := range labels {
		if got, ok := s.labels[name]; !ok || got != want {
			return false
		}
	}
	return true
}

func parseSeries(line string) (series, error) {
	malformed := fmt.Errorf("metrics: want name{label=\"value\",…} number, got %q", line)
	end := strings.IndexAny(line, "{ ")
	if end < 0 {
		return series{}, malformed
	}
	s := series{name: line[:end], labels: map[string]string{}}
	rest := line[end:]
	if rest[0] == '{' {
		rest = rest[1:]
		for !strings.HasPrefix(rest, "}") {
			name, after, found := strings.Cut(rest, "=")
			if !found {
				return series{}, malformed
			}
			quoted, err := strconv.QuotedPrefix(after)
			if err != nil {
				return series{}, malformed
			}
			if s.labels[name], err = strconv.Unquote(quoted); err != nil {
				return series{}, malformed
			}
			rest = strings.TrimPrefix(after[len(quoted):], ",")
		}
		rest = rest[1:]
	}
	var err error
	if s.value, err = strconv.ParseFloat(strings.TrimSpace(rest), 64); err != nil {
		return series{}, malformed
	}
	return s, nil
}
