package policy_test

import (
	"encoding/json"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/callonce/callonce/plugin/internal/policy"
)

const (
	topMembers = "one of namespace, store, policies, routes, default"
	aCookie    = "the name of a cookie, or a glob of 1 to 128 characters with a letter or digit in it"

	fieldsOfLog   = `"outcome", "refusal", "key_hash", "mode", "key_taken", "tool", "duplicate_source", "settled", "settled_by", "arguments_hash", "request_id", "session_hash", "attempt", "repeats", "waited", "result_id", "hint"`
	policyMembers = "one of preset, mode, server, keys, principal, anonymous, ignore_cookies, scope, session, path, key_per_tool, bind_request_id, strip, advertise, trust_hints, count_repeats, log, log_unkeyed, forward_key, stray_key, released_statuses, released_errors, reply, marker, tools, ttl, lease, max_request_bytes, on_store_error, on_disconnect, on_in_flight, wait, detach_timeout, detach_cluster, operators, limits, limits_scope"
	toolMembers   = "one of match, guard, window, exclude, round, status_tool, status_argument, on_unknown, on_disconnect, on_in_flight, wait, detach, detach_timeout, detach_cluster, cancel, on_tool_error, on_error, released_errors, not_done, ttl, result_id"
	limitMembers  = "one of entries, entries_per_principal, entries_per_scope, in_flight, in_flight_per_principal, in_flight_per_scope, tombstones_per_scope, waiting, waiting_per_scope, detached, detached_per_scope, stored_bytes, reply_bytes, on_full"
	unknown       = "an unknown member"
	aDuration     = `a duration from "1s" to "24h", such as "5m"`
	aForward      = `the name of a header, "json:/params/arguments/<name>" or "json:/params/_meta/<name>"`
	aFreeHeader   = "the name of a header that neither the proxy nor the protocol uses"
	aLease        = `a duration from "2s" to "10m", such as "5m"`
	aKeySource    = `"header:<name>" or "json:<pointer under /params>"`
	aSource       = `"header:<name>", "metadata:<filter>/<path>", "peer:uri_san", "peer:subject"`
	aScope        = `"header:<name>", "metadata:<filter>/<path>"`
	aPointer      = "a JSON Pointer such as /sent_at"
	aToolName     = "a tool name or glob of 1 to 128 characters"
	aNamespace    = "a string of up to 64 characters out of letters, digits, - _ ."
	aPolicyName   = `a name of 1 to 128 characters other than "off"`
	aPolicy       = `"off" or the name of a policy`
	aPrincipal    = `a list of sources such as "header:x-user", or "anonymous": true beside it`
	aBoolean      = "true or false"
	aPreset       = `"gateway", "sep3182", "derived", "forward"`
	aByteCount    = "an integer from 1 to 1073741824"
	anEntryCount  = "an integer from 1 to 65536"
)

var long129 = strings.Repeat("é", 129)

// shown is how a long string is shown: its first 80 bytes or less, in whole characters.
var shown = `"` + strings.Repeat("é", 39) + "…"

// wrong are configurations with one mistake each.
// etcdWith is a store in etcd with more members.
func etcdWith(members string) string { return `{"store":{"kind":"etcd",` + members + `}}` }

const (
	aCluster = "the name of a cluster, 1 to 256 characters"
	aPrefix  = `2 to 256 letters, digits, - _ . and / that begin and end with /, such as "/callonce/"`
	aTimeout = `a duration from "10ms" to "10s", such as "5m"`
)

var wrong = []struct{ src, pointer, found, expected string }{
	// The whole text.
	{`[]`, "", "a list", "an object"},
	{`null`, "", "null", "an object"},
	{`"{}"`, "", `"{}"`, "an object"},
	{`{`, "", "text that is no strict JSON, line 1, column 2 (JSON: at byte 1: expected a member name or '}', found the end of the text)", "one JSON object"},
	{`{"a":1,"a":2}`, "", `the member "a" twice in one object (line 1, column 2 and line 1, column 8)`, "each member once"},
	{"{\"policies\":{\"p\":{\"tt\\\"l\":\"1m\",\n  \"tt\\u0022l\":\"2m\"}}}", "", `the member "tt\u0022l" twice in one object (line 1, column 19 and line 2, column 3)`, "each member once"},
	{`{"` + strings.Repeat("é", 60) + `":1,"` + strings.Repeat("é", 60) + `":1}`, "", `the member "` + strings.Repeat("é", 39) + `… twice in one object (line 1, column 2 and line 1, column 127)`, "each member once"},
	{"\u00a0", "", "text that is no strict JSON, line 1, column 1 (JSON: at byte 0: expected a value, found 0xc2)", "one JSON object"},
	{`{} {}`, "", "text that is no strict JSON, line 1, column 4 (JSON: at byte 3: expected nothing after the value, found '{')", "one JSON object"},

	// Top.
	{`{"policy":{}}`, "/policy", unknown, topMembers},
	{`{"Policies":{}}`, "/Policies", unknown, topMembers},
	{`{"a/b~c":1}`, "/a~1b~0c", unknown, topMembers},
	{`{"":1}`, "/", unknown, topMembers},
	{`{"namespace":7}`, "/namespace", "7", aNamespace},
	{`{"namespace":null}`, "/namespace", "null", aNamespace},
	{`{"namespace":"a b"}`, "/namespace", `"a b"`, aNamespace},
	{`{"namespace":"é"}`, "/namespace", `"é"`, aNamespace},
	{`{"namespace":"a/b"}`, "/namespace", `"a/b"`, aNamespace},
	{`{"namespace":"` + strings.Repeat("n", 65) + `"}`, "/namespace", `"` + strings.Repeat("n", 65) + `"`, aNamespace},
	{`{"store":"shared_data"}`, "/store", `"shared_data"`, "an object"},
	{`{"store":{}}`, "/store/kind", "nothing", `"shared_data", "etcd"`},
	{`{"store":{"kind":"redis"}}`, "/store/kind", `"redis"`, `"shared_data", "etcd"`},
	{`{"store":{"kind":["shared_data"]}}`, "/store/kind", "a list", `"shared_data", "etcd"`},
	{`{"store":{"kind":"shared_data","cluster":"x"}}`, "/store/cluster", unknown, "one of kind"},
	{`{"store":{"kind":"etcd"}}`, "/store/cluster", "nothing", aCluster},
	{etcdWith(`"cluster":""`), "/store/cluster", `""`, aCluster},
	{etcdWith(`"cluster":["etcd"]`), "/store/cluster", "a list", aCluster},
	{etcdWith(`"cluster":"e","endpoints":["http://127.0.0.1:2379"]`), "/store/endpoints", unknown, "one of kind, cluster, prefix, timeout"},
	{etcdWith(`"cluster":"e","prefix":"callonce"`), "/store/prefix", `"callonce"`, aPrefix},
	{etcdWith(`"cluster":"e","prefix":"/callonce"`), "/store/prefix", `"/callonce"`, aPrefix},
	{etcdWith(`"cluster":"e","prefix":"/call once/"`), "/store/prefix", `"/call once/"`, aPrefix},
	{etcdWith(`"cluster":"e","prefix":"/"`), "/store/prefix", `"/"`, aPrefix},
	{etcdWith(`"cluster":"e","timeout":250`), "/store/timeout", "250", aTimeout},
	{etcdWith(`"cluster":"e","timeout":"1ms"`), "/store/timeout", `"1ms"`, aTimeout},
	{`{"store":{"kind":"etcd","cluster":"e"},` + policyWith(`"limits":{"reply_bytes":1048577}`)[1:], "/policies/p/limits/reply_bytes", "1048577", "at most 1048576 where keys are kept in etcd"},
	{`{"policies":[]}`, "/policies", "a list", "an object"},
	{`{"policies":{"off":{"anonymous":true}}}`, "/policies/off", "a policy of that name", aPolicyName},
	{`{"policies":{"":{"anonymous":true}}}`, "/policies/", "a policy of that name", aPolicyName},
	{`{"policies":{"` + long129 + `":{"anonymous":true}}}`, "/policies/" + long129, "a policy of that name", aPolicyName},
	{`{"policies":{"a/b~c":7}}`, "/policies/a~1b~0c", "7", "an object"},
	{`{"policies":{"p":null}}`, "/policies/p", "null", "an object"},
	{`{"routes":[]}`, "/routes", "a list", "an object"},
	{`{"routes":{"r/1":"p"}}`, "/routes/r~11", `"p"`, aPolicy},
	{`{"routes":{"r":true}}`, "/routes/r", "true", aPolicy},
	{`{"routes":{"r":""}}`, "/routes/r", `""`, aPolicy},
	{`{"routes":{"":"off"}}`, "/routes/", "an empty name", "a route's name or glob"},
	{`{"default":"p"}`, "/default", `"p"`, aPolicy},
	{`{"default":null}`, "/default", "null", aPolicy},
	{`{"default":"Off"}`, "/default", `"Off"`, aPolicy},

	// Policy.
	{policyWith(`"sever":"x"`), "/policies/p/sever", unknown, policyMembers},
	{policyWith(`"server":""`), "/policies/p/server", `""`, "a string of 1 to 128 characters"},
	{policyWith(`"server":"a\ud800"`), "/policies/p/server", `"a\ud800"`, "a string of 1 to 128 characters"},
	{policyWith(`"server":7`), "/policies/p/server", "7", "a string of 1 to 128 characters"},
	{policyWith(`"server":"` + long129 + `"`), "/policies/p/server", shown, "a string of 1 to 128 characters"},
	{policyWith(`"keys":"header:a"`), "/policies/p/keys", `"header:a"`, "a list"},
	{policyWith(`"keys":[]`), "/policies/p/keys", "an empty list", "at least one of " + aKeySource},
	{policyWith(`"keys":[7]`), "/policies/p/keys/0", "7", aKeySource},
	{policyWith(`"keys":["header:a",""]`), "/policies/p/keys/1", `""`, aKeySource},
	{policyWith(`"keys":["Idempotency-Key"]`), "/policies/p/keys/0", `"Idempotency-Key"`, aKeySource},
	{policyWith(`"keys":["header:"]`), "/policies/p/keys/0", `"header:"`, aKeySource},
	{policyWith(`"keys":["header:a b"]`), "/policies/p/keys/0", `"header:a b"`, aKeySource},
	{policyWith(`"keys":["header::path"]`), "/policies/p/keys/0", `"header::path"`, aKeySource},
	{policyWith(`"keys":["header:é"]`), "/policies/p/keys/0", `"header:é"`, aKeySource},
	{policyWith(`"keys":["json:/idempotencyKey"]`), "/policies/p/keys/0", `"json:/idempotencyKey"`, aKeySource},
	{policyWith(`"keys":["json:/params"]`), "/policies/p/keys/0", `"json:/params"`, aKeySource},
	{policyWith(`"keys":["json:params/a"]`), "/policies/p/keys/0", `"json:params/a"`, aKeySource},
	{policyWith(`"keys":["json:/params/a~2"]`), "/policies/p/keys/0", `"json:/params/a~2"`, aKeySource},
	{policyWith(`"keys":["json:/params/a~"]`), "/policies/p/keys/0", `"json:/params/a~"`, aKeySource},
	{policyWith(`"principal":"header:x"`), "/policies/p/principal", `"header:x"`, "a list"},
	{policyWith(`"principal":[7]`), "/policies/p/principal/0", "7", aSource},
	{policyWith(`"principal":["header:a",[]]`), "/policies/p/principal/1", "an empty list", "at least one of " + aSource},
	{policyWith(`"principal":[["header:a",{}]]`), "/policies/p/principal/0/1", "an object", aSource},
	{policyWith(`"principal":[["header:a",["header:b"]]]`), "/policies/p/principal/0/1", "a list", aSource},
	{policyWith(`"principal":["peer:dns_san"]`), "/policies/p/principal/0", `"peer:dns_san"`, aSource},
	{policyWith(`"principal":["peer:uri_san/x"]`), "/policies/p/principal/0", `"peer:uri_san/x"`, aSource},
	{policyWith(`"principal":["peer:Subject"]`), "/policies/p/principal/0", `"peer:Subject"`, aSource},
	{policyWith(`"principal":["metadata:filter"]`), "/policies/p/principal/0", `"metadata:filter"`, aSource},
	{policyWith(`"principal":["metadata:filter/"]`), "/policies/p/principal/0", `"metadata:filter/"`, aSource},
	{policyWith(`"principal":["metadata:/sub"]`), "/policies/p/principal/0", `"metadata:/sub"`, aSource},
	{policyWith(`"principal":["metadata:a//b"]`), "/policies/p/principal/0", `"metadata:a//b"`, aSource},
	{policyWith(`"principal":["metadata:"]`), "/policies/p/principal/0", `"metadata:"`, aSource},
	{policyWith(`"principal":["header:a,b"]`), "/policies/p/principal/0", `"header:a,b"`, aSource},
	{`{"policies":{"p":{}}}`, "/policies/p/principal", "nothing", aPrincipal},
	{`{"policies":{"p":{"anonymous":false}}}`, "/policies/p/principal", "nothing", aPrincipal},
	{`{"policies":{"p":{"principal":[]}}}`, "/policies/p/principal", "an empty list", aPrincipal},
	{`{"policies":{"p":{"principal":[],"anonymous":false}}}`, "/policies/p/principal", "an empty list", aPrincipal},
	{`{"policies":{"p":{"principal":null}}}`, "/policies/p/principal", "null", "a list"},
	{`{"policies":{"p":{"principal":["x"]}}}`, "/policies/p/principal/0", `"x"`, aSource},
	{`{"policies":{"p":{"anonymous":"true"}}}`, "/policies/p/anonymous", `"true"`, aBoolean},
	{`{"policies":{"p":{"anonymous":1}}}`, "/policies/p/anonymous", "1", aBoolean},
	{policyWith(`"scope":{}`), "/policies/p/scope", "an object", "a list"},
	{policyWith(`"scope":["peer:uri_san"]`), "/policies/p/scope/0", `"peer:uri_san"`, aScope},
	{policyWith(`"scope":["header:a","header:"]`), "/policies/p/scope/1", `"header:"`, aScope},
	{policyWith(`"scope":[["header:a"]]`), "/policies/p/scope/0", "a list", aScope},
	{policyWith(`"path":"raw"`), "/policies/p/path", `"raw"`, `"normalized", "exact", "ignore"`},
	{policyWith(`"session":null`), "/policies/p/session", "null", aBoolean},
	{policyWith(`"key_per_tool":0`), "/policies/p/key_per_tool", "0", aBoolean},
	{policyWith(`"bind_request_id":[]`), "/policies/p/bind_request_id", "a list", aBoolean},
	{policyWith(`"stray_key":"pass"`), "/policies/p/stray_key", `"pass"`, `"ignore", "refuse"`},
	{policyWith(`"stray_key":true`), "/policies/p/stray_key", "true", `"ignore", "refuse"`},
	{policyWith(`"released_statuses":503`), "/policies/p/released_statuses", "503", "a list"},
	{policyWith(`"released_statuses":[503,499]`), "/policies/p/released_statuses/1", "499", "an integer from 500 to 599"},
	{policyWith(`"released_errors":-32602`), "/policies/p/released_errors", "-32602", "a list"},
	{policyWith(`"released_errors":[-32602,"x"]`), "/policies/p/released_errors/1", `"x"`, "an integer from -2147483648 to 2147483647"},
	{policyWith(`"tools":[{"match":"a","released_errors":[1.5]}]`), "/policies/p/tools/0/released_errors/0", "1.5", "an integer from -2147483648 to 2147483647"},
	{policyWith(`"tools":[{"match":"a","released_errors":[2147483648]}]`), "/policies/p/tools/0/released_errors/0", "2147483648", "an integer from -2147483648 to 2147483647"},
	{policyWith(`"released_statuses":[600]`), "/policies/p/released_statuses/0", "600", "an integer from 500 to 599"},
	{policyWith(`"released_statuses":["503"]`), "/policies/p/released_statuses/0", `"503"`, "an integer from 500 to 599"},
	{policyWith(`"reply":"json"`), "/policies/p/reply", `"json"`, `"http", "jsonrpc", "tool_result"`},
	{policyWith(`"marker":"header"`), "/policies/p/marker", `"header"`, `"none", "meta", "text"`},
	{policyWith(`"marker":null`), "/policies/p/marker", "null", `"none", "meta", "text"`},
	{policyWith(`"preset":"none"`), "/policies/p/preset", `"none"`, aPreset},
	{policyWith(`"preset":["gateway"]`), "/policies/p/preset", "a list", aPreset},
	{policyWith(`"mode":"off"`), "/policies/p/mode", `"off"`, `"enforce", "observe"`},
	{policyWith(`"on_disconnect":"go on"`), "/policies/p/on_disconnect", `"go on"`, `"stop", "continue"`},
	{policyWith(`"released_statuses":[503],"on_disconnect":"continue","detach_cluster":"inner"`), "/policies/p/released_statuses", `statuses, with detach_cluster`,
		`none: what stands at detach_cluster may answer with them by itself, for calls that ran`},
	{policyWith(`"tools":[{"match":"a","cancel":"now"}]`), "/policies/p/tools/0/cancel", `"now"`, `"continue", "stop"`},
	{policyWith(`"on_in_flight":"hold"`), "/policies/p/on_in_flight", `"hold"`, `"refuse", "wait"`},
	{policyWith(`"tools":[{"match":"a","wait":"1s"}]`), "/policies/p/tools/0/wait", `"1s"`, `a duration from "2s" to "10m", such as "5m"`},
	{policyWith(`"limits":{"waiting":4,"waiting_per_scope":5}`), "/policies/p/limits/waiting_per_scope", `5`, `at most 4, as waiting is`},
	{policyWith(`"on_store_error":"pass"`), "/policies/p/on_store_error", `"pass"`, `"refuse", "forward"`},
	{policyWith(`"strip":"yes"`), "/policies/p/strip", `"yes"`, aBoolean},
	{policyWith(`"advertise":1`), "/policies/p/advertise", "1", aBoolean},
	{policyWith(`"log":"tool"`), "/policies/p/log", `"tool"`, "a list"},
	{policyWith(`"log":["tool","settledBy"]`), "/policies/p/log/1", `"settledBy"`, fieldsOfLog},
	{policyWith(`"log":["tool",null]`), "/policies/p/log/1", "null", fieldsOfLog},
	{policyWith(`"log_unkeyed":{}`), "/policies/p/log_unkeyed", "an object", aBoolean},
	{policyWith(`"ignore_cookies":"lb"`), "/policies/p/ignore_cookies", `"lb"`, "a list"},
	{policyWith(`"ignore_cookies":["lb",7]`), "/policies/p/ignore_cookies/1", "7", aCookie},
	{policyWith(`"ignore_cookies":["*"]`), "/policies/p/ignore_cookies/0", `"*"`, aCookie},
	{policyWith(`"ignore_cookies":["__*"]`), "/policies/p/ignore_cookies/0", `"__*"`, aCookie},
	{policyWith(`"ignore_cookies":["a b"]`), "/policies/p/ignore_cookies/0", `"a b"`, aCookie},
	{policyWith(`"ignore_cookies":["a=b"]`), "/policies/p/ignore_cookies/0", `"a=b"`, aCookie},
	{policyWith(`"forward_key":""`), "/policies/p/forward_key", `""`, aForward},
	{policyWith(`"forward_key":true`), "/policies/p/forward_key", "true", aForward},
	{policyWith(`"forward_key":"X Key"`), "/policies/p/forward_key", `"X Key"`, aForward},
	{policyWith(`"forward_key":":path"`), "/policies/p/forward_key", `":path"`, aForward},
	{policyWith(`"forward_key":"json:"`), "/policies/p/forward_key", `"json:"`, aForward},
	{policyWith(`"forward_key":"json:/params/name"`), "/policies/p/forward_key", `"json:/params/name"`, aForward},
	{policyWith(`"forward_key":"json:/params/arguments"`), "/policies/p/forward_key", `"json:/params/arguments"`, aForward},
	{policyWith(`"forward_key":"json:/params/arguments/"`), "/policies/p/forward_key", `"json:/params/arguments/"`, aForward},
	{policyWith(`"forward_key":"json:/params/arguments/a/b"`), "/policies/p/forward_key", `"json:/params/arguments/a/b"`, aForward},
	{policyWith(`"forward_key":"json:/params/arguments/a~2"`), "/policies/p/forward_key", `"json:/params/arguments/a~2"`, aForward},
	{policyWith(`"forward_key":"json:/arguments/a"`), "/policies/p/forward_key", `"json:/arguments/a"`, aForward},
	{policyWith(`"forward_key":"json:/params/_meta/progressToken"`), "/policies/p/forward_key", `"json:/params/_meta/progressToken"`, aForward},
	{policyWith(`"forward_key":"json:/params/_meta/io.modelcontextprotocol~1x"`), "/policies/p/forward_key", `"json:/params/_meta/io.modelcontextprotocol~1x"`, aForward},
	{policyWith(`"forward_key":"X-Envoy-Max-Retries"`), "/policies/p/forward_key", `"X-Envoy-Max-Retries"`, aFreeHeader},
	{policyWith(`"forward_key":"Content-Length"`), "/policies/p/forward_key", `"Content-Length"`, aFreeHeader},
	{policyWith(`"forward_key":"host"`), "/policies/p/forward_key", `"host"`, aFreeHeader},
	{policyWith(`"forward_key":"Mcp-Name"`), "/policies/p/forward_key", `"Mcp-Name"`, aFreeHeader},
	{policyWith(`"lease":"1999ms"`), "/policies/p/lease", `"1999ms"`, aLease},
	{policyWith(`"lease":"11m"`), "/policies/p/lease", `"11m"`, aLease},
	{policyWith(`"lease":15`), "/policies/p/lease", "15", aLease},
	{policyWith(`"lease":"10m"`), "/policies/p/ttl", `"5m"`, `at least lease ("10m")`},
	{policyWith(`"ttl":"3s","lease":"4s"`), "/policies/p/ttl", `"3s"`, `at least lease ("4s")`},
	{policyWith(`"ttl":"x","lease":"10m"`), "/policies/p/ttl", `"x"`, aDuration},
	{policyWith(`"lease":"1m","tools":[{"match":"a"},{"match":"b","ttl":"59s"}]`), "/policies/p/tools/1/ttl", `"59s"`, `at least lease ("1m")`},
	{policyWith(`"advertise":true`), "/policies/p/advertise", "true, with a key in an argument and without strip", `"strip": true beside it: a server does not know the argument`},
	{policyWith(`"preset":"derived","strip":false`), "/policies/p/advertise", "true, with a key in an argument and without strip", `"strip": true beside it: a server does not know the argument`},
	{policyWith(`"ttl":300`), "/policies/p/ttl", "300", aDuration},
	{policyWith(`"ttl":"999ms"`), "/policies/p/ttl", `"999ms"`, aDuration},
	{policyWith(`"ttl":"24h0m0.001s"`), "/policies/p/ttl", `"24h0m0.001s"`, aDuration},
	{policyWith(`"ttl":"-5m"`), "/policies/p/ttl", `"-5m"`, aDuration},
	{policyWith(`"ttl":"5 m"`), "/policies/p/ttl", `"5 m"`, aDuration},
	{policyWith(`"ttl":"5"`), "/policies/p/ttl", `"5"`, aDuration},
	{policyWith(`"ttl":""`), "/policies/p/ttl", `""`, aDuration},
	{policyWith(`"ttl":"99999999999999h"`), "/policies/p/ttl", `"99999999999999h"`, aDuration},
	{policyWith(`"max_request_bytes":1023`), "/policies/p/max_request_bytes", "1023", "an integer from 1024 to 67108864"},
	{policyWith(`"max_request_bytes":67108865`), "/policies/p/max_request_bytes", "67108865", "an integer from 1024 to 67108864"},
	{policyWith(`"max_request_bytes":1024.5`), "/policies/p/max_request_bytes", "1024.5", "an integer from 1024 to 67108864"},
	{policyWith(`"max_request_bytes":-1e99`), "/policies/p/max_request_bytes", "-1e99", "an integer from 1024 to 67108864"},
	{policyWith(`"max_request_bytes":1e999999999`), "/policies/p/max_request_bytes", "1e999999999", "an integer from 1024 to 67108864"},
	{policyWith(`"max_request_bytes":"64k"`), "/policies/p/max_request_bytes", `"64k"`, "an integer from 1024 to 67108864"},

	// Tools.
	{policyWith(`"tools":{}`), "/policies/p/tools", "an object", "a list"},
	{policyWith(`"tools":["x"]`), "/policies/p/tools/0", `"x"`, "an object"},
	{policyWith(`"tools":[{"match":"a"},{}]`), "/policies/p/tools/1/match", "nothing", aToolName},
	{policyWith(`"tools":[{"match":""}]`), "/policies/p/tools/0/match", `""`, aToolName},
	{policyWith(`"tools":[{"match":["a"]}]`), "/policies/p/tools/0/match", "a list", aToolName},
	{policyWith(`"tools":[{"match":"` + long129 + `"}]`), "/policies/p/tools/0/match", shown, aToolName},
	{policyWith(`"tools":[{"match":"a","guard":"on"}]`), "/policies/p/tools/0/guard", `"on"`, `"off", "optional", "required", "derived"`},
	{policyWith(`"tools":[{"match":"a","guard":false}]`), "/policies/p/tools/0/guard", "false", `"off", "optional", "required", "derived"`},
	{policyWith(`"tools":[{"match":"a","gaurd":"off"}]`), "/policies/p/tools/0/gaurd", unknown, toolMembers},
	{policyWith(`"tools":[{"match":"a","on_unknown":"replay"}]`), "/policies/p/tools/0/on_unknown", `"replay"`, `"refuse", "retry"`},
	{policyWith(`"tools":[{"match":"a","on_error":"retry"}]`), "/policies/p/tools/0/on_error", `"retry"`, `"replay", "release"`},
	{policyWith(`"tools":[{"match":"a","status_argument":""}]`), "/policies/p/tools/0/status_argument", `""`, "an argument's name of 1 to 128 characters"},
	{policyWith(`"tools":[{"match":"a","not_done":{}}]`), "/policies/p/tools/0/not_done", "an object", "a list"},
	{policyWith(`"tools":[{"match":"a","not_done":["/a"]}]`), "/policies/p/tools/0/not_done/0", `"/a"`, "an object"},
	{policyWith(`"tools":[{"match":"a","not_done":[{"pointer":"a","equals":1}]}]`), "/policies/p/tools/0/not_done/0/pointer", `"a"`, "a JSON Pointer such as /sent_at"},
	{policyWith(`"tools":[{"match":"a","not_done":[{"equals":1}]}]`), "/policies/p/tools/0/not_done/0/pointer", "nothing", "a JSON Pointer such as /sent_at"},
	{policyWith(`"tools":[{"match":"a","not_done":[{"pointer":"/a"}]}]`), "/policies/p/tools/0/not_done/0/equals", "nothing", "a string, a number, true, false or null"},
	{policyWith(`"tools":[{"match":"a","not_done":[{"pointer":"/a","equals":[1]}]}]`), "/policies/p/tools/0/not_done/0/equals", "a list", "a string, a number, true, false or null"},
	{policyWith(`"tools":[{"match":"a","not_done":[{"pointer":"/a","equals":1,"is":2}]}]`), "/policies/p/tools/0/not_done/0/is", unknown, "one of pointer, equals"},
	{policyWith(`"tools":[{"match":"a","on_tool_error":"retry"}]`), "/policies/p/tools/0/on_tool_error", `"retry"`, `"replay", "release"`},
	{policyWith(`"tools":[{"match":"a","result_id":"id"}]`), "/policies/p/tools/0/result_id", `"id"`, aPointer},
	{policyWith(`"tools":[{"match":"a","result_id":7}]`), "/policies/p/tools/0/result_id", "7", aPointer},
	{policyWith(`"tools":[{"match":"a","round":[]}]`), "/policies/p/tools/0/round", "a list", "an object"},
	{policyWith(`"tools":[{"match":"a","round":{"at":60}}]`), "/policies/p/tools/0/round/at", "a member of that name", aPointer},
	{policyWith(`"tools":[{"match":"a","round":{"/a/b":0}}]`), "/policies/p/tools/0/round/~1a~1b", "0", "an integer from 1 to 31536000"},
	{policyWith(`"tools":[{"match":"a","round":{"/a":"60s"}}]`), "/policies/p/tools/0/round/~1a", `"60s"`, "an integer from 1 to 31536000"},
	{policyWith(`"tools":[{"match":"a","window":"0s"}]`), "/policies/p/tools/0/window", `"0s"`, aDuration},
	{policyWith(`"tools":[{"match":"a","ttl":"25h"}]`), "/policies/p/tools/0/ttl", `"25h"`, aDuration},
	{policyWith(`"tools":[{"match":"a","exclude":"/a"}]`), "/policies/p/tools/0/exclude", `"/a"`, "a list"},
	{policyWith(`"tools":[{"match":"a","exclude":["/a","b"]}]`), "/policies/p/tools/0/exclude/1", `"b"`, aPointer},
	{policyWith(`"tools":[{"match":"a","exclude":[""]}]`), "/policies/p/tools/0/exclude/0", `""`, aPointer},
	{policyWith(`"tools":[{"match":"a","exclude":["/a~x"]}]`), "/policies/p/tools/0/exclude/0", `"/a~x"`, aPointer},
	{policyWith(`"tools":[{"match":"a","status_tool":""}]`), "/policies/p/tools/0/status_tool", `""`, "a tool name of 1 to 128 characters"},

	// Limits.
	{policyWith(`"limits":7`), "/policies/p/limits", "7", "an object"},
	{policyWith(`"limits":{"reply":1}`), "/policies/p/limits/reply", unknown, limitMembers},
	{policyWith(`"limits":{"on_full":"drop"}`), "/policies/p/limits/on_full", `"drop"`, `"refuse", "evict"`},
	{policyWith(`"limits":{"reply_bytes":0}`), "/policies/p/limits/reply_bytes", "0", aByteCount},
	{policyWith(`"limits":{"stored_bytes":1.5}`), "/policies/p/limits/stored_bytes", "1.5", aByteCount},
	{policyWith(`"limits":{"stored_bytes":1073741825}`), "/policies/p/limits/stored_bytes", "1073741825", aByteCount},
	{policyWith(`"limits":{"entries":65537}`), "/policies/p/limits/entries", "65537", anEntryCount},
	{policyWith(`"limits":{"entries":-1}`), "/policies/p/limits/entries", "-1", anEntryCount},
	{policyWith(`"limits":{"in_flight":"8"}`), "/policies/p/limits/in_flight", `"8"`, anEntryCount},
	{policyWith(`"limits":{"reply_bytes":5000,"stored_bytes":4096}`), "/policies/p/limits/reply_bytes", "5000", "at most 4096, as stored_bytes is"},
	{policyWith(`"limits":{"reply_bytes":67108865}`), "/policies/p/limits/reply_bytes", "67108865", "at most 67108864, as stored_bytes is"},
	{policyWith(`"limits":{"reply_bytes":"x","stored_bytes":4096}`), "/policies/p/limits/reply_bytes", `"x"`, aByteCount},
	{policyWith(`"limits":{"entries":10,"entries_per_principal":11}`), "/policies/p/limits/entries_per_principal", "11", "at most 10, as entries is"},
	{policyWith(`"limits":{"entries_per_scope":8193}`), "/policies/p/limits/entries_per_scope", "8193", "at most 8192, as entries_per_principal is"},
	{policyWith(`"limits":{"entries":10,"entries_per_scope":11}`), "/policies/p/limits/entries_per_scope", "11", "at most 10, as entries_per_principal is"},
	{policyWith(`"limits":{"entries":10,"in_flight":11}`), "/policies/p/limits/in_flight", "11", "at most 10, as entries is"},
	{policyWith(`"limits":{"in_flight_per_principal":513}`), "/policies/p/limits/in_flight_per_principal", "513", "at most 512, as in_flight is"},
	{policyWith(`"limits":{"in_flight_per_scope":129}`), "/policies/p/limits/in_flight_per_scope", "129", "at most 128, as in_flight_per_principal is"},
	{policyWith(`"limits":{"tombstones_per_scope":8193}`), "/policies/p/limits/tombstones_per_scope", "8193", "at most 8192, as entries_per_scope is"},
	{policyWith(`"preset":"gateway","limits":{"entries_per_principal":257}`), "/policies/p/limits/entries_per_principal", "257", "at most 256, as entries is"},
}

func TestMistakes(t *testing.T) {
	for _, c := range wrong {
		config, mistakes := policy.Parse([]byte(c.src))
		want := policy.Mistake{Pointer: c.pointer, Found: c.found, Expected: c.expected}
		if config != nil || len(mistakes) != 1 || mistakes[0] != want {
			t.Errorf("%s\n got %+v (configuration %v)\nwant %+v", c.src, []policy.Mistake(mistakes), config, want)
		}
	}
}

// All mistakes are told at once, whatever the order in which the members come.
func TestAllMistakesAtOnce(t *testing.T) {
	const src = `{
		"namespace": "a b",
		"store": {"kind": "redis"},
		"policies": {
			"off": {"anonymous": "x", "ttl": "1"},
			"p": {"server": "", "keys": ["x"], "principal": [], "session": 1, "preset": "x", "lease": "20m", "tools": [{"guard": "x", "ttl": "1", "round": {"a": 0}}, 7], "limits": {"stored_bytes": 1, "reply_bytes": 2, "entries": 0, "on_full": "x"}},
			"q": {"principal": ["header:x-user", "x"]}
		},
		"routes": {"a": "q", "b": "r"},
		"default": 7,
		"extra": {}
	}`
	want := []string{
		"/default", "/extra", "/namespace", "/policies/off", "/policies/off/anonymous", "/policies/off/ttl",
		"/policies/p/keys/0", "/policies/p/lease", "/policies/p/limits/entries", "/policies/p/limits/on_full", "/policies/p/limits/reply_bytes", "/policies/p/preset", "/policies/p/principal",
		"/policies/p/server", "/policies/p/session", "/policies/p/tools/0/guard", "/policies/p/tools/0/match", "/policies/p/tools/0/round/a", "/policies/p/tools/0/round/a", "/policies/p/tools/0/ttl",
		"/policies/p/tools/1", "/policies/q/principal/1", "/routes/b", "/store/kind",
	}
	var tree any
	if err := json.Unmarshal([]byte(src), &tree); err != nil {
		t.Fatal(err)
	}
	for seed := range uint64(100) {
		text := shuffled(rand.New(rand.NewPCG(seed, 0)), tree)
		_, mistakes := policy.Parse([]byte(text))
		var got []string
		for _, m := range mistakes {
			got = append(got, m.Pointer)
		}
		slices.Sort(got)
		if !slices.Equal(got, want) {
			t.Fatalf("%s\n got %q\nwant %q", text, got, want)
		}
		if lines := strings.Split(mistakes.Error(), "\n"); len(lines) != len(want) {
			t.Fatalf("%d mistakes, but %d lines:\n%s", len(want), len(lines), mistakes.Error())
		}
	}
}

func TestTenMistakes(t *testing.T) {
	var members []string
	for i := range 10 {
		members = append(members, `"x`+string(rune('0'+i))+`":1`)
	}
	_, mistakes := policy.Parse([]byte(policyWith(strings.Join(members, ","))))
	if len(mistakes) != 10 {
		t.Errorf("%d mistakes told:\n%v", len(mistakes), mistakes)
	}
}

// One mistake is one line, whatever a member is called.
func TestMistakeIsOneLine(t *testing.T) {
	for src, want := range map[string]string{
		`[]`:                     "configuration: (the whole text): found a list, expected an object",
		`{"default":"x"}`:        `configuration: /default: found "x", expected "off" or the name of a policy`,
		`{"a\nb\u0000\u001b":1}`: `configuration: "/a\nb\x00\x1b": found an unknown member, expected ` + topMembers,
		`{"é \"":1}`:             `configuration: /é ": found an unknown member, expected ` + topMembers,
	} {
		_, mistakes := policy.Parse([]byte(src))
		if got := mistakes.Error(); got != want {
			t.Errorf("%s\n got %s\nwant %s", src, got, want)
		}
		if got := "configuration: " + mistakes[0].Error(); got != want {
			t.Errorf("%s\n got %s\nwant %s", src, got, want)
		}
	}
}
