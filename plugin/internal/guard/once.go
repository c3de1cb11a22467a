package guard

import "github.com/callonce/callonce/plugin/internal/policy"

// topic is a kind of thing that the log says once of each of what it is about.
type topic uint8

const (
	aboutRoute      topic = iota // its metadata names no policy
	aboutIdentity                // a policy under which a call had none
	aboutValue                   // a source whose value stands for nobody
	aboutDefect                  // a policy under which an ambiguous body passed
	aboutMemory                  // none is left for another request to wait
	aboutTwoFilters              // an instance ahead claims the calls
	aboutDetach                  // a call that its caller takes along, or a cluster that cannot be called
	aboutHints                   // a policy under which some were heard
	topics
)

// mostRemarks bounds how often each topic is spoken of. What it is about comes from our own
// configuration, which bounds it too, but for the metadata of routes.
var mostRemarks = [topics]int{aboutRoute: 16, aboutIdentity: 4096, aboutValue: 4096, aboutDefect: 4096, aboutMemory: 1, aboutTwoFilters: 1, aboutDetach: 16, aboutHints: 4096}

// remark is one thing to say: the topic, and what it is about.
type remark struct {
	topic  topic
	name   string         // of a policy, or as a route's metadata has it
	source *policy.Source // nil = none
}

// once remembers what was said, so that a request that others will repeat does not fill
// the log. The zero value is ready.
type once struct {
	said  map[remark]struct{}
	count [topics]int
}

// first reports whether a remark is to be made: it was not made before, and its topic has
// not had as many as it may have.
func (o *once) first(r remark) bool {
	if o.count[r.topic] >= mostRemarks[r.topic] {
		return false
	}
	if _, was := o.said[r]; was {
		return false
	}
	if o.said == nil {
		o.said = map[remark]struct{}{}
	}
	o.said[r] = struct{}{}
	o.count[r.topic]++
	return true
}
