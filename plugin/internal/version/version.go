// Package version says which build this is, from what the go command stamps into every build: nothing is written down by hand. It knows nothing else of the program.
package version

import (
	"runtime"
	"strings"
)

// String is the module's version, its revision and the compiler's version, such as
// "v0.3.0 (1a2b3c4d5e6f, 2026-01-31T10:00:00Z, modified) go1.26.0". What the build does not know is left out: a
// test, or a build outside of a repository, has no revision.
func String() string { return text(stamp(), runtime.Version()) }

// Build is the module's version and its revision, such as "v0.3.0" and "1a2b3c4d5e6f", "1a2b3c4d5e6f-modified" where files were changed: labels of a metric. What the
// build does not know is "(devel)" and "".
func Build() (version, revision string) { return build(stamp()) }

func build(stamp string) (version, revision string) {
	f := factsOf(stamp)
	if f.revision != "" && f.modified {
		f.revision += "-modified"
	}
	return f.version, f.revision
}

// frame is the number of bytes before and after the facts, by which tools find them in a binary.
const frame = 16

// facts are what of a stamp is told.
type facts struct {
	version, revision, when string
	modified                bool
}

// text says them in one line.
func text(stamp, goVersion string) string {
	f := factsOf(stamp)
	v := f.version
	if f.revision != "" {
		v += " (" + f.revision
		if f.when != "" {
			v += ", " + f.when
		}
		if f.modified {
			v += ", modified"
		}
		v += ")"
	}
	return v + " " + goVersion
}

// factsOf reads the stamp: lines of "mod\tPATH\tVERSION\tSUM" and "build\tKEY=VALUE", as "go version -m" prints them.
func factsOf(stamp string) facts {
	f := facts{version: "(devel)"}
	if len(stamp) > 2*frame {
		stamp = stamp[frame : len(stamp)-frame]
	}
	for line := range strings.SplitSeq(stamp, "\n") {
		if fact, ok := strings.CutPrefix(line, "mod\t"); ok {
			if _, rest, _ := strings.Cut(fact, "\t"); rest != "" {
				f.version, _, _ = strings.Cut(rest, "\t")
			}
			continue
		}
		fact, _ := strings.CutPrefix(line, "build\t")
		key, value, _ := strings.Cut(fact, "=")
		switch {
		case key == "vcs.revision":
			f.revision = value[:min(12, len(value))]
		case key == "vcs.time":
			f.when = value
		case key == "vcs.modified":
			f.modified = value == "true"
		}
	}
	return f
}
