package serve

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

// errWarned ends a strict check that found warnings only.
var errWarned = errors.New("warnings, which --strict takes for mistakes")

// check says whether a configuration is good. With --plugin the filter itself is asked, which is what Envoy would do.
func (c *Command) check(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	fs := newFlagSet(c.Name+" check", c.checkSynopsis(), stderr)
	about := "`FILE` of the compiled filter"
	if c.Check != nil {
		about += ", to ask it rather than the built-in reader"
	}
	plugin := fs.String("plugin", "", about)
	config := fs.String("config", "", "`FILE` to check")
	strict := new(bool)
	if c.Check != nil {
		fs.BoolVar(strict, "strict", false, "end with status 3 where there are warnings")
	}
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
	case c.Check != nil:
		if warnings, err = c.Check(b); err != nil {
			return fmt.Errorf("%s:\n  %s%s", *config, strings.ReplaceAll(err.Error(), "\n", "\n  "), notJSON(b))
		}
	default:
		return fmt.Errorf("%w: check needs --plugin: only the filter itself can judge its configuration", errUsage)
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
