package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/callonce/callonce/hostsim"
)

// checkConfig, when set, judges a configuration without running the filter. An error is printed as it is; warnings are
// what is no mistake, and yet hardly meant.
var checkConfig func(config []byte) (warnings []string, err error)

// errWarned ends a strict check that found warnings only.
var errWarned = errors.New("warnings, which --strict takes for mistakes")

// check says whether a configuration is good. With --plugin the filter itself is asked, which is what Envoy would do.
func check(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	fs := newFlagSet("hostsim check", "hostsim check --config FILE [--strict | --plugin FILE.wasm]", stderr)
	plugin := fs.String("plugin", "", "`FILE` of the compiled filter, to ask it rather than the built-in reader")
	config := fs.String("config", "", "`FILE` to check")
	strict := fs.Bool("strict", false, "end with status 3 where there are warnings")
	cache := fs.String("cache", defaultCache(), "`DIR` that keeps compiled code for the next start; \"\" = none")
	if err := parse(fs, args); err != nil {
		return err
	}
	if *config == "" {
		return fmt.Errorf("%w: check needs --config", errUsage)
	}
	if *strict && *plugin != "" {
		return fmt.Errorf("%w: --strict is for the built-in reader: leave --plugin out", errUsage)
	}
	b, err := os.ReadFile(*config)
	if err != nil {
		return fmt.Errorf("--config: %w", err)
	}
	var warnings []string
	switch {
	case *plugin != "":
		err = checkWithPlugin(ctx, b, *plugin, *config, *cache)
	case checkConfig != nil:
		if warnings, err = checkConfig(b); err != nil {
			return fmt.Errorf("%s:\n  %s%s", *config, strings.ReplaceAll(err.Error(), "\n", "\n  "), notJSON(b))
		}
	default:
		return fmt.Errorf("%w: check needs --plugin: this build has no reader of configurations of its own", errUsage)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", *config, err)
	}
	for _, w := range warnings {
		fmt.Fprintf(stdout, "%s: warning: %s\n", *config, w)
	}
	if *strict && len(warnings) > 0 {
		return fmt.Errorf("%s: %w", *config, errWarned)
	}
	fmt.Fprintf(stdout, "%s: ok\n", *config)
	return nil
}

// notJSON says what is wanted where the file is not even of the right kind, such as a
// proxy's whole configuration.
func notJSON(config []byte) string {
	text := bytes.TrimLeft(config, " \t\r\n")
	if len(text) == 0 || text[0] == '{' {
		return ""
	}
	return "\n  (wanted is the JSON object that a proxy's configuration holds as the filter's `configuration`, not the YAML around it)"
}

func checkWithPlugin(ctx context.Context, b []byte, plugin, config, cache string) error {
	f := &serveFlags{plugin: plugin, config: config, cache: cache, workers: 1}
	c, err := f.hostConfig()
	if err != nil {
		return err
	}
	c.PluginConfig = b
	h, err := start(ctx, c, plugin, io.Discard)
	if err != nil {
		var refused *hostsim.StartError
		if errors.As(err, &refused) {
			return refused
		}
		return fmt.Errorf("%s: %w", plugin, err)
	}
	return h.Close()
}
