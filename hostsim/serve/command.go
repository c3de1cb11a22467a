// Package serve is a command around hostsim: it serves a filter as a reverse proxy, or runs it just long enough to judge a configuration. A
// filter's own command fills in what it knows of that filter; command hostsim fills in nothing.
package serve

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"

	"github.com/callonce/callonce/hostsim"
)

// Command is a command with the subcommands serve and check, and version where Version is set. Only Name is required.
type Command struct {
	// Name is what the command is called in what it prints, About one line that says what it is for.
	Name, About string
	// Plugin finds the compiled filter when --plugin names none. Without it serve needs --plugin.
	Plugin func() (path string, err error)
	// LogFields are fields of the access log, before those of --log-field.
	LogFields []LogField
	// PageFields are further fields, for the page that --admin serves.
	PageFields []LogField
	// Tones are words of the fields that the page colours: "good", "warn" or "bad". Example is what its filter of rows may look for.
	Tones   map[string]string
	Example string
	// Page makes what the page has of the filter's own, for a host that has started with a configuration: a handler whose /page.js the
	// page runs, and that answers what this asks for below /filter/. Nil, or a nil handler, is none. Only pages of the admin address
	// itself get through to it.
	Page func(h *hostsim.Host, config []byte) http.Handler
	// Matchers are members of a fault's match, besides method and path.
	Matchers []Matcher
	// Check judges a configuration without running the filter, when --plugin names none. An error is printed as it is; warnings are what is
	// no mistake, and yet hardly meant. Without it check needs --plugin, and has no --strict.
	Check func(config []byte) (warnings []string, err error)
	// Version is what the subcommand version prints.
	Version func() string
	// Commands are further subcommands.
	Commands []Subcommand
}

// Subcommand is a subcommand of a filter's own.
type Subcommand struct {
	// Name calls it, Synopsis shows how, and About says what it does, in one line.
	Name, Synopsis, About string
	// Run runs it on the arguments behind its name. [flag.ErrHelp] is no mistake; any other error is printed, and ends the process with
	// status 1.
	Run func(ctx context.Context, args []string, stdout, stderr io.Writer) error
}

// LogField is a field of the access log.
type LogField struct {
	// Name stands before the value.
	Name string
	// State is the filter state that is the value, as an Envoy's log names it: "wasm." and what the filter called it.
	State string
	// Optional leaves the field out where the filter has not set the state. Else it is "-" there.
	Optional bool
}

// Matcher reads something out of a request's body for the rules of a faults file.
type Matcher struct {
	// Name is the member's name in match, About says what it is.
	Name, About string
	// Read is "" where the body has none.
	Read func(body []byte) string
}

// errUsage marks mistakes of the command line, which end with status 2.
var errUsage = errors.New("usage")

// Main runs the command on the process's arguments until it ends or is interrupted, and ends the process.
func (c *Command) Main() {
	ctx, stop := context.WithCancel(context.Background())
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	go func() {
		<-signals
		// A second signal ends the process at once, as if it had not been caught. This comes first: whoever is told that the command stops
		// may send it at once.
		signal.Stop(signals)
		stop()
	}()
	os.Exit(c.Run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

// Run runs the command until it ends or ctx does, and returns the process's status: 0 when all is well, 1 for a mistake, 2 for one of the
// command line, 3 where a strict check found warnings only.
func (c *Command) Run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	if len(args) == 0 {
		fmt.Fprint(stderr, c.usage())
		return 2
	}
	var err error
	switch name := args[0]; {
	case name == "serve":
		err = c.serve(ctx, args[1:], stdout, stderr)
	case name == "check":
		err = c.check(ctx, args[1:], stdout, stderr)
	case name == "version" && c.Version != nil:
		fmt.Fprintln(stdout, c.Name, c.Version())
	case name == "help", name == "-h", name == "--help":
		fmt.Fprint(stdout, c.usage())
	default:
		if i := slices.IndexFunc(c.Commands, func(s Subcommand) bool { return s.Name == name }); i >= 0 {
			err = c.Commands[i].Run(ctx, args[1:], stdout, stderr)
			break
		}
		there := []string{"serve", "check"}
		if c.Version != nil {
			there = append(there, "version")
		}
		for _, s := range c.Commands {
			there = append(there, s.Name)
		}
		last := len(there) - 1
		err = fmt.Errorf("%w: unknown command %q; there are %s and %s", errUsage, name, strings.Join(there[:last], ", "), there[last])
	}
	switch {
	case err == nil, errors.Is(err, flag.ErrHelp):
		return 0
	case errors.Is(err, errUsage):
		fmt.Fprintf(stderr, "%s: %v\n", c.Name, err)
		return 2
	case errors.Is(err, errWarned):
		fmt.Fprintf(stderr, "%s: %v\n", c.Name, err)
		return 3
	}
	fmt.Fprintf(stderr, "%s: %v\n", c.Name, err)
	return 1
}

func (c *Command) usage() string {
	about := cmp.Or(c.About, c.Name+" runs a proxy-wasm filter without Envoy.")
	text := about + "\n\n  " + c.serveSynopsis() + `
      serve HTTP/1.1 and unencrypted HTTP/2, pass every request through the filter to the upstream, log one line each
  ` + c.checkSynopsis() + `
      say whether the filter would start with this configuration, and if not, why
`
	if c.Version != nil {
		text += "  " + c.Name + " version\n      say which build this is\n"
	}
	for _, s := range c.Commands {
		text += "  " + s.Synopsis + "\n      " + s.About + "\n"
	}
	return text + fmt.Sprintf("\n\"%[1]s serve --help\" and \"%[1]s check --help\" list all flags.\n", c.Name)
}

func (c *Command) serveSynopsis() string {
	plugin := "--plugin FILE.wasm "
	if c.Plugin != nil {
		plugin = ""
	}
	return c.Name + " serve " + plugin + "--config FILE --listen HOST:PORT --upstream URL [more]"
}

func (c *Command) checkSynopsis() string {
	if c.Check == nil {
		return c.Name + " check --plugin FILE.wasm --config FILE"
	}
	return c.Name + " check --config FILE [--strict | --plugin FILE.wasm]"
}
