package guard

import (
	"slices"
	"strings"
)

// appendCookies appends the cookies of a line to those that name a caller, each as
// "name=value" was sent: not those that only steer.
//
// What stands in quotes is kept whole with its neighbours: some servers read a
// semicolon in quotes as part of the value, so that what looks like a cookie that steers
// may be the rest of one that does not.
func (s *Stream) appendCookies(cookies []string, line string) []string {
	quoted := false
	for more := true; more; {
		var c string
		c, line, more = strings.Cut(line, ";")
		wasQuoted := quoted
		if strings.Count(c, `"`)%2 == 1 {
			quoted = !quoted
		}
		if c = strings.Trim(c, " \t"); c == "" {
			continue
		}
		name, _, named := strings.Cut(c, "=")
		if named && !wasQuoted && !quoted && s.policy.Steers(strings.TrimRight(name, " \t")) {
			continue
		}
		cookies = append(cookies, c)
	}
	return cookies
}

// cookies gives the cookies that name a caller, in an order that does not hang on that
// of lines and of cookies in them. It is scratch.
func (s *Stream) cookies() []string {
	all := s.g.cookies[:0]
	for _, l := range s.head.lines {
		if l[0] == "cookie" {
			all = s.appendCookies(all, l[1])
		}
	}
	slices.Sort(all)
	s.g.cookies = all
	return all
}
