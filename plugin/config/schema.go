package config

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/callonce/callonce/plugin/internal/policy"
)

// Schema is the JSON Schema (2020-12) of configurations, for editors and for checks that
// have no callonce at hand. It is asked of the parser: a value that fits nowhere is put
// in each place, and what the parser says it expected there becomes the place's schema.
// So no member is listed twice in the project.
//
// Schema says less than Check: bounds of durations, and what hangs together of two
// members (a route and its policy, limits that nest), no JSON Schema can say. Whatever
// Check accepts the schema accepts too.
func Schema() []byte {
	s := schemaAt(func(v string) string { return v }, "")
	s["$schema"] = "https://json-schema.org/draft/2020-12/schema"
	s["title"] = "The configuration of callonce"
	text, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		panic(err) // maps of texts and numbers
	}
	return append(text, '\n')
}

// nowhere is a value that no place takes whole.
const nowhere = `{"?":1}`

// schemaAt describes the place that in makes a configuration around, and whose JSON
// Pointer is at.
func schemaAt(in func(value string) string, at string) map[string]any {
	own, below := probe(in(nowhere), at, at+"/?")
	switch {
	case below != nil && below.Found == "an unknown member":
		return object(in, at, below.Expected)
	case kindsOf(in, at) != nil:
		return variants(in, at, kindsOf(in, at))
	case own == nil:
		return table(in, at)
	case own.Expected == "a list":
		return list(in, at)
	}
	s := leaf(own.Expected)
	// Some places take one value or a list of such.
	if whole, element := probe(in("["+nowhere+"]"), at, at+"/0"); whole == nil && element != nil {
		return map[string]any{"anyOf": []any{s, map[string]any{"type": "array", "items": leaf(element.Expected), "minItems": 1}}}
	}
	return s
}

// kindsOf are the values of a member kind that says which other members there are; nil
// where there is no such member.
func kindsOf(in func(string) string, at string) []string {
	kind, _ := probe(in(nowhere), at+"/kind", "-")
	if kind == nil || kind.Found != "nothing" {
		return nil
	}
	return strings.Split(kind.Expected, ", ")
}

// variants is an object whose members hang on its kind.
func variants(in func(string) string, at string, kinds []string) map[string]any {
	var all []any
	for _, kind := range kinds {
		of := func(value string) string {
			rest := strings.TrimPrefix(value, "{")
			if rest != "}" {
				rest = "," + rest
			}
			return in(`{"kind":` + kind + rest)
		}
		_, below := probe(of(nowhere), at, at+"/?")
		members := strings.Split(strings.TrimPrefix(below.Expected, "one of "), ", ")
		members = slices.DeleteFunc(members, func(m string) bool { return m == "kind" })
		s := map[string]any{"type": "object", "properties": map[string]any{}, "additionalProperties": false}
		if len(members) > 0 {
			s = object(of, at, strings.Join(members, ", "))
		}
		s["properties"].(map[string]any)["kind"] = map[string]any{"const": strings.Trim(kind, `"`)}
		required, _ := s["required"].([]any)
		s["required"] = append([]any{"kind"}, required...)
		all = append(all, s)
	}
	return map[string]any{"anyOf": all}
}

// object has the members that the parser lists, and no others.
func object(in func(string) string, at, members string) map[string]any {
	properties, required := map[string]any{}, []any{}
	_, nothing := probe(in(`{}`), "-", at+"/")
	for _, name := range strings.Split(strings.TrimPrefix(members, "one of "), ", ") {
		member := func(value string) string { return in(`{"` + name + `":` + value + `}`) }
		properties[name] = schemaAt(member, at+"/"+name)
		if missing, _ := probe(in(`{}`), at+"/"+name, "-"); missing != nil && missing.Found == "nothing" && !strings.Contains(missing.Expected, "beside it") {
			required = append(required, name)
		}
	}
	s := map[string]any{"type": "object", "properties": properties, "additionalProperties": false}
	if len(required) > 0 {
		s["required"] = required
	}
	// One member in the other's stead: `"anonymous": true beside it`.
	if nothing != nil && strings.HasSuffix(nothing.Expected, ": true beside it") {
		name := nothing.Pointer[strings.LastIndexByte(nothing.Pointer, '/')+1:]
		parts := strings.Split(nothing.Expected, `"`)
		other := parts[len(parts)-2]
		s["anyOf"] = []any{
			map[string]any{"required": []any{name}, "properties": map[string]any{name: map[string]any{"minItems": 1}}},
			map[string]any{"required": []any{other}, "properties": map[string]any{other: map[string]any{"const": true}}},
		}
	}
	return s
}

// table is an object whose members' names are the user's.
func table(in func(string) string, at string) map[string]any {
	s := map[string]any{"type": "object", "additionalProperties": schemaAt(func(value string) string { return in(`{"a":` + value + `}`) }, at+"/a")}
	if at != "" {
		if name, _ := probe(in(`{"":`+nowhere+`}`), at+"/", "-"); name != nil {
			s["propertyNames"] = leaf(name.Expected)
		}
		// A pointer's name is a mistake where it is none.
		if name, _ := probe(in(`{"?":1}`), at+"/?", "-"); name != nil && name.Found == "a member of that name" {
			s["propertyNames"] = leaf(name.Expected)
			s["additionalProperties"] = schemaAt(func(value string) string { return in(`{"/a":` + value + `}`) }, at+"/~1a")
		}
	}
	return s
}

func list(in func(string) string, at string) map[string]any {
	s := map[string]any{"type": "array", "items": schemaAt(func(value string) string { return in("[" + value + "]") }, at+"/0")}
	if empty, _ := probe(in("[]"), at, "-"); empty != nil && !strings.Contains(empty.Expected, "beside it") {
		s["minItems"] = 1
	}
	return s
}

// probe gives the first mistake at one pointer, and the first at, or if it ends in a slash
// directly below, another.
func probe(text, at, other string) (first, second *policy.Mistake) {
	_, mistakes := policy.Parse([]byte(text))
	for i := range mistakes {
		m := &mistakes[i]
		if first == nil && m.Pointer == at {
			first = m
		}
		below := strings.HasSuffix(other, "/") && strings.HasPrefix(m.Pointer, other) && !strings.Contains(m.Pointer[len(other):], "/")
		if second == nil && (m.Pointer == other || below) {
			second = m
		}
	}
	return first, second
}
