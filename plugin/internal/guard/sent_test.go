package guard

import (
	"encoding/binary"
	"encoding/json"
	"os"
	"strings"
	"testing"
)

// bits are Envoy's response flags by their short names, as CoreResponseFlag numbers
// them.
var bits = map[string]uint{
	"UH": 1, "UT": 2, "LR": 3, "UR": 4, "UF": 5, "UC": 6, "UO": 7, "NR": 8, "FI": 10, "RL": 11, "URX": 15, "SI": 16, "UPE": 23, "NC": 24,
}

func number(n uint64) string { return string(binary.LittleEndian.AppendUint64(nil, n)) }

func flagsOf(t *testing.T, names string) string {
	t.Helper()
	var set uint64
	for _, name := range strings.Split(names, ",") {
		if name == "" {
			continue
		}
		bit, known := bits[name]
		if !known {
			t.Fatalf("no such flag: %s", name)
		}
		set |= 1 << bit
	}
	return number(set)
}

// reply is one reply of a real Envoy's own, as testdata/replies.json has it.
type reply struct {
	Name             string
	Details, Flags   string
	FlagsWithRetries string `json:"flags_with_retries"`
	Attempts         uint64
	NothingSent      bool `json:"nothing_sent"`
}

func replies(t *testing.T) (all []reply) {
	t.Helper()
	text, err := os.ReadFile("testdata/replies.json")
	if err == nil {
		err = json.Unmarshal(text, &all)
	}
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// fate gives what becomes of a key whose call the proxy answered itself.
func fate(t *testing.T, details, flags, attempts string) (free bool) {
	t.Helper()
	w := newWorld(t)
	g := w.worker(plain)
	x := w.send(g, toolCall("1", `{}`), "idempotency-key", "k")
	x.properties["response.code_details"], x.properties["response.flags"] = details, flags
	x.properties["upstream.request_attempt_count"] = attempts
	x.answer(503, "text/plain", "no")
	x = w.send(g, toolCall("2", `{}`), "idempotency-key", "k")
	if !x.sent {
		x.wantRefused(409, "idempotency_outcome_unknown")
	}
	return x.sent
}

// The proxy's own replies free the key where they prove that nothing was sent, and
// only there. What a real Envoy says is recorded; e2e/replies_test.go compares.
func TestProxyReplies(t *testing.T) {
	proved := map[string]bool{}
	for _, r := range replies(t) {
		for _, flags := range []string{r.Flags, r.FlagsWithRetries} {
			if got := fate(t, r.Details, flagsOf(t, flags), number(r.Attempts)); got != r.NothingSent {
				t.Errorf("%s, flags %q: the key is free: %v, expected %v", r.Name, flags, got, r.NothingSent)
			}
			// After a second attempt the first may have been sent.
			if fate(t, r.Details, flagsOf(t, flags), number(2)) {
				t.Errorf("%s, flags %q: the key is free after two attempts", r.Name, flags)
			}
		}
		for _, u := range unsent {
			if begin, open := strings.CutSuffix(u.details, "*"); r.NothingSent && (r.Details == begin || open && strings.HasPrefix(r.Details, begin)) {
				proved[u.details] = true
			}
		}
	}
	for _, u := range unsent {
		if !proved[u.details] {
			t.Errorf("%s: no real Envoy was seen to say so", u.details)
		}
	}
}

// What is only like such a reply proves nothing.
func TestLikeProxyReplies(t *testing.T) {
	const refused = "upstream_reset_before_response_started{remote_connection_failure|delayed_connect_error:_Connection_refused}"
	for _, c := range []struct{ details, flags, attempts string }{
		{"upstream_reset_before_response_started{overflow}", flagsOf(t, "UF"), number(1)},
		{"upstream_reset_before_response_started{remote_connection_failure}", flagsOf(t, "UF"), number(1)},
		{"upstream_reset_after_response_started{remote_refused_stream_reset}", flagsOf(t, "UR"), number(1)},
		{"upstream_reset_before_response_started{local_refused_stream_reset}", flagsOf(t, "LR"), number(1)},
		{refused, flagsOf(t, "UF,UH"), number(1)},
		{refused, flagsOf(t, "UF,UC"), number(1)},
		{refused, flagsOf(t, "UF,URX"), ""}, // how many attempts there were is not known
		{refused, flagsOf(t, ""), number(1)},
		{"no_healthy_upstream_", flagsOf(t, "UH"), number(1)},
		{"no_healthy_upstream", "", number(1)},
		{"no_healthy_upstream", "\x02", number(1)},
		{"direct_response", flagsOf(t, ""), number(1)},
		{"direct_response", flagsOf(t, ""), ""},
		{"", flagsOf(t, "UH"), number(1)},
		{"", flagsOf(t, ""), number(0)},
	} {
		if fate(t, c.details, c.flags, c.attempts) {
			t.Errorf("%q, flags %x, attempts %x: the key is free", c.details, c.flags, c.attempts)
		}
	}
	if !fate(t, refused, flagsOf(t, "UF"), "") {
		t.Error("a proxy that does not count its attempts: a refused connection did not free the key")
	}
}
