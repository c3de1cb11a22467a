package policy

import "github.com/callonce/callonce/canonical"

// limitsGiven are the names of the limits that the configuration sets itself.
type limitsGiven map[string]bool

const maxEntries = 65536

// nestedLimit is one limit and the name of the level over it.
type nestedLimit struct {
	name, over string
	value      func(*Limits) *int
}

// nestedLimits is every limit that nests, a level before those under it.
var nestedLimits = []nestedLimit{
	{"entries", "", func(l *Limits) *int { return &l.Entries }},
	{"entries_per_principal", "entries", func(l *Limits) *int { return &l.EntriesPerPrincipal }},
	{"entries_per_scope", "entries_per_principal", func(l *Limits) *int { return &l.EntriesPerScope }},
	{"in_flight", "entries", func(l *Limits) *int { return &l.InFlight }},
	{"in_flight_per_principal", "in_flight", func(l *Limits) *int { return &l.InFlightPerPrincipal }},
	{"in_flight_per_scope", "in_flight_per_principal", func(l *Limits) *int { return &l.InFlightPerScope }},
	{"tombstones_per_scope", "entries_per_scope", func(l *Limits) *int { return &l.TombstonesPerScope }},
	{"waiting", "", func(l *Limits) *int { return &l.Waiting }},
	{"waiting_per_scope", "waiting", func(l *Limits) *int { return &l.WaitingPerScope }},
	{"detached", "", func(l *Limits) *int { return &l.Detached }},
	{"detached_per_scope", "detached", func(l *Limits) *int { return &l.DetachedPerScope }},
	{"stored_bytes", "", func(l *Limits) *int { return &l.StoredBytes }},
	{"reply_bytes", "stored_bytes", func(l *Limits) *int { return &l.ReplyBytes }},
}

func (r *reader) limits(n canonical.Node, at string, l *Limits) limitsGiven {
	given := limitsGiven{}
	table := make([]member, 0, len(nestedLimits)+1)
	for _, step := range nestedLimits {
		most := maxEntries
		if step.name == "stored_bytes" || step.name == "reply_bytes" {
			most = 1 << 30
		}
		table = append(table, member{step.name, func(n canonical.Node, at string) {
			given[step.name] = r.integer(n, at, 1, most, step.value(l))
		}})
	}
	table = append(table, member{"on_full", func(n canonical.Node, at string) {
		i, _ := r.choice(n, at, "refuse", "evict")
		l.Evict = i == 1
	}})
	r.members(n, at, table)
	return given
}

// checkLimits lowers a default to the level over it, and tells of a limit that was
// set above it.
func (r *reader) checkLimits(at string, l *Limits, given limitsGiven) {
	values := map[string]int{}
	for _, step := range nestedLimits {
		v := step.value(l)
		if over, nested := values[step.over]; nested && *v > over {
			if given[step.name] {
				r.mistake(child(at, step.name), itoa(*v), "at most "+itoa(over)+", as "+step.over+" is")
			}
			*v = over
		}
		values[step.name] = *v
	}
}
