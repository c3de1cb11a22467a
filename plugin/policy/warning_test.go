package policy_test

import (
	"strings"
	"testing"

	"github.com/callonce/callonce/plugin/policy"
)

func TestWarnings(t *testing.T) {
	p := func(tools string) string {
		return `"policies":{"p":{"anonymous":true,"tools":[` + tools + `]}}`
	}
	for config, want := range map[string]string{
		"":                                     "nothing is guarded",
		`{` + p("") + `}`:                      "nothing is guarded",
		`{` + p("") + `,"routes":{"a":"off"}}`: "nothing is guarded",
		`{` + p("") + `,"routes":{"a":"p"}}`:   "",
		`{` + p("") + `,"routes":{"a*":"p"}}`:  "",
		`{` + p("") + `,"default":"p"}`:        "",
		`{` + p(`{"match":"*"},{"match":"charge","guard":"required"}`) + `,"default":"p"}`:     "/policies/p/tools/1 is never used",
		`{` + p(`{"match":"get_*"},{"match":"get_it","guard":"required"}`) + `,"default":"p"}`: "/policies/p/tools/1 is never used",
		`{` + p(`{"match":"get_it","guard":"required"},{"match":"get_*"}`) + `,"default":"p"}`: "",
		`{` + p(`{"match":"get_*"},{"match":"*_it"},{"match":"get_*"}`) + `,"default":"p"}`:    "/policies/p/tools/2 is never used",
	} {
		c, mistakes := policy.Parse([]byte(config))
		if len(mistakes) > 0 {
			t.Fatal(mistakes)
		}
		got := strings.Join(c.Warnings(), "\n")
		if want == "" && got != "" || !strings.Contains(got, want) {
			t.Errorf("%s: expected %q, found %q", config, want, got)
		}
	}
}
