package serve

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"path"
	"slices"
	"strings"
	"sync"
	"time"
)

// faultRule is one rule of a --faults file. What matches is a request on its way to the server, after the filter: what the filter
// answers by itself, such as a replay, reaches no server and meets no fault.
type faultRule struct {
	method, path string            // "" = any; path may hold *
	read         map[string]string // by a Matcher's name: what it must have read, in which * may stand
	every        int               // strikes each n-th request that matches; else
	probability  float64
	action       string
	delay        time.Duration

	mu   sync.Mutex
	seen int
}

var faultActions = []string{"delay", "reset_before", "reset_after_body", "cut_reply", "drop_client", "crash_worker"}

// faultHelp explains a faults file.
func (c *Command) faultHelp() string {
	example, about := "", ""
	for _, m := range c.Matchers {
		example += fmt.Sprintf(`, "%s": "charge*"`, m.Name)
		about += fmt.Sprintf("%s (%s), ", m.Name, m.About)
	}
	return `A faults file is a JSON list of rules; of those that match a request the first that strikes acts:
  [{"match": {"method": "POST", "path": "/api"` + example + `}, "every": 3, "action": "reset_after_body"}]
match        any of method, ` + about + `path; * stands for any run of characters but /, in all but method; none = every request
every        strikes each n-th request that matches and reaches the server; or
probability  strikes with this chance, above 0 and up to 1; neither = always
action       delay             the server takes "delay" longer
             reset_before      the connection breaks before the server gets the request
             reset_after_body  the server does its work, then the connection breaks before any answer
             cut_reply         the connection breaks in the middle of the answer
             drop_client       the client's connection breaks while the server works
             crash_worker      the worker's VM dies while the server works
delay        a duration such as "2s", for the action delay`
}

// readFaults reads a faults file and tells all mistakes, each with its place.
func readFaults(b []byte, matchers []Matcher) ([]*faultRule, error) {
	var list []json.RawMessage
	if err := json.Unmarshal(b, &list); err != nil {
		if s, ok := errors.AsType[*json.SyntaxError](err); ok {
			return nil, fmt.Errorf("want a JSON list of rules; at byte %d: %v", s.Offset, err)
		}
		return nil, errors.New("want a JSON list of rules, [{…}, …]")
	}
	var rules []*faultRule
	var all []error
	for i, raw := range list {
		r, errs := readRule(fmt.Sprint("/", i), raw, matchers)
		rules, all = append(rules, r), append(all, errs...)
	}
	return rules, errors.Join(all...)
}

func readRule(at string, raw json.RawMessage, matchers []Matcher) (*faultRule, []error) {
	r := &faultRule{read: map[string]string{}}
	var errs []error
	wrong := func(member, format string, args ...any) {
		errs = append(errs, fmt.Errorf("%s%s: %s", at, member, fmt.Sprintf(format, args...)))
	}
	var members map[string]json.RawMessage
	if json.Unmarshal(raw, &members) != nil || members == nil {
		wrong("", "want an object, found %s", raw)
		return r, errs
	}
	delay := ""
	take := func(where map[string]json.RawMessage, member, name string, into any, want string) {
		if v, ok := where[name]; ok && (json.Unmarshal(v, into) != nil || bytes.Equal(v, []byte("null"))) {
			wrong(member+"/"+name, "want %s, found %s", want, v)
		}
		delete(where, name)
	}
	var match map[string]json.RawMessage
	take(members, "", "match", &match, "an object")
	take(match, "/match", "method", &r.method, "a string")
	take(match, "/match", "path", &r.path, "a string")
	there := "method, path"
	patterns := map[string]string{"path": r.path}
	for _, m := range matchers {
		there += ", " + m.Name
		var pattern string
		if take(match, "/match", m.Name, &pattern, "a string"); pattern != "" {
			r.read[m.Name], patterns[m.Name] = pattern, pattern
		}
	}
	_, counted := members["every"]
	_, chance := members["probability"]
	take(members, "", "every", &r.every, "a whole number")
	take(members, "", "probability", &r.probability, "a number")
	take(members, "", "action", &r.action, "a string")
	take(members, "", "delay", &delay, "a string")
	for _, name := range sortedKeys(match) {
		wrong("/match/"+name, "unknown; there are %s", there)
	}
	for _, name := range sortedKeys(members) {
		wrong("/"+name, "unknown; there are match, every, probability, action, delay")
	}
	for name, pattern := range patterns {
		if _, err := path.Match(pattern, ""); err != nil {
			wrong("/match/"+name, "want a name in which * stands for any run of characters, found %q", pattern)
		}
	}
	if len(errs) > 0 {
		return r, errs
	}
	switch {
	case counted && chance:
		wrong("", "want every or probability, found both")
	case counted && r.every < 1:
		wrong("/every", "want 1 or more, found %d", r.every)
	case chance && (r.probability <= 0 || r.probability > 1):
		wrong("/probability", "want above 0 and up to 1, found %v", r.probability)
	}
	if !slices.Contains(faultActions, r.action) {
		wrong("/action", "want one of %s, found %q", strings.Join(faultActions, ", "), r.action)
	} else if r.action == "delay" {
		var err error
		if r.delay, err = time.ParseDuration(delay); err != nil || r.delay <= 0 {
			wrong("/delay", "want a duration above 0 such as \"2s\", found %q", delay)
		}
	} else if delay != "" {
		wrong("/delay", "has a meaning only for the action delay, found it with %s", r.action)
	}
	return r, errs
}

func sortedKeys(m map[string]json.RawMessage) []string {
	var names []string
	for n := range m {
		names = append(names, n)
	}
	slices.Sort(names)
	return names
}

// strikes counts a request and says whether the rule strikes it. read is what each Matcher read of it, by its name.
func (r *faultRule) strikes(method, where string, read map[string]string) bool {
	if r.method != "" && !strings.EqualFold(r.method, method) || !glob(r.path, where) {
		return false
	}
	for name, pattern := range r.read {
		if !glob(pattern, read[name]) {
			return false
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.seen++
	switch {
	case r.every > 0:
		return r.seen%r.every == 0
	case r.probability > 0:
		return rand.Float64() < r.probability
	}
	return true
}

func glob(pattern, s string) bool {
	if pattern == "" {
		return true
	}
	ok, _ := path.Match(pattern, s)
	return ok
}
