package main

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
	method, path, tool string // "" = any; path and tool may hold *
	every              int    // strikes each n-th request that matches; else
	probability        float64
	action             string
	delay              time.Duration

	mu   sync.Mutex
	seen int
}

var faultActions = []string{"delay", "reset_before", "reset_after_body", "cut_reply", "drop_client", "crash_worker"}

const faultHelp = `A faults file is a JSON list of rules; of those that match a request the first that strikes acts:
  [{"match": {"method": "POST", "path": "/mcp", "tool": "charge*"}, "every": 3, "action": "reset_after_body"}]
match        any of method, path, tool (the name in a tools/call); * in path and tool stands for any run of characters but /; none = every request
every        strikes each n-th request that matches and reaches the server; or
probability  strikes with this chance, above 0 and up to 1; neither = always
action       delay             the server takes "delay" longer
             reset_before      the connection breaks before the server gets the request
             reset_after_body  the server does its work, then the connection breaks before any answer
             cut_reply         the connection breaks in the middle of the answer
             drop_client       the client's connection breaks while the server works
             crash_worker      the worker's VM dies while the server works
delay        a duration such as "2s", for the action delay`

// readFaults reads a faults file and tells all mistakes, each with its place.
func readFaults(b []byte) ([]*faultRule, error) {
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
		r, errs := readRule(fmt.Sprint("/", i), raw)
		rules, all = append(rules, r), append(all, errs...)
	}
	return rules, errors.Join(all...)
}

func readRule(at string, raw json.RawMessage) (*faultRule, []error) {
	r := &faultRule{}
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
	take(match, "/match", "tool", &r.tool, "a string")
	_, counted := members["every"]
	_, chance := members["probability"]
	take(members, "", "every", &r.every, "a whole number")
	take(members, "", "probability", &r.probability, "a number")
	take(members, "", "action", &r.action, "a string")
	take(members, "", "delay", &delay, "a string")
	for _, name := range sortedKeys(match) {
		wrong("/match/"+name, "unknown; there are method, path, tool")
	}
	for _, name := range sortedKeys(members) {
		wrong("/"+name, "unknown; there are match, every, probability, action, delay")
	}
	for name, pattern := range map[string]string{"path": r.path, "tool": r.tool} {
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

// strikes counts a request and says whether the rule strikes it.
func (r *faultRule) strikes(method, where, tool string) bool {
	if r.method != "" && !strings.EqualFold(r.method, method) || !glob(r.path, where) || !glob(r.tool, tool) {
		return false
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

// toolOf is the name in a tools/call, "" in anything else.
func toolOf(body []byte) string {
	var m struct {
		Method string
		Params struct{ Name string }
	}
	if json.Unmarshal(body, &m) != nil || m.Method != "tools/call" {
		return ""
	}
	return m.Params.Name
}
