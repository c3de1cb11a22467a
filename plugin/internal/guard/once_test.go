package guard

import (
	"strconv"
	"testing"

	"github.com/callonce/callonce/plugin/internal/policy"
)

// A thing is said once of each of what it is about, and of no more than a topic may have:
// what a route's metadata holds is not ours to bound.
func TestOnce(t *testing.T) {
	var o once
	a, b := &policy.Source{Text: "header:a"}, &policy.Source{Text: "header:a"}
	for i, c := range []struct {
		r    remark
		want bool
	}{
		{remark{topic: aboutIdentity, name: "p"}, true},
		{remark{topic: aboutIdentity, name: "p"}, false},
		{remark{topic: aboutIdentity, name: "q"}, true},
		{remark{topic: aboutDefect, name: "p"}, true},
		{remark{topic: aboutValue, source: a}, true},
		{remark{topic: aboutValue, source: b}, true},
		{remark{topic: aboutValue, source: a}, false},
		{remark{topic: aboutMemory}, true},
		{remark{topic: aboutMemory}, false},
		{remark{topic: aboutTwoFilters}, true},
	} {
		if got := o.first(c.r); got != c.want {
			t.Errorf("%d: said %v, want %v", i, got, c.want)
		}
	}
	for topic := range topics {
		var o once
		said := 0
		for i := range 5000 {
			if o.first(remark{topic: topic, name: strconv.Itoa(i)}) {
				said++
			}
		}
		if said != mostRemarks[topic] || len(o.said) != said {
			t.Errorf("topic %d: said %d things and remembers %d, want %d", topic, said, len(o.said), mostRemarks[topic])
		}
	}
}
