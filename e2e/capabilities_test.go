package e2e_test

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/callonce/callonce/e2e/envoytest"
	"github.com/callonce/callonce/e2e/payments"
	"github.com/callonce/callonce/e2e/tools"
)

// refusedCapability is how Envoy's log tells of a call that the list of capabilities does not have.
const refusedCapability = "Attempted call to restricted"

// listed are the capabilities of envoy/capabilities.yaml.
func listed(t *testing.T) []string {
	t.Helper()
	var list struct {
		Allowed map[string]any `yaml:"allowed_capabilities"`
	}
	if err := yaml.Unmarshal([]byte(envoyFile(t, "capabilities.yaml")), &list); err != nil || len(list.Allowed) == 0 {
		t.Fatalf("envoy/capabilities.yaml lists no capability: %v", err)
	}
	return slices.Sorted(maps.Keys(list.Allowed))
}

// onlyCrashes are called where Go's runtime says why it ends, which no test here makes it do.
var onlyCrashes = []string{"fd_write"}

// The list is what the module is linked with: each host function that it imports, each callback that it exports, and nothing else
// but what Go's runtime asks of WASI, of which TestNoCapabilityTooMany has the least.
func TestCapabilitiesAreTheModules(t *testing.T) {
	module, err := os.ReadFile(must(t, buildPlugin))
	if err != nil {
		t.Fatal(err)
	}
	var want []string
	for from, names := range linked(t, module) {
		for _, name := range names {
			switch {
			case from == "env", from == "" && strings.HasPrefix(name, "proxy_on_") && name != "proxy_on_memory_allocate":
				want = append(want, name)
			}
		}
	}
	slices.Sort(want)
	got := slices.DeleteFunc(listed(t), func(name string) bool { return !strings.HasPrefix(name, "proxy_") })
	if !slices.Equal(got, want) {
		t.Errorf("want\n%v, got\n%v", want, got)
	}
}

// linked gives the imports of a module, by where they come from, and its exported functions, under "".
func linked(t *testing.T, module []byte) map[string][]string {
	t.Helper()
	r := bytes.NewReader(module[8:])
	number := func() uint64 {
		n, err := binary.ReadUvarint(r)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	text := func() string {
		b := make([]byte, number())
		if _, err := r.Read(b); err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	found := map[string][]string{}
	for r.Len() > 0 {
		section, size := number(), number()
		end := r.Len() - int(size)
		switch section {
		case 2: // all of them functions: a kind, and the index of a type
			for range number() {
				from, name := text(), text()
				if kind := number(); kind != 0 {
					t.Fatalf("%s: an import of kind %d", name, kind)
				}
				number()
				found[from] = append(found[from], name)
			}
		case 7:
			for range number() {
				name, kind := text(), number()
				number()
				if kind == 0 {
					found[""] = append(found[""], name)
				}
			}
		}
		if _, err := r.Seek(int64(len(module)-end), 0); err != nil {
			t.Fatal(err)
		}
		r.Reset(module[len(module)-end:])
	}
	return found
}

// On the oldest and on the newest, nothing is refused with the list as it is; with any of WASI's functions taken out of it something is.
func TestNoCapabilityTooMany(t *testing.T) {
	server := startPayments(t, payments.Options{Stateless: true})
	all := listed(t)
	for name, envoy := range map[string]func() (string, error){"newest": tools.Envoy, "oldest": tools.OldestEnvoy} {
		t.Run(name, func(t *testing.T) {
			if name == "oldest" && must(t, envoy) == must(t, tools.Envoy) {
				t.Skip("the same one") // each in turn, in make e2e-matrix
			}
			t.Setenv("ENVOY", must(t, envoy))
			for _, without := range append([]string{""}, all...) {
				if strings.HasPrefix(without, "proxy_") || slices.Contains(onlyCrashes, without) {
					continue // see TestCapabilitiesAreTheModules
				}
				t.Run("without "+cmp.Or(without, "nothing"), func(t *testing.T) {
					e, err := envoytest.Start(envoytest.Options{Plugin: must(t, buildPlugin), Upstream: server.URL(), Edit: func(e *envoytest.Tree) {
						allowed := map[string]any{}
						for _, name := range all {
							if name != without {
								allowed[name] = map[string]any{}
							}
						}
						e.Object(envoytest.Plugin.To()...)["capability_restriction_config"] = map[string]any{"allowed_capabilities": allowed}
						// As a mesh may set them; without any Go's runtime does not read them.
						e.Object(envoytest.Plugin.To("vm_config")...)["environment_variables"] = map[string]any{"key_values": map[string]any{"NAME": "value"}}
					}})
					logs := ""
					if err != nil {
						logs = err.Error()
					} else {
						send(t, "POST", e.URL()+"/mcp", chargeBody, "Idempotency-Key", "capabilities-"+without)
						logs = e.Logs()
						e.Close()
					}
					if refused := err != nil || strings.Contains(logs, refusedCapability); refused != (without != "") {
						t.Errorf("without %q: want something refused: %v; %v; %s", without, without != "", err, logs[max(0, len(logs)-500):])
					}
				})
			}
		})
	}
}
