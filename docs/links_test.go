package docs_test

import (
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"unicode"
)

var (
	fence   = regexp.MustCompile("(?ms)^```.*?^```$")
	code    = regexp.MustCompile("`[^`\n]*`")
	link    = regexp.MustCompile(`\]\(([^()\s]+)\)`)
	heading = regexp.MustCompile(`(?m)^#+ +(.*)$`)
)

// Relative links in documents lead to files that are there, and to headings that are in them.
func TestLinks(t *testing.T) {
	pages, links := documents(t), 0
	for file, text := range pages {
		for _, m := range link.FindAllStringSubmatch(code.ReplaceAllString(fence.ReplaceAllString(text, ""), "x"), -1) {
			if strings.Contains(m[1], "://") || strings.HasPrefix(m[1], "mailto:") {
				continue
			}
			links++
			to, anchor, anchored := strings.Cut(m[1], "#")
			target := file
			if to != "" {
				target = path.Join(path.Dir(file), to)
			}
			if _, err := os.Stat(filepath.Join(root, filepath.FromSlash(target))); err != nil {
				t.Errorf("%s links to %s: no such file", file, m[1])
				continue
			}
			if anchored && !anchors(pages[target])[anchor] {
				t.Errorf("%s links to %s: no such heading", file, m[1])
			}
		}
	}
	if links < 30 {
		t.Errorf("%d links found: does the pattern still fit?", links)
	}
}

// anchors are the names by which a forge knows the headings of a page.
func anchors(page string) map[string]bool {
	all := map[string]bool{}
	for _, m := range heading.FindAllStringSubmatch(fence.ReplaceAllString(page, ""), -1) {
		name := strings.Map(func(c rune) rune {
			switch {
			case unicode.IsLetter(c), unicode.IsDigit(c), c == '-', c == '_':
				return unicode.ToLower(c)
			case c == ' ':
				return '-'
			}
			return -1
		}, m[1])
		for n, is := 1, name; ; n++ {
			if !all[is] {
				all[is] = true
				break
			}
			is = name + "-" + strconv.Itoa(n)
		}
	}
	return all
}
