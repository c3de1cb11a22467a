package serve

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"sync"
	"unicode"

	"github.com/callonce/callonce/hostsim"
)

// stateSpace is what an Envoy puts before the name of a filter state that a module sets.
const stateSpace = "wasm."

// logFields are the command's own fields and those of the flags.
func (c *Command) logFields(more pairs) []LogField {
	fields := append([]LogField(nil), c.LogFields...)
	for _, f := range more {
		fields = append(fields, LogField{Name: f[0], State: f[1]})
	}
	return fields
}

// accessLog writes one line for each request: time, method, path, status, duration, worker, what the filter says of it. The path is
// without its query, in which a credential may stand; Envoy's default format has both.
func accessLog(w io.Writer, fields []LogField) func(hostsim.Record) {
	var mu sync.Mutex
	return func(r hostsim.Record) {
		path, _, _ := strings.Cut(r.Path, "?")
		line := fmt.Sprintf("%s %s %s %d %dms worker=%d", r.Time.Format("2006-01-02T15:04:05.000Z07:00"),
			r.Method, path, r.Status, r.Duration.Milliseconds(), r.Worker)
		for _, f := range fields {
			switch value := r.FilterState[strings.TrimPrefix(f.State, stateSpace)]; {
			case value != "":
				line += " " + f.Name + "=" + bare(value)
			case !f.Optional:
				line += " " + f.Name + "=-"
			}
		}
		if r.Details != "" && r.Details != "via_upstream" {
			line += " details=" + r.Details
		}
		if r.Flags != "-" {
			line += " flags=" + r.Flags
		}
		mu.Lock()
		defer mu.Unlock()
		fmt.Fprintln(w, line)
	}
}

// bare leaves a value as it is where it reads as one word, and quotes it else.
func bare(value string) string {
	if strings.ContainsFunc(value, func(c rune) bool { return c <= ' ' || c == '"' || c == '=' || !unicode.IsPrint(c) }) {
		return strconv.Quote(value)
	}
	return value
}
