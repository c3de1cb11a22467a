package policy

import (
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/callonce/callonce/canonical"
)

// reader walks the configuration's text and gathers mistakes instead of stopping
// at the first.
type reader struct {
	doc      canonical.Doc
	mistakes Mistakes
	warnings []string
}

// member is one line of a table of members: its name and what reads it.
type member struct {
	name string
	read func(n canonical.Node, at string)
}

func (r *reader) mistake(at, found, expected string) {
	r.mistakes = append(r.mistakes, Mistake{at, found, expected})
}

func (r *reader) wrong(n canonical.Node, at, expected string) {
	r.mistake(at, r.found(n), expected)
}

// told reports whether the value at a pointer was found to be wrong: what follows from
// it is then no mistake of its own.
func (r *reader) told(at string) bool {
	return slices.ContainsFunc(r.mistakes, func(m Mistake) bool { return m.Pointer == at })
}

// mostShown is how many bytes of a value a mistake shows.
const mostShown = 80

// found describes a value briefly. Strings are shown up to a bound: a
// configuration has no secrets, but it may have a slip of the keyboard.
func (r *reader) found(n canonical.Node) string {
	switch r.doc.Kind(n) {
	case canonical.Object:
		return "an object"
	case canonical.Array:
		return "a list"
	case canonical.String, canonical.Number:
		return shown(r.doc.Raw(n))
	default:
		return string(r.doc.Raw(n))
	}
}

// shown is as much of a text as a mistake shows.
func shown(text []byte) string {
	if len(text) <= mostShown {
		return string(text)
	}
	end := mostShown
	for !utf8.RuneStart(text[end]) {
		end--
	}
	return string(text[:end]) + "…"
}

// child appends one reference token to a pointer.
func child(at, name string) string {
	name = strings.ReplaceAll(name, "~", "~0")
	return at + "/" + strings.ReplaceAll(name, "/", "~1")
}

func (r *reader) isObject(n canonical.Node, at string) bool {
	if r.doc.Kind(n) != canonical.Object {
		r.wrong(n, at, "an object")
		return false
	}
	return true
}

// members reads an object by a table.
func (r *reader) members(n canonical.Node, at string, table []member) {
	if !r.isObject(n, at) {
		return
	}
	for m := r.doc.First(n); m != canonical.NoNode; m = r.doc.Next(m) {
		name := string(r.doc.Name(m))
		where := child(at, name)
		i := slices.IndexFunc(table, func(t member) bool { return t.name == name })
		if i < 0 {
			r.mistake(where, "an unknown member", "one of "+names(table))
			continue
		}
		table[i].read(m, where)
	}
}

func names(table []member) string {
	out := make([]string, len(table))
	for i, t := range table {
		out[i] = t.name
	}
	return strings.Join(out, ", ")
}

// text reads a string of least to most characters.
func (r *reader) text(n canonical.Node, at, expected string, least, most int, into *string) bool {
	if r.doc.Kind(n) != canonical.String {
		r.wrong(n, at, expected)
		return false
	}
	s := r.doc.Text(n)
	if c := utf8.RuneCount(s); c < least || c > most || r.doc.Lone(n) >= 0 {
		r.wrong(n, at, expected)
		return false
	}
	*into = string(s)
	return true
}

func (r *reader) flag(n canonical.Node, at string, into *bool) {
	switch r.doc.Kind(n) {
	case canonical.True:
		*into = true
	case canonical.False:
		*into = false
	default:
		r.wrong(n, at, "true or false")
	}
}

// integer reads a whole number within [least, most]; 32768.0 is 32768, since a
// mesh may hand every number on as a double.
func (r *reader) integer(n canonical.Node, at string, least, most int, into *int) bool {
	expected := "an integer from " + strconv.Itoa(least) + " to " + strconv.Itoa(most)
	if r.doc.Kind(n) != canonical.Number {
		r.wrong(n, at, expected)
		return false
	}
	v, err := strconv.Atoi(string(canonical.AppendNumber(nil, r.doc.Raw(n))))
	if err != nil || v < least || v > most {
		r.wrong(n, at, expected)
		return false
	}
	*into = v
	return true
}

func (r *reader) duration(n canonical.Node, at string, least, most time.Duration, into *time.Duration) bool {
	expected := `a duration from "` + spelled(least) + `" to "` + spelled(most) + `", such as "5m"`
	if r.doc.Kind(n) != canonical.String {
		r.wrong(n, at, expected)
		return false
	}
	v, err := time.ParseDuration(string(r.doc.Text(n)))
	if err != nil || v < least || v > most {
		r.wrong(n, at, expected)
		return false
	}
	*into = v
	return true
}

// spelled writes a duration as people do in a configuration: "24h" and not "24h0m0s".
func spelled(d time.Duration) string {
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}

// choice reads one of a few words.
func (r *reader) choice(n canonical.Node, at string, words ...string) (int, bool) {
	if r.doc.Kind(n) == canonical.String {
		if i := slices.Index(words, string(r.doc.Text(n))); i >= 0 {
			return i, true
		}
	}
	r.wrong(n, at, `"`+strings.Join(words, `", "`)+`"`)
	return 0, false
}

// each calls read for every element of a list.
func (r *reader) each(n canonical.Node, at string, read func(n canonical.Node, at string)) {
	if r.doc.Kind(n) != canonical.Array {
		r.wrong(n, at, "a list")
		return
	}
	i := 0
	for e := r.doc.First(n); e != canonical.NoNode; e = r.doc.Next(e) {
		read(e, at+"/"+strconv.Itoa(i))
		i++
	}
}
