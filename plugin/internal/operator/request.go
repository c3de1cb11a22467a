package operator

import (
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/callonce/callonce/plugin/internal/ledger"
)

// Kind is what is asked for.
type Kind uint8

const (
	List    Kind = iota // keys, page by page
	Show                // one key
	Resolve             // one key, whose outcome an operator knows
	Own                 // one key, by a caller of its scope
)

// Request is what was asked.
type Request struct {
	Kind   Kind
	Query  ledger.Query
	Tool   string // of the query, as configured; "" = any
	Event  ledger.Event
	Reason string
	Path   string // of the call, for Own
}

// Problem says why a request is not answered.
type Problem struct {
	Status int
	Text   string
}

const (
	pageRows = 100 // on a page, unless the query says otherwise
	mostRows = 500
	// MostReason is the most characters of a reason.
	MostReason = 200
)

// States are the states of keys that exist, by their names here and in metrics.
var States = [ledger.NumStates]string{
	ledger.InFlight: "in_flight", ledger.Completed: "completed", ledger.Unknown: "outcome_unknown", ledger.NotReplayable: "not_replayable",
}

// Acts are what an operator may say of a key, in words.
var Acts = map[ledger.Event]string{
	ledger.ResolveCompleted: "completed_elsewhere", ledger.ResolveReleased: "released", ledger.ResolveRefused: "refused",
}

// Asked reports whether a request's path, with its query, is one of the interface at base.
func Asked(base, path string) bool {
	rest, ok := strings.CutPrefix(path, base)
	return ok && (rest == "" || rest[0] == '/' || rest[0] == '?')
}

// Read reads a request whose path is [Asked].
func Read(base, method, path string) (r Request, p *Problem) {
	path, query, _ := strings.Cut(path, "?")
	switch rest := strings.TrimPrefix(path, base); {
	case rest == "":
		r.Kind = List
		r.Query.Most = pageRows
	case strings.HasPrefix(rest, "/own/"):
		r.Kind = Own
		r.Query.Operation, p = readOperation(rest[len("/own/"):])
	default:
		r.Kind = Show
		r.Query.Operation, p = readOperation(rest[1:])
	}
	switch {
	case p != nil:
		return r, p
	case method == "POST" && r.Kind == Show:
		r.Kind = Resolve
	case method != "GET":
		return r, &Problem{405, "GET reads; only one key, by its operation, takes POST"}
	}
	seen := map[string]bool{}
	for query != "" {
		var pair string
		pair, query, _ = strings.Cut(query, "&")
		name, value, _ := strings.Cut(pair, "=")
		value, ok := unescape(value)
		if read, known := parameters[name]; !known || read.of&(1<<r.Kind) == 0 {
			return r, &Problem{400, "a parameter that is not known here; there are " + names(r.Kind)}
		} else if !ok || seen[name] || !read.into(&r, value) {
			return r, &Problem{400, name + " must be there once, and be " + read.expected}
		}
		seen[name] = true
	}
	if r.Kind == Resolve && (!seen["to"] || !seen["reason"]) {
		return r, &Problem{400, "to and reason must be given in the query: to is " + parameters["to"].expected}
	}
	if r.Kind == Own {
		r.Query.Only = r.Query.From != ""
	}
	return r, nil
}

type parameter struct {
	of       uint8 // the kinds that take it
	expected string
	into     func(r *Request, v string) bool
}

var parameters = map[string]parameter{
	"state": {1 << List, "states, with commas between: in_flight, completed, outcome_unknown, not_replayable", func(r *Request, v string) bool {
		for _, word := range strings.Split(v, ",") {
			found := false
			for st, name := range States {
				if name != "" && name == word {
					r.Query.States |= 1 << st
					found = true
				}
			}
			if !found {
				return false
			}
		}
		return true
	}},
	"tool": {1 << List, "the match of one of the policy's tools", func(r *Request, v string) bool { r.Tool = v; return v != "" }},
	"scope": {1 << List, "16 hex digits, as a key shows them", func(r *Request, v string) (ok bool) {
		r.Query.Scope, ok = hex64(v)
		return ok && r.Query.Scope != 0
	}},
	"min_age": {1 << List, `a duration such as "5m"`, func(r *Request, v string) bool {
		d, err := time.ParseDuration(v)
		r.Query.MinAge = ledger.Mono(d)
		return err == nil && d > 0
	}},
	"limit": {1 << List, "a number from 1 to 500", func(r *Request, v string) bool {
		n, err := strconv.Atoi(v)
		r.Query.Most = n
		return err == nil && n >= 1 && n <= mostRows
	}},
	"at": {1<<List | 1<<Show | 1<<Resolve | 1<<Own, "what an answer before says", func(r *Request, v string) bool {
		r.Query.From = v
		return v != "" && len(v) <= 64
	}},
	"to": {1 << Resolve, "completed_elsewhere, released or refused", func(r *Request, v string) bool {
		for ev, word := range Acts {
			if word == v {
				r.Event = ev
				return true
			}
		}
		return false
	}},
	"reason": {1 << Resolve, "1 to 200 characters", func(r *Request, v string) bool {
		r.Reason = v
		return v != "" && utf8.ValidString(v) && utf8.RuneCountInString(v) <= MostReason
	}},
	"path": {1 << Own, "the path of the call", func(r *Request, v string) bool { r.Path = v; return v != "" }},
}

// inOrder are the names of parameters as a message lists them.
var inOrder = []string{"state", "tool", "scope", "min_age", "limit", "at", "to", "reason", "path"}

func names(k Kind) string {
	var out []string
	for _, name := range inOrder {
		if parameters[name].of&(1<<k) != 0 {
			out = append(out, name)
		}
	}
	return strings.Join(out, ", ")
}

func readOperation(text string) (uint64, *Problem) {
	n, ok := hex64(text)
	if !ok || n == 0 { // which would leave the choice open
		return 0, &Problem{404, "there are the list, and one key by its operation, 16 hex digits in lower case"}
	}
	return n, nil
}

// hex64 reads 16 hex digits in lower case.
func hex64(s string) (n uint64, ok bool) {
	if len(s) != 16 || strings.ToLower(s) != s || s[0] == '+' {
		return 0, false
	}
	n, err := strconv.ParseUint(s, 16, 64)
	return n, err == nil && !strings.Contains(s, "_")
}

// unescape takes a value of a query out of its escapes. ok is false where one is broken.
func unescape(s string) (string, bool) {
	if !strings.ContainsAny(s, "%+") {
		return s, true
	}
	b := make([]byte, 0, len(s))
	for i := 0; i < len(s); i++ {
		switch {
		case s[i] == '+':
			b = append(b, ' ')
		case s[i] != '%':
			b = append(b, s[i])
		case i+2 >= len(s):
			return "", false
		default:
			c, err := strconv.ParseUint(s[i+1:i+3], 16, 8)
			if err != nil || s[i+1] == '+' {
				return "", false
			}
			b = append(b, byte(c))
			i += 2
		}
	}
	return string(b), true
}

// Escape makes a value of a query of a text.
func Escape(s string) string {
	b := make([]byte, 0, len(s))
	for i := 0; i < len(s); i++ {
		if c := s[i]; c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || strings.IndexByte("-._~/", c) >= 0 {
			b = append(b, c)
			continue
		}
		b = append(b, '%', digits[s[i]>>4], digits[s[i]&15])
	}
	return string(b)
}

const digits = "0123456789ABCDEF"
