package canonical_test

import (
	"flag"
	"os"
	"testing"
)

// TestMain asks for more random documents than rapid tries by itself, and for the same ones in every run, so that a change is judged by
// what it did. Long runs take new ones.
func TestMain(m *testing.M) {
	flag.Parse()
	asked := map[string]bool{"rapid.seed": os.Getenv("CALLONCE_LONG_RUN") != ""}
	flag.Visit(func(f *flag.Flag) { asked[f.Name] = true })
	for name, value := range map[string]string{"rapid.checks": "2000", "rapid.seed": "1"} {
		if !asked[name] {
			flag.Set(name, value)
		}
	}
	os.Exit(m.Run())
}
