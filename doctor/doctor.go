// Package doctor tells operators whether the filter stands in front of a server: it sends
// calls that run nothing, and says what their answers show.
//
// A probe calls a tool that no server has, so that it runs nothing where nobody guards
// either. What the filter's own refusals do not show (whether headers are buffered, which
// module is loaded), it reads from Envoy's admin interface, where that is given. It knows
// nothing of how the filter decides.
package doctor

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// ErrFindings ends a run that found something that an operator must mend.
var ErrFindings = errors.New("doctor: something must be mended")

// headers is a flag that may be given several times.
type headers []string

func (h *headers) String() string     { return strings.Join(*h, ", ") }
func (h *headers) Set(s string) error { *h = append(*h, s); return nil }

// Run is the command: doctor --url http://HOST/mcp. It returns [ErrFindings] where no
// guard stands, or one that can be led around.
func Run(args []string, stdout, stderr io.Writer) error {
	fs := flag.NewFlagSet("doctor", flag.ContinueOnError)
	fs.SetOutput(stderr)
	target := fs.String("url", "", "`URL` at which clients call tools, through the proxy")
	admin := fs.String("admin", "", "`URL` of Envoy's admin interface, such as http://127.0.0.1:15000: shows what no answer does")
	timeout := fs.Duration("timeout", 10*time.Second, "for each probe")
	var extra headers
	fs.Var(&extra, "header", "`NAME: VALUE` to send with each probe, such as a caller's token; may be repeated")
	if err := fs.Parse(args); err != nil {
		return err
	}
	u, err := url.Parse(*target)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return fmt.Errorf("doctor: --url: want http://HOST/PATH, got %q", *target)
	}
	d := &doctor{out: stdout, url: u, header: http.Header{}, client: &http.Client{
		Timeout:       *timeout,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
	for _, h := range extra {
		name, value, ok := strings.Cut(h, ":")
		if !ok {
			return fmt.Errorf("doctor: --header: want NAME: VALUE, got %q", h)
		}
		d.header.Add(strings.TrimSpace(name), strings.TrimSpace(value))
	}
	if err := d.guard(); err != nil {
		return err
	}
	if d.guarded {
		d.identity()
		d.spellings()
	}
	if *admin != "" {
		if err := d.admin(*admin); err != nil {
			return err
		}
	} else {
		d.say(info, "headers, version, policy", "cannot be seen from here: give --admin")
	}
	if d.bad {
		return ErrFindings
	}
	return nil
}

type doctor struct {
	out     io.Writer
	url     *url.URL
	header  http.Header
	client  *http.Client
	guarded bool
	bad     bool
}

// What a line of the report says.
const (
	good = "ok  "
	info = "    "
	bad  = "BAD "
)

func (d *doctor) say(mark, what, is string) {
	d.bad = d.bad || mark == bad
	fmt.Fprintf(d.out, "%s %s: %s\n", mark, what, is)
}
