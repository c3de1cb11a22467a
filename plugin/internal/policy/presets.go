package policy

import "time"

// DefaultMaxRequestBytes is the longest body that is read, in bytes: below Envoy's own
// limit of 1 MiB, so that the refusal is ours and not a plain 413.
const DefaultMaxRequestBytes = 983040

var (
	allKeys = []string{
		"header:Idempotency-Key",
		"header:X-Idempotency-Key",
		"json:/params/idempotencyKey",
		"json:/params/_meta/callonce.dev~1idempotency-key",
		"json:/params/arguments/idempotency_key",
		"json:/params/arguments/idempotencyKey",
	}
	large = Limits{
		Entries: 16384, EntriesPerPrincipal: 8192, EntriesPerScope: 8192,
		InFlight: 512, InFlightPerPrincipal: 128, InFlightPerScope: 128,
		TombstonesPerScope: 256, ReplyBytes: 32 << 10, StoredBytes: 64 << 20,
		Waiting: 512, WaitingPerScope: 128, Detached: 256, DetachedPerScope: 64,
	}
)

var presetNames = []string{"gateway", "sep3182", "derived", "forward"}

// defaults gives what a policy of a preset starts from (contract, section 5).
// Anything can be overridden.
func defaults(preset Preset) Policy {
	p := Policy{
		Preset: preset, TTL: 5 * time.Minute, MaxRequestBytes: DefaultMaxRequestBytes, Limits: large,
		// A status but 200 ends the connection of some clients, and reaches others as a text.
		Reply:    ReplyJSONRPC,
		Log:      usualFields,
		Unlisted: Tool{Match: "*", Guard: GuardOptional, Window: 10 * time.Minute},
	}
	keys := allKeys
	switch preset {
	case Gateway:
		keys = []string{"header:Idempotency-Key"}
		p.BindRequestID, p.Session, p.RefuseStray = true, true, true
		p.Reply = ReplyHTTP
		p.Limits = Limits{
			Entries: 256, EntriesPerPrincipal: 64, EntriesPerScope: 32,
			InFlight: 32, InFlightPerPrincipal: 8, InFlightPerScope: 4,
			TombstonesPerScope: 8, ReplyBytes: 32 << 10, StoredBytes: 8 << 20, Evict: true,
			Waiting: 32, WaitingPerScope: 8, Detached: 32, DetachedPerScope: 4,
		}
	case SEP3182:
		// All that some clients can send is an argument. A server that does not know it must
		// not get it, so it is cut out.
		keys = []string{"json:/params/idempotencyKey", "json:/params/arguments/idempotencyKey"}
		p.Strip, p.Advertise = true, true
	case Derived:
		keys = []string{"json:/params/arguments/idempotency_key"}
		p.Unlisted.Guard, p.Unlisted.ReleaseToolError, p.Unlisted.ReleaseError = GuardDerived, true, true
		p.KeyPerTool, p.Strip, p.Advertise, p.CountRepeats = true, true, true, true
		p.Reply, p.MarkMeta = ReplyToolResult, true
		p.Limits.ReplyBytes = 64 << 10
	case Forward:
		keys = []string{"json:/params/arguments/idempotency_key"}
		p.Unlisted.RetryUnknown = true
		p.Strip, p.ForwardKey, p.Advertise = true, "x-idempotency-key", true
		p.Reply = ReplyToolResult
	}
	for _, k := range keys {
		keySource, _ := parseKeySource(k)
		p.Keys = append(p.Keys, keySource)
	}
	return p
}
