package guard

import (
	"math"
	"strings"
	"testing"

	"github.com/callonce/callonce/plugin/internal/ledger"
	"github.com/callonce/callonce/plugin/internal/policy"
)

// process is what outlives configurations, and the log of all of them.
type process struct {
	t      *testing.T
	memory *memory
	logs   []string
}

func newProcess(t *testing.T) *process {
	return &process{t: t, memory: &memory{values: map[string]cell{}}}
}

// start starts a configuration in a VM, as the filter of a name, and gives what was said.
func (p *process) start(vm *Started, plugin, config string) string {
	p.t.Helper()
	c, mistakes := policy.Parse([]byte(config))
	if len(mistakes) > 0 {
		p.t.Fatal(mistakes)
	}
	from := len(p.logs)
	if n := Recall(p.memory, plugin, c, vm, func(line string) { p.logs = append(p.logs, line) }); n == 0 && !p.memory.broken {
		p.t.Error("nothing was remembered")
	}
	return strings.Join(p.logs[from:], "\n")
}

// Each member that keys hang on is named at a change, and no other change is spoken of.
func TestRecallNamesWhatChanged(t *testing.T) {
	const before = `{"namespace":"n","policies":{"p":{"server":"s","principal":["header:x-user"],"scope":["header:x-tenant"]},"q":{"anonymous":true}},"default":"p"}`
	const lost, unlike = "what keys hang on: ", "what makes two calls the same: "
	for _, c := range []struct{ old, new, says, member string }{
		{`"namespace":"n"`, `"namespace":"m"`, lost, "/namespace."},
		{`"namespace":"n",`, ``, lost, "/namespace."},
		{`"server":"s"`, `"server":"s2"`, lost, "/policies/p/server."},
		{`"server":"s",`, ``, lost, "/policies/p/server."},
		{`"anonymous":true`, `"anonymous":true,"server":"x"`, lost, "/policies/q/server."},
		{`["header:x-user"]`, `["header:x-user","header:x-agent"]`, lost, "/policies/p/principal."},
		{`["header:x-user"]`, `[["header:x-user"]]`, "", ""},
		{`["header:x-tenant"]`, `["header:x-tenant","header:x-org"]`, lost, "/policies/p/scope."},
		{`,"scope":["header:x-tenant"]`, ``, lost, "/policies/p/scope."},
		{`"anonymous":true`, `"anonymous":true,"ignore_cookies":["lb"]`, lost, "/policies/q/ignore_cookies."},
		{`"anonymous":true`, `"anonymous":true,"principal":["header:x-user"]`, lost, "/policies/q/principal."},
		{`"anonymous":true`, `"principal":["header:x-user"]`, lost, "/policies/q/principal, /policies/q/anonymous"},
		{`"server":"s"`, `"server":"s","session":true`, lost, "/policies/p/session."},
		{`"server":"s"`, `"server":"s","path":"exact"`, lost, "/policies/p/path."},
		{`"server":"s"`, `"server":"s","path":"ignore"`, lost, "/policies/p/path."},
		{`"server":"s"`, `"server":"s","path":"normalized"`, "", ""},
		{`"server":"s"`, `"server":"s","key_per_tool":true`, lost, "/policies/p/key_per_tool."},
		{`"server":"s"`, `"server":"s","key_per_tool":true,"session":true`, lost, "/policies/p/session, /policies/p/key_per_tool."},
		{`"server":"s"`, `"server":"s","bind_request_id":true`, unlike, "/policies/p/bind_request_id."},
		{`"server":"s"`, `"server":"s","tools":[{"match":"a","exclude":["/at"]}]`, unlike, "/policies/p/tools (exclude, round)."},
		{`"server":"s"`, `"server":"s","tools":[{"match":"a","round":{"/at":60}}]`, unlike, "/policies/p/tools (exclude, round)."},
		{`,"q":{"anonymous":true}`, ``, lost, "/policies/q (it is gone)."},
		{`"q":{`, `"r":{`, lost, "/policies/q (it is gone)."},
		{`"p":{"server"`, `"z":{"server"`, "", ""}, // and its default, below
		{`"server":"s"`, `"server":"s","ttl":"1m","strip":true,"limits":{"entries":3},"tools":[{"match":"a","guard":"required"}]`, "", ""},
		{`"default":"p"`, `"default":"q"`, "", ""},
		{`"q":{`, `"new":{"server":"new","anonymous":true},"q":{`, "", ""},
	} {
		p := newProcess(t)
		var vm Started
		if got := p.start(&vm, "callonce", before); got != "" {
			t.Errorf("the first configuration: said %q", got)
		}
		after := strings.Replace(before, c.old, c.new, 1)
		if after == before {
			t.Fatalf("%s is not in %s", c.old, before)
		}
		if strings.Contains(after, `"z":`) {
			after = strings.Replace(after, `"default":"p"`, `"default":"z"`, 1)
		}
		got := p.start(&vm, "callonce", after)
		if c.says == "" && got != "" || !strings.Contains(got, c.says+c.member) || strings.Count(got, "this configuration is other") > 1 {
			t.Errorf("%s to %s: expected a word on %q, found %q", c.old, c.new, c.member, got)
		}
		// The other workers, whose VMs begin.
		for range 3 {
			if again := p.start(new(Started), "callonce", after); again != "" {
				t.Errorf("said again: %q", again)
			}
		}
	}
}

// Going back to an older configuration is a change as well; a VM that starts late, or once
// more, with an older one is none.
func TestRecallGoesBack(t *testing.T) {
	const one, two = `{"namespace":"one"}`, `{"namespace":"two"}`
	p := newProcess(t)
	var first, second Started
	p.start(&first, "callonce", one)
	p.start(&second, "callonce", one)
	if got := p.start(&first, "callonce", two); !strings.Contains(got, "/namespace") {
		t.Errorf("the change: said %q", got)
	}
	if got := p.start(new(Started), "callonce", one); got != "" {
		t.Errorf("a VM that was loaded again: said %q", got)
	}
	if got := p.start(&second, "callonce", two); got != "" {
		t.Errorf("the second worker: said %q", got)
	}
	if got := p.start(&first, "callonce", one); !strings.Contains(got, "/namespace") {
		t.Errorf("the way back: said %q", got)
	}
	if got := p.start(&second, "callonce", one); got != "" {
		t.Errorf("the second worker on the way back: said %q", got)
	}
	if got := p.start(&first, "another", two); got != "" {
		t.Errorf("a filter of another name: said %q", got)
	}
	var many Started
	for i := range 3 * mostShapes {
		p.start(&many, "callonce", `{"namespace":"n`+itoa(i)+`"}`)
	}
	if n := len(p.memory.values[recallKey("callonce")].value); n != recordHead+8*mostShapes+8 {
		t.Errorf("the record has %d bytes", n)
	}
}

// The record holds digests and names of policies: no source, no tenant, no header.
func TestRecallKeepsNoSecret(t *testing.T) {
	p := newProcess(t)
	p.start(new(Started), "callonce", `{"namespace":"nnnn","policies":{"p":{"server":"ssss","principal":["header:x-user"],"scope":["metadata:f/tenant"],"anonymous":true,"ignore_cookies":["lblb"]}}}`)
	for key, c := range p.memory.values {
		for _, word := range []string{"nnnn", "ssss", "x-user", "tenant", "lblb"} {
			if strings.Contains(string(c.value), word) || strings.Contains(key, word) {
				t.Errorf("%s holds %s", key, word)
			}
		}
		if strings.HasPrefix(key, "callonce/") {
			t.Errorf("the key %s is one of a namespace", key)
		}
	}
}

// Foreign bytes are written over, whatever they are, and a table that does not answer
// stops nothing.
func TestRecallOnForeignBytes(t *testing.T) {
	const config = `{"namespace":"n","policies":{"p":{"anonymous":true}}}`
	p := newProcess(t)
	p.start(new(Started), "callonce", config)
	good := p.memory.values[recallKey("callonce")].value
	for cut := range good {
		p.memory.values[recallKey("callonce")] = cell{good[:cut], 7}
		if got := p.start(new(Started), "callonce", config); got != "" {
			t.Errorf("cut after %d bytes: said %q", cut, got)
		}
		if string(p.memory.values[recallKey("callonce")].value) != string(good) {
			t.Errorf("cut after %d bytes: not mended", cut)
		}
	}
	p.memory.broken = true
	if got := p.start(new(Started), "callonce", config); got != "" {
		t.Errorf("a broken table: said %q", got)
	}
	if ledger.InsertIfAbsent != math.MaxUint32 {
		t.Error("the first start overwrites")
	}
}

func FuzzReadRecord(f *testing.F) {
	traits := policy.Traits{Namespace: 3, Policies: []policy.PolicyTraits{{Name: "p"}}}.Append(nil)
	f.Add(appendRecord([]uint64{shapeOf(traits), 2}, traits))
	f.Fuzz(func(t *testing.T, b []byte) {
		shapes, latest := readRecord(b)
		if latest == nil {
			return
		}
		if again := appendRecord(shapes, latest.Append(nil)); string(again[4:]) != string(b[4:]) {
			t.Errorf("%x became %x", b, again)
		}
	})
}
