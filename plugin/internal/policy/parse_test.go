package policy_test

import (
	"encoding/json"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/callonce/callonce/plugin/internal/mcp"
	"github.com/callonce/callonce/plugin/internal/policy"
)

// parse reads a configuration that has no mistake.
func parse(t *testing.T, src string) *policy.Config {
	t.Helper()
	c, mistakes := policy.Parse([]byte(src))
	if len(mistakes) > 0 || c == nil {
		t.Fatalf("%s\n%v", src, mistakes)
	}
	return c
}

// policyWith is a configuration of one policy, p, that is right but for the members.
func policyWith(members string) string {
	return `{"policies":{"p":{"anonymous":true,` + members + `}}}`
}

func one(t *testing.T, src string) *policy.Policy {
	t.Helper()
	c := parse(t, src)
	if len(c.Policies) != 1 {
		t.Fatalf("%s: %d policies", src, len(c.Policies))
	}
	return c.Policies[0]
}

var defaultKeySources = []policy.KeySource{
	{Header: "idempotency-key"},
	{Header: "x-idempotency-key"},
	{Pointer: "/idempotencyKey"},
	{Pointer: "/_meta/callonce.dev~1idempotency-key"},
	{Pointer: "/arguments/idempotency_key"},
	{Pointer: "/arguments/idempotencyKey"},
}

var largeLimits = policy.Limits{
	Entries: 16384, EntriesPerPrincipal: 8192, EntriesPerScope: 8192,
	InFlight: 512, InFlightPerPrincipal: 128, InFlightPerScope: 128,
	Waiting: 512, WaitingPerScope: 128, Detached: 256, DetachedPerScope: 64, TombstonesPerScope: 256, ReplyBytes: 32768, StoredBytes: 64 << 20,
}

const usualFields = policy.FieldTool | policy.FieldSource | policy.FieldSettled

// The defaults of docs/configuration.md.
func TestDefaults(t *testing.T) {
	want := &policy.Policy{
		Name:      "p",
		Keys:      defaultKeySources,
		Pointers:  []string{"/idempotencyKey", "/_meta/callonce.dev~1idempotency-key", "/arguments/idempotency_key", "/arguments/idempotencyKey"},
		Anonymous: true,
		Unlisted:  policy.Tool{Match: "*", Guard: policy.GuardOptional, Window: 10 * time.Minute, TTL: 5 * time.Minute},
		TTL:       5 * time.Minute, Lease: 15 * time.Second, MaxRequestBytes: 983040,
		Limits: largeLimits, Reply: policy.ReplyJSONRPC, Log: usualFields,
	}
	if got := one(t, `{"policies":{"p":{"anonymous":true}}}`); !reflect.DeepEqual(got, want) {
		t.Errorf("\n got %+v\nwant %+v", got, want)
	}
	tool := one(t, policyWith(`"tools":[{"match":"x"}]`)).Tools[0]
	if want := (policy.Tool{Match: "x", Guard: policy.GuardOptional, Window: 10 * time.Minute, TTL: 5 * time.Minute}); !reflect.DeepEqual(tool, want) {
		t.Errorf("\n got %+v\nwant %+v", tool, want)
	}
}

// Nothing, white space and {} are the configuration in which every request is off.
func TestNoConfiguration(t *testing.T) {
	for _, src := range []string{"", " ", "\r\n\t ", "{}", " {} "} {
		c := parse(t, src)
		if p, known := c.Route("", "any"); p != nil || !known || len(c.Policies) != 0 || c.Namespace != "" || c.ReadsRoutes() {
			t.Errorf("%q: %+v, policy %v, known %v", src, c, p, known)
		}
	}
}

// every has every member that this version serves, none at its default.
const every = `{
	"namespace": "prod-1.a_B",
	"store": {"kind": "shared_data"},
	"policies": {
		"payments": {
			"preset": "gateway",
			"mode": "observe",
			"server": "payments é",
			"keys": ["header:X-Key", "json:/params/arguments/meta/idempotency-key", "json:/params/_meta/a~1b~0c"],
			"principal": [["metadata:envoy.filters.http.jwt_authn/payload/iss", "metadata:envoy.filters.http.jwt_authn/payload/sub"], "peer:uri_san", ["peer:subject", "header:X-User"]],
			"anonymous": true,
			"scope": ["header:X-Tenant-Id", "metadata:f/tenant"],
			"session": false,
			"path": "ignore",
			"key_per_tool": true,
			"bind_request_id": false,
			"strip": true,
			"advertise": true,
			"count_repeats": true,
			"log": ["settled_by", "outcome", "attempt", "tool"],
			"log_unkeyed": true,
			"forward_key": "X-Forward-Key",
			"stray_key": "ignore",
			"released_statuses": [503, 599, 500],
			"released_errors": [-32602, 7],
			"reply": "tool_result",
			"marker": "text",
			"lease": "30s",
			"on_store_error": "forward",
			"tools": [
				{"match": "get_*", "guard": "off"},
				{"match": "charge", "guard": "required", "status_tool": "get_charge", "status_argument": "order_id", "ttl": "1h", "on_unknown": "retry", "on_tool_error": "release", "on_error": "release", "released_errors": [-32000], "not_done": [{"pointer": "/structuredContent/status", "equals": "confirm\u0020first"}, {"equals": 1.0, "pointer": "/n"}], "result_id": "/structuredContent/charge_id"},
				{"match": "send_*", "guard": "derived", "window": "90s", "exclude": ["/sent_at", "/a~1b/0"], "round": {"/b": 60, "/a": 31536000, "/c/0": 1}},
				{"match": "*", "guard": "optional"}
			],
			"ttl": "10m",
			"max_request_bytes": 65536,
			"limits": {"entries": 90, "entries_per_principal": 80, "entries_per_scope": 70, "in_flight": 60, "in_flight_per_principal": 50, "in_flight_per_scope": 40, "tombstones_per_scope": 20, "reply_bytes": 1024, "stored_bytes": 4096, "on_full": "refuse"},
			"limits_scope": "proxy"
		},
		"a": {"principal": ["header:x-user"]}
	},
	"routes": {"mcp-payments": "payments", "mcp-*": "a", "mcp-off": "off"},
	"default": "a"
}`

// forward_key names a header, or a member directly in arguments or _meta.
func TestForwardPlaces(t *testing.T) {
	for text, want := range map[string]policy.Policy{
		`X-Key`:                                {ForwardKey: "x-key"},
		`json:/params/arguments/request_id`:    {ForwardPlace: mcp.Place{Parent: "arguments", Name: "request_id"}},
		`json:/params/_meta/example.com~1a~0b`: {ForwardPlace: mcp.Place{Parent: "_meta", Name: "example.com/a~b"}},
		`json:/params/arguments/progressToken`: {ForwardPlace: mcp.Place{Parent: "arguments", Name: "progressToken"}},
	} {
		for _, preset := range []string{"", `"preset":"forward",`} { // which has a header of its own
			p := one(t, `{"policies":{"p":{`+preset+`"anonymous":true,"forward_key":"`+text+`"}}}`)
			if p.ForwardKey != want.ForwardKey || p.ForwardPlace != want.ForwardPlace || !p.Forwards() || p.EditsBodies() != (p.Strip || p.ForwardPlace.Name != "") {
				t.Errorf("%s: found %q and %+v", text, p.ForwardKey, p.ForwardPlace)
			}
			if !slices.Contains(p.Dropped, "idempotency-key") || !slices.Contains(p.Dropped, "x-idempotency-key") {
				t.Errorf("%s: a header goes on that makes a gateway repeat: dropped are %v", text, p.Dropped)
			}
		}
	}
}

func TestEveryMember(t *testing.T) {
	c := parse(t, every)
	if c.Namespace != "prod-1.a_B" || len(c.Policies) != 2 {
		t.Fatalf("%+v", c)
	}
	a, payments := c.Policies[0], c.Policies[1]
	if a.Name != "a" || a.Index != 0 || !reflect.DeepEqual(a.Principal, []policy.Principal{{{Text: "header:x-user", Header: "x-user"}}}) || a.Anonymous {
		t.Errorf("%+v", a)
	}
	claim := func(name string) policy.Source {
		return policy.Source{Text: "metadata:envoy.filters.http.jwt_authn/payload/" + name, Property: []string{"metadata", "filter_metadata", "envoy.filters.http.jwt_authn", "payload", name}}
	}
	san := policy.Source{Text: "peer:uri_san", Property: []string{"connection", "uri_san_peer_certificate"}, Peer: true}
	subject := policy.Source{Text: "peer:subject", Property: []string{"connection", "subject_peer_certificate"}, Peer: true}
	tool := func(match string, guard policy.Guard) policy.Tool {
		return policy.Tool{Match: match, Guard: guard, Window: 10 * time.Minute, TTL: 10 * time.Minute}
	}
	charge, send := tool("charge", policy.GuardRequired), tool("send_*", policy.GuardDerived)
	charge.StatusArgument, charge.ReleaseError = "order_id", true
	charge.ReleasedErrors = []int{-32000}
	charge.NotDone = []mcp.Sign{{Pointer: "/structuredContent/status", Equals: []byte(`"confirm first"`)}, {Pointer: "/n", Equals: []byte("1")}}
	charge.StatusTool, charge.TTL, charge.RetryUnknown, charge.ReleaseToolError, charge.ResultID = "get_charge", time.Hour, true, true, "/structuredContent/charge_id"
	send.Window, send.Exclude = 90*time.Second, []string{"/sent_at", "/a~1b/0"}
	send.Round = []mcp.Round{{Pointer: "/a", Seconds: 31536000}, {Pointer: "/b", Seconds: 60}, {Pointer: "/c/0", Seconds: 1}}
	want := &policy.Policy{
		Name: "payments", Index: 1, Preset: policy.Gateway, Observe: true, LimitsOfProxy: true, CountRepeats: true, Server: "payments é",
		Keys:       []policy.KeySource{{Header: "x-key"}, {Pointer: "/arguments/meta/idempotency-key"}, {Pointer: "/_meta/a~1b~0c"}},
		Principal:  []policy.Principal{{claim("iss"), claim("sub")}, {san}, {subject, {Text: "header:x-user", Header: "x-user"}}},
		Pointers:   []string{"/arguments/meta/idempotency-key", "/_meta/a~1b~0c"},
		Anonymous:  true,
		Scope:      []policy.Source{{Text: "header:x-tenant-id", Header: "x-tenant-id"}, {Text: "metadata:f/tenant", Property: []string{"metadata", "filter_metadata", "f", "tenant"}}},
		Path:       policy.PathIgnored,
		KeyPerTool: true, Strip: true, Advertise: true, Log: policy.FieldTool | policy.FieldAttempt | policy.FieldSettledBy, LogUnkeyed: true, ForwardKey: "x-forward-key", Reply: policy.ReplyToolResult, MarkMeta: true, MarkText: true,
		Dropped:   []string{"idempotency-key", "x-idempotency-key", "x-key"},
		Tools:     []policy.Tool{tool("get_*", policy.GuardOff), charge, send, tool("*", policy.GuardOptional)},
		Unlisted:  tool("*", policy.GuardOptional),
		MustGuard: true, ReleasedStatuses: []int{503, 599, 500}, ReleasedErrors: []int{-32602, 7}, ForwardOnError: true,
		TTL: 10 * time.Minute, Lease: 30 * time.Second, MaxRequestBytes: 65536,
		Limits: policy.Limits{
			Entries: 90, EntriesPerPrincipal: 80, EntriesPerScope: 70, InFlight: 60, InFlightPerPrincipal: 50, InFlightPerScope: 40,
			Waiting: 32, WaitingPerScope: 8, Detached: 32, DetachedPerScope: 4, TombstonesPerScope: 20, ReplyBytes: 1024, StoredBytes: 4096,
		},
	}
	if !reflect.DeepEqual(payments, want) {
		t.Errorf("\n got %+v\nwant %+v", payments, want)
	}
	for status, released := range map[int]bool{500: true, 503: true, 599: true, 502: false, 0: false, 200: false} {
		if payments.Released(status) != released {
			t.Errorf("Released(%d) = %v", status, !released)
		}
	}
}

// A mesh hands a configuration on as a protobuf Struct: the order of members is lost,
// and every number is a double.
func TestThroughAStruct(t *testing.T) {
	want := parse(t, every)
	doubles := strings.NewReplacer("503", "503.0", "65536", "6.5536e4", "1024", "1024.00", "4096", "40960E-1").Replace(every)
	if doubles == every {
		t.Fatal("nothing replaced")
	}
	if !reflect.DeepEqual(parse(t, doubles), want) {
		t.Error("other numbers, another configuration")
	}
	var tree any
	if err := json.Unmarshal([]byte(every), &tree); err != nil {
		t.Fatal(err)
	}
	for seed := range uint64(200) {
		src := shuffled(rand.New(rand.NewPCG(seed, 0)), tree)
		if !reflect.DeepEqual(parse(t, src), want) {
			t.Fatalf("seed %d: another order, another configuration: %s", seed, src)
		}
	}
}

// shuffled writes a JSON value with the members of its objects in a random order.
func shuffled(r *rand.Rand, v any) string {
	var parts []string
	switch v := v.(type) {
	case map[string]any:
		for name, value := range v {
			text, _ := json.Marshal(name)
			parts = append(parts, string(text)+":"+shuffled(r, value))
		}
		r.Shuffle(len(parts), func(i, j int) { parts[i], parts[j] = parts[j], parts[i] })
		return "{" + strings.Join(parts, ",") + "}"
	case []any:
		for _, value := range v {
			parts = append(parts, shuffled(r, value))
		}
		return "[" + strings.Join(parts, ",") + "]"
	}
	text, _ := json.Marshal(v)
	return string(text)
}

// Both ends of every range.
func TestBounds(t *testing.T) {
	long := strings.Repeat("é", 128)
	for _, members := range []string{
		`"server":"x"`, `"server":"` + long + `"`,
		`"ttl":"1s"`, `"lease":"2s"`, `"lease":"5m"`, `"lease":"10m","ttl":"10m"`, `"ttl":"24h"`, `"ttl":"1000ms"`, `"ttl":"1h30m"`,
		`"max_request_bytes":1024`, `"max_request_bytes":67108864`, `"max_request_bytes":6.7108864e7`,
		`"released_statuses":[]`, `"released_statuses":[500,599]`,
		`"released_errors":[]`, `"released_errors":[-2147483648,2147483647,-3.2602e4]`, `"tools":[{"match":"a","released_errors":[0]}]`,
		`"limits":{"reply_bytes":1}`, `"limits":{"reply_bytes":67108864}`, `"limits":{"reply_bytes":1,"stored_bytes":1}`, `"limits":{"reply_bytes":1073741824,"stored_bytes":1073741824}`,
		`"limits":{"entries":1}`, `"limits":{"entries":65536,"entries_per_principal":65536,"entries_per_scope":65536,"in_flight":65536,"in_flight_per_principal":65536,"in_flight_per_scope":65536,"tombstones_per_scope":65536}`,
		`"tools":[]`, `"tools":[{"match":"` + long + `","status_tool":"` + long + `","window":"1s"},{"match":"*","window":"24h","exclude":["/"]}]`,
		`"keys":["json:/params/"]`, `"keys":["header:!#$%&'*+-.^_` + "`" + `|~09azAZ"]`,
		`"scope":[]`, `"principal":[]`,
		`"stray_key":"ignore"`, `"session":false`, `"path":"normalized"`, `"mode":"enforce"`, `"marker":"none"`, `"reply":"http"`, `"on_store_error":"refuse"`,
		`"advertise":true,"strip":true`, `"advertise":true,"keys":["header:a","json:/params/arguments/a/b"]`,
	} {
		parse(t, policyWith(members))
	}
	for _, src := range []string{
		`{"namespace":""}`, `{"namespace":"` + strings.Repeat("n", 64) + `"}`,
		`{"policies":{"` + long + `":{"anonymous":true}}}`,
		`{"policies":{},"routes":{},"default":"off"}`,
		`{"policies":{"a/b~c":{"anonymous":true}},"routes":{"x":"a/b~c"}}`,
	} {
		parse(t, src)
	}
}

// A policy must guard when one of its tools is required or derived.
func TestMustGuard(t *testing.T) {
	for guards, must := range map[string]bool{"": false, "off": false, "optional": false, "off optional": false, "required": true, "derived": true, "off derived": true, "required off": true} {
		var tools []string
		for _, g := range strings.Fields(guards) {
			tools = append(tools, `{"match":"x","guard":"`+g+`"}`)
		}
		p := one(t, policyWith(`"tools":[`+strings.Join(tools, ",")+`]`))
		if p.MustGuard != must {
			t.Errorf("%q: MustGuard %v", guards, p.MustGuard)
		}
	}
}

func TestHeaderKeysOnly(t *testing.T) {
	for keys, only := range map[string]bool{`"header:a"`: true, `"header:a","header:b"`: true, `"json:/params/a"`: false, `"header:a","json:/params/a"`: false, `"json:/params/a","header:a"`: false} {
		if p := one(t, policyWith(`"keys":[`+keys+`]`)); p.HeaderKeysOnly != only {
			t.Errorf("%s: HeaderKeysOnly %v", keys, p.HeaderKeysOnly)
		}
	}
}
