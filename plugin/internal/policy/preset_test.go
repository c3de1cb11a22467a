package policy_test

import (
	"reflect"
	"testing"
	"time"

	"github.com/callonce/callonce/plugin/internal/policy"
)

// The contract's table of presets (section 5), member by member.
func TestPresets(t *testing.T) {
	argument := []policy.KeySource{{Pointer: "/arguments/idempotency_key"}}
	base := func(preset policy.Preset) policy.Policy {
		return policy.Policy{
			Name: "p", Preset: preset, Anonymous: true,
			TTL: 5 * time.Minute, Lease: 15 * time.Second, MaxRequestBytes: 983040,
			Unlisted: policy.Tool{Match: "*", Guard: policy.GuardOptional, Window: 10 * time.Minute, TTL: 5 * time.Minute},
			Limits:   largeLimits, Log: usualFields,
		}
	}
	none := base(policy.NoPreset)
	none.Reply = policy.ReplyJSONRPC
	none.Keys, none.Pointers = defaultKeySources, []string{"/idempotencyKey", "/_meta/callonce.dev~1idempotency-key", "/arguments/idempotency_key", "/arguments/idempotencyKey"}

	gateway := base(policy.Gateway)
	gateway.Keys, gateway.HeaderKeysOnly = []policy.KeySource{{Header: "idempotency-key"}}, true
	gateway.BindRequestID, gateway.Session, gateway.RefuseStray = true, true, true
	gateway.Limits = policy.Limits{
		Entries: 256, EntriesPerPrincipal: 64, EntriesPerScope: 32, InFlight: 32, InFlightPerPrincipal: 8, InFlightPerScope: 4,
		Waiting: 32, WaitingPerScope: 8, Detached: 32, DetachedPerScope: 4, TombstonesPerScope: 8, ReplyBytes: 32 << 10, StoredBytes: 8 << 20, Evict: true,
	}

	sep3182 := base(policy.SEP3182)
	sep3182.Keys = []policy.KeySource{{Pointer: "/idempotencyKey"}, {Pointer: "/arguments/idempotencyKey"}}
	sep3182.Pointers = []string{"/idempotencyKey", "/arguments/idempotencyKey"}
	sep3182.Strip, sep3182.Reply, sep3182.Advertise = true, policy.ReplyJSONRPC, true
	sep3182.Dropped = []string{"idempotency-key", "x-idempotency-key"}

	derived := base(policy.Derived)
	derived.Keys, derived.KeyPerTool, derived.Strip, derived.Advertise = argument, true, true, true
	derived.Reply, derived.MarkMeta, derived.MustGuard, derived.CountRepeats = policy.ReplyToolResult, true, true, true
	derived.Unlisted.Guard, derived.Unlisted.ReleaseToolError, derived.Unlisted.ReleaseError = policy.GuardDerived, true, true
	derived.Limits.ReplyBytes = 64 << 10

	derived.Pointers = []string{"/arguments/idempotency_key"}
	derived.Dropped = []string{"idempotency-key", "x-idempotency-key"}

	forward := base(policy.Forward)
	forward.Keys, forward.Strip, forward.ForwardKey, forward.Advertise = argument, true, "x-idempotency-key", true
	forward.Pointers = []string{"/arguments/idempotency_key"}
	forward.Dropped = []string{"idempotency-key"}
	forward.Reply, forward.Unlisted.RetryUnknown = policy.ReplyToolResult, true

	for preset, want := range map[string]policy.Policy{
		``:                    none,
		`,"preset":"gateway"`: gateway,
		`,"preset":"sep3182"`: sep3182,
		`,"preset":"derived"`: derived,
		`,"preset":"forward"`: forward,
	} {
		if got := one(t, `{"policies":{"p":{"anonymous":true`+preset+`}}}`); !reflect.DeepEqual(*got, want) {
			t.Errorf("%s\n got %+v\nwant %+v", preset, *got, want)
		}
	}
}

// Tool entries start from what the preset gives unlisted tools, and anything that a
// preset sets can be set otherwise.
func TestPresetOverridden(t *testing.T) {
	for _, src := range []string{
		`"preset":"derived","tools":[{"match":"a"},{"match":"b","guard":"off","on_tool_error":"replay"}]`,
		`"tools":[{"match":"a"},{"match":"b","guard":"off","on_tool_error":"replay"}],"preset":"derived"`,
	} {
		p := one(t, policyWith(src))
		a, b := p.Tools[0], p.Tools[1]
		if a.Guard != policy.GuardDerived || !a.ReleaseToolError || b.Guard != policy.GuardOff || b.ReleaseToolError {
			t.Errorf("%s: %+v", src, p.Tools)
		}
	}
	if a := one(t, policyWith(`"preset":"forward","tools":[{"match":"a"},{"match":"b","on_unknown":"refuse"}]`)).Tools; !a[0].RetryUnknown || a[1].RetryUnknown {
		t.Errorf("%+v", a)
	}
	gateway := one(t, policyWith(`"preset":"gateway","keys":["json:/params/k"],"bind_request_id":false,"session":false,"stray_key":"ignore","limits":{"on_full":"refuse","entries":1024}`))
	if gateway.HeaderKeysOnly || gateway.BindRequestID || gateway.Session || gateway.RefuseStray || gateway.Limits.Evict || gateway.Limits.Entries != 1024 || gateway.Limits.EntriesPerPrincipal != 64 {
		t.Errorf("%+v", gateway)
	}
	derived := one(t, policyWith(`"preset":"derived","key_per_tool":false,"strip":false,"advertise":false,"reply":"http","marker":"none","limits":{"reply_bytes":1}`))
	if derived.KeyPerTool || derived.Strip || derived.Advertise || derived.Reply != policy.ReplyHTTP || derived.MarkMeta || derived.Limits.ReplyBytes != 1 {
		t.Errorf("%+v", derived)
	}
}

// A default above the level over it, or a lease above a short ttl, is lowered: only
// what an operator wrote is a mistake.
func TestDefaultsThatGiveWay(t *testing.T) {
	p := one(t, policyWith(`"ttl":"3s","limits":{"entries":100,"stored_bytes":1000}`))
	want := policy.Limits{
		Entries: 100, EntriesPerPrincipal: 100, EntriesPerScope: 100, InFlight: 100, InFlightPerPrincipal: 100, InFlightPerScope: 100,
		TombstonesPerScope: 100, Waiting: 512, WaitingPerScope: 128, Detached: 256, DetachedPerScope: 64, ReplyBytes: 1000, StoredBytes: 1000,
	}
	if p.Lease != 3*time.Second || p.Limits != want {
		t.Errorf("lease %v, limits %+v", p.Lease, p.Limits)
	}
	p = one(t, policyWith(`"limits":{"entries_per_principal":10}`))
	if p.Limits.Entries != 16384 || p.Limits.EntriesPerScope != 10 || p.Limits.TombstonesPerScope != 10 || p.Limits.InFlight != 512 {
		t.Errorf("%+v", p.Limits)
	}
}

// The argument that tools/list may gain is the one whose key the policy reads.
func TestArgumentKey(t *testing.T) {
	for keys, want := range map[string]string{
		`"json:/params/arguments/idempotency_key"`:               "idempotency_key",
		`"header:a","json:/params/k","json:/params/arguments/k"`: "k",
		`"json:/params/arguments/a~1b~0c~01"`:                    "a/b~c~1",
		`"json:/params/arguments/a/b"`:                           "",
		`"json:/params/k","header:arguments"`:                    "",
	} {
		name, ok := one(t, policyWith(`"keys":[`+keys+`]`)).ArgumentKey()
		if name != want || ok != (want != "") {
			t.Errorf("%s: %q, %v, want %q", keys, name, ok, want)
		}
	}
}
