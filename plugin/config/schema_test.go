package config_test

import (
	"bytes"
	"flag"
	"os"
	"testing"

	"github.com/callonce/callonce/plugin/config"
)

var update = flag.Bool("update", false, "write the schema's file")

// The file that users have is what the parser says.
func TestSchemaFile(t *testing.T) {
	const file = "../../envoy/configuration.schema.json"
	want := config.Schema()
	if *update {
		if err := os.WriteFile(file, want, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(file)
	if err != nil || !bytes.Equal(got, want) {
		t.Errorf("%s is not what the parser says (%v): go test ./plugin/config -update", file, err)
	}
}
