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
		name, value, named := strings.Cut(c, "=")
		if named && isPlainValue(value) && !wasQuoted && !quoted && s.policy.Steers(strings.TrimRight(name, " \t")) {
			continue
		}
		cookies = append(cookies, c)
	}
	return cookies
}

// isPlainValue reports a value that is one to every reader: a cookie-value of RFC 6265, section
// 4.1.1. Some readers part cookies at a comma or a space too, and what follows one may be
// another cookie, which names a caller.
func isPlainValue(value string) bool {
	value = strings.TrimLeft(value, " \t")
	if len(value) > 1 && value[0] == '"' && value[len(value)-1] == '"' {
		value = value[1 : len(value)-1]
	}
	for i := 0; i < len(value); i++ {
		switch c := value[i]; {
		case c <= ' ', c >= 0x7F, c == '"', c == ',', c == ';', c == '\\':
			return false
		}
	}
	return true
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
