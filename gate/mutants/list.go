package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// A list is blocks with blank lines between them:
//
//	# name of the fault
//	file: cache.go
//	- the old text, a line
//	+ the new text, a line; none deletes the old
//	test: regular expression of the tests of which at least one must fail
//	in: ../../../hostsim/schedule
//
// Old and new text may have several lines, and a block several pieces: a line of old text behind new text begins another. Text counts
// from behind "- " with its tabs and may be part of a line; the old text must be in the file exactly once. The file is relative to the
// package; so is "in", the package whose tests must find the fault where it is not the list's own. Lines that begin with "//" are
// comments.

// mutant is one fault.
type mutant struct {
	list   string // the file that names it
	line   int    // of its name
	folder string // of the package
	name   string
	file   string // with the folder
	edits  []edit
	test   *regexp.Regexp
	in     string // the package whose tests must find it, with the folder
}

// edit is one piece of text in place of another: lines, with line ends between them.
type edit struct{ old, new []string }

// last is the piece that is being read.
func (m *mutant) last() *edit { return &m.edits[len(m.edits)-1] }

func (m *mutant) errorf(format string, args ...any) error {
	return fmt.Errorf("%s:%d: %s: %s", filepath.ToSlash(m.list), m.line, m.name, fmt.Sprintf(format, args...))
}

// read reads a list. What is wrong with it does not keep the rest from being read.
func read(list, text string) (all []mutant, errs []error) {
	folder := filepath.Dir(filepath.Dir(list))
	var m *mutant
	isNew := false // the last line of text was new text
	end := func() {
		if m == nil {
			return
		}
		switch {
		case m.name == "" || m.file == "" || m.test == nil || len(m.edits) == 0:
			errs = append(errs, m.errorf("want a name, a file, text and a test"))
		default:
			all = append(all, *m)
		}
		m = nil
	}
	for i, line := range strings.Split(text, "\n") {
		if strings.HasPrefix(line, "//") {
			continue
		}
		if strings.TrimSpace(line) == "" {
			end()
			continue
		}
		if m == nil {
			m = &mutant{list: list, line: i + 1, folder: folder, in: folder}
			isNew = false
		}
		what, rest, _ := strings.Cut(line, " ")
		switch what {
		case "#":
			if m.name != "" {
				errs = append(errs, m.errorf("line %d: a second name; want a blank line between faults", i+1))
			}
			m.name = strings.TrimSpace(rest)
		case "file:":
			m.file = filepath.Join(folder, filepath.FromSlash(strings.TrimSpace(rest)))
		case "in:":
			m.in = filepath.Join(folder, filepath.FromSlash(strings.TrimSpace(rest)))
		case "test:":
			test, err := regexp.Compile(strings.TrimSpace(rest))
			if err != nil {
				errs = append(errs, m.errorf("line %d: %v", i+1, err))
				continue
			}
			m.test = test
		case "-":
			if len(m.edits) == 0 || isNew {
				m.edits = append(m.edits, edit{})
			}
			isNew = false
			m.last().old = append(m.last().old, rest)
		case "+":
			if len(m.edits) == 0 {
				errs = append(errs, m.errorf("line %d: new text before any old", i+1))
				continue
			}
			isNew = true
			m.last().new = append(m.last().new, rest)
		default:
			errs = append(errs, m.errorf("line %d: %q is nothing that a list has", i+1, what))
		}
	}
	end()
	return all, errs
}

// duplicates says which names stand for more than one fault of a list.
func duplicates(all []mutant) (errs []error) {
	seen := map[string]bool{}
	for _, m := range all {
		if seen[m.name] {
			errs = append(errs, m.errorf("another fault has this name"))
		}
		seen[m.name] = true
	}
	return errs
}

// text gives the file with the fault in it.
func (m *mutant) text() (string, error) {
	b, err := os.ReadFile(m.file)
	if err != nil {
		return "", m.errorf("%v", err)
	}
	text := string(b)
	for _, e := range m.edits {
		old := strings.Join(e.old, "\n")
		if n := strings.Count(text, old); n != 1 {
			return "", m.errorf("its old text stands %d times in %s, want once:\n%s", n, filepath.ToSlash(m.file), old)
		}
		text = strings.Replace(text, old, strings.Join(e.new, "\n"), 1)
	}
	if text == string(b) {
		return "", m.errorf("it changes nothing")
	}
	return text, nil
}

var testNames = regexp.MustCompile(`(?m)^func ((?:Test|Fuzz|Example)\w*)\(`)

// applies says what keeps a fault from being planted, or its tests from being run.
func (m *mutant) applies() error {
	if _, err := m.text(); err != nil {
		return err
	}
	files, err := filepath.Glob(filepath.Join(m.in, "*_test.go"))
	if err != nil {
		return err
	}
	whole := m.whole()
	for _, file := range files {
		b, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		for _, name := range testNames.FindAllSubmatch(b, -1) {
			if whole.Match(name[1]) {
				return nil
			}
		}
	}
	return m.errorf("no test in %s is named like %s", filepath.ToSlash(m.in), m.test)
}

// whole is the expression of the tests' whole names. One for a subtest stands for the test.
func (m *mutant) whole() *regexp.Regexp {
	top, _, _ := strings.Cut(m.test.String(), "/")
	return regexp.MustCompile("^(?:" + top + ")$")
}
