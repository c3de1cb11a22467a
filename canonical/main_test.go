package canonical_test

import (
	"flag"
	"os"
	"testing"
)

// TestMain asks for more random documents than rapid tries by itself.
func TestMain(m *testing.M) {
	flag.Parse()
	asked := false
	flag.Visit(func(f *flag.Flag) { asked = asked || f.Name == "rapid.checks" })
	if !asked {
		flag.Set("rapid.checks", "2000")
	}
	os.Exit(m.Run())
}
