package main

import (
	"bufio"
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"
	"text/tabwriter"
	"time"
)

// keys is the comfortable way to the operators' interface (docs/operators.md).
type keys struct {
	stdout io.Writer
	stdin  io.Reader
	client *http.Client
	base   *url.URL // the interface: http://HOST/callonce/keys
	header http.Header
	json   bool
}

// key is one as the interface shows it. raw is what it was read from.
type key struct {
	Path, Operation, State, Tool, Scope, Cause, Resolved string
	Status, Attempt                                      int
	Age                                                  int64 `json:"age_ms"`
	Settled                                              int64 `json:"settled_ms_ago"`
	Expires                                              int64 `json:"expires_in_ms"`

	raw json.RawMessage
}

func (k *key) UnmarshalJSON(b []byte) error {
	type plain key
	if err := json.Unmarshal(b, (*plain)(k)); err != nil {
		return err
	}
	k.raw = append(json.RawMessage(nil), b...)
	return nil
}

const keysSynopsis = `callonce keys list|show OPERATION|resolve OPERATION --to WHAT --reason TEXT --url http://HOST/callonce/keys`

// runKeys runs "callonce keys". Without --yes what it asks is answered on stdin.
func runKeys(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) error {
	name := ""
	if len(args) > 0 && !strings.HasPrefix(args[0], "-") {
		name, args = args[0], args[1:]
	}
	operation := ""
	if (name == "show" || name == "resolve") && len(args) > 0 && !strings.HasPrefix(args[0], "-") {
		operation, args = args[0], args[1:]
	}
	f := flag.NewFlagSet("callonce keys "+name, flag.ContinueOnError)
	f.SetOutput(stderr)
	f.Usage = func() {
		fmt.Fprintf(stderr, "%s\n\nlist keys of a policy, show one, or say how a call ended whose outcome nobody knows\n\n", keysSynopsis)
		f.PrintDefaults()
	}
	at := f.String("url", "", "the operators' path of the policy, as its member operators.path names it: http://HOST/callonce/keys")
	cert, certKey, ca := f.String("cert", "", "client certificate, a PEM file"), f.String("key", "", "its key, a PEM file"), f.String("ca", "", "authorities of the server's certificate, a PEM file")
	token := f.String("token-file", "", "file with a token, sent as Authorization: Bearer")
	asJSON := f.Bool("json", false, "print what the interface answers, a key a line")
	header := http.Header{}
	f.Func("header", "'NAME: VALUE' to send along; may be given more than once", func(s string) error {
		k, v, ok := strings.Cut(s, ":")
		if !ok {
			return errors.New("want NAME: VALUE")
		}
		header.Add(strings.TrimSpace(k), strings.TrimSpace(v))
		return nil
	})
	var state, tool, scope, to, reason string
	var age time.Duration
	var most int
	var yes bool
	switch name {
	case "list":
		f.StringVar(&state, "state", "", "in_flight, completed, outcome_unknown, not_replayable; several with commas between")
		f.StringVar(&tool, "tool", "", "the match of a tool entry of the policy")
		f.StringVar(&scope, "scope", "", "those of one caller, by the scope of a key")
		f.DurationVar(&age, "min-age", 0, "claimed at least so long ago, such as 5m")
		f.IntVar(&most, "most", 1000, "stop after so many keys; 0 = never")
	case "show":
	case "resolve":
		f.StringVar(&to, "to", "", "completed_elsewhere, released or refused")
		f.StringVar(&reason, "reason", "", "why, for the log")
		f.BoolVar(&yes, "yes", false, "do not ask")
	case "":
		f.Usage()
		if len(args) > 0 && (args[0] == "--help" || args[0] == "-h") {
			return nil
		}
		return errors.New("keys: want list, show or resolve")
	default:
		return fmt.Errorf("keys: unknown command %q; there are list, show and resolve", name)
	}
	if err := f.Parse(args); err != nil {
		return err
	}
	switch {
	case f.NArg() > 0:
		return fmt.Errorf("keys %s: unexpected %q: flags come after the operation", name, f.Arg(0))
	case *at == "":
		return errors.New("keys: want --url http://HOST/callonce/keys, the policy's operators.path")
	case name != "list" && operation == "":
		return fmt.Errorf("keys %s: want an operation, 16 hex digits: callonce keys list shows them", name)
	case name == "resolve" && (to == "" || reason == ""):
		return errors.New("keys resolve: want --to completed_elsewhere, released or refused, and --reason")
	}
	base, err := url.Parse(strings.TrimSuffix(*at, "/"))
	if err != nil || base.Host == "" {
		return fmt.Errorf("--url: want http://HOST/PATH, got %q", *at)
	}
	k := &keys{stdout: stdout, stdin: stdin, base: base, header: header, json: *asJSON}
	if k.client, err = clientOf(*cert, *certKey, *ca); err != nil {
		return err
	}
	if *token != "" {
		text, err := os.ReadFile(*token)
		if err != nil {
			return err
		}
		header.Set("Authorization", "Bearer "+strings.TrimSpace(string(text)))
	}
	switch name {
	case "list":
		q := url.Values{"limit": {"500"}}
		for n, v := range map[string]string{"state": state, "tool": tool, "scope": scope} {
			if v != "" {
				q.Set(n, v)
			}
		}
		if age > 0 {
			q.Set("min_age", age.String())
		}
		return k.list(ctx, q, most)
	case "show":
		found, err := k.find(ctx, operation)
		if err == nil {
			k.print([]key{found})
		}
		return err
	}
	return k.resolve(ctx, operation, to, reason, yes)
}

func clientOf(cert, certKey, ca string) (*http.Client, error) {
	config := &tls.Config{}
	if cert != "" || certKey != "" {
		pair, err := tls.LoadX509KeyPair(cert, certKey)
		if err != nil {
			return nil, fmt.Errorf("--cert, --key: %w", err)
		}
		config.Certificates = []tls.Certificate{pair}
	}
	if ca != "" {
		text, err := os.ReadFile(ca)
		if err != nil {
			return nil, fmt.Errorf("--ca: %w", err)
		}
		if config.RootCAs = x509.NewCertPool(); !config.RootCAs.AppendCertsFromPEM(text) {
			return nil, fmt.Errorf("--ca: no certificate in %s", ca)
		}
	}
	return &http.Client{Timeout: time.Minute, Transport: &http.Transport{TLSClientConfig: config, Proxy: http.ProxyFromEnvironment},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}, nil
}

// answer is what the interface answers, whatever was asked.
type answer struct {
	Keys       []key
	Next       string
	Unreadable int
	Error      string
	Page       *answer
	Was, Is    *key
	Resolved   string
	status     int
	raw        []byte
}

func (k *keys) ask(ctx context.Context, method, path string, q url.Values) (a answer, err error) {
	u := *k.base
	path, own, _ := strings.Cut(path, "?")
	if path != "" {
		u.Path = path
	}
	query := u.Query()
	if more, err := url.ParseQuery(own); err == nil {
		for n, v := range more {
			query[n] = v
		}
	}
	for n, v := range q {
		query[n] = v
	}
	u.RawQuery = query.Encode()
	r, err := http.NewRequestWithContext(ctx, method, u.String(), nil)
	if err != nil {
		return a, err
	}
	r.Header = k.header.Clone()
	r.Header.Set("Content-Type", "application/json")
	resp, err := k.client.Do(r)
	if err != nil {
		return a, err
	}
	defer resp.Body.Close()
	if a.raw, err = io.ReadAll(io.LimitReader(resp.Body, 16<<20)); err != nil {
		return a, err
	}
	a.status = resp.StatusCode
	if json.Unmarshal(a.raw, &a) != nil || !strings.HasPrefix(resp.Header.Get("Content-Type"), "application/json") {
		return a, fmt.Errorf("%s %s answers %s, and not as the operators' interface does: does the policy of this route have operators, with this path?", method, u.Redacted(), resp.Status)
	}
	if a.status != 200 && a.Page == nil && a.Is == nil {
		return a, fmt.Errorf("%s: %s", resp.Status, cmp.Or(a.Error, "no reason given"))
	}
	return a, nil
}

// list prints the keys of all pages.
func (k *keys) list(ctx context.Context, q url.Values, most int) error {
	var all []key
	unreadable := 0
	for {
		a, err := k.ask(ctx, "GET", "", q)
		if err != nil {
			return err
		}
		all, unreadable = append(all, a.Keys...), unreadable+a.Unreadable
		if q.Set("at", a.Next); a.Next == "" || most > 0 && len(all) >= most {
			if most > 0 && len(all) > most {
				all, a.Next = all[:most], "more"
			}
			k.print(all)
			if !k.json {
				k.sum(len(all), unreadable, a.Next != "")
			}
			return nil
		}
	}
}

func (k *keys) sum(n, unreadable int, more bool) {
	text := fmt.Sprintf("%d keys", n)
	if n == 1 {
		text = "1 key"
	}
	if more {
		text += ", and perhaps more: see --most"
	}
	if unreadable > 0 {
		text += fmt.Sprintf("; %d that this build cannot read", unreadable)
	}
	fmt.Fprintln(k.stdout, text)
}

// find looks one key up, page by page where its place is not known.
func (k *keys) find(ctx context.Context, operation string) (found key, err error) {
	q := url.Values{}
	for {
		a, err := k.ask(ctx, "GET", k.base.Path+"/"+operation, q)
		switch {
		case err != nil:
			return found, err
		case a.Page != nil && a.Page.Next != "":
			q.Set("at", a.Page.Next)
			continue
		case a.status != 200:
			return found, errors.New(a.Error)
		}
		return found, json.Unmarshal(a.raw, &found)
	}
}

// whatFollows says what each act means to the next repeat.
var whatFollows = map[string]string{
	"released":            "the next repeat of this call RUNS the tool",
	"completed_elsewhere": "repeats get a result that says that the call was completed",
	"refused":             "repeats stay refused for another ttl, and nothing takes the key over",
}

func (k *keys) resolve(ctx context.Context, operation, to, reason string, yes bool) error {
	follows, known := whatFollows[to]
	if !known {
		return fmt.Errorf("keys resolve: --to: want completed_elsewhere, released or refused, got %q", to)
	}
	found, err := k.find(ctx, operation)
	if err != nil {
		return err
	}
	if !yes {
		k.table([]key{found})
		fmt.Fprintf(k.stdout, "%s will be %s: %s.\nSay yes to go on: ", found.Operation, to, follows)
		line, _ := bufio.NewReader(k.stdin).ReadString('\n')
		if strings.TrimSpace(line) != "yes" {
			return errors.New("nothing was done")
		}
	}
	a, err := k.ask(ctx, "POST", found.Path, url.Values{"to": {to}, "reason": {reason}})
	switch {
	case err != nil:
		return err
	case a.Is != nil:
		return fmt.Errorf("%s (it is %s now)", a.Error, a.Is.State)
	case k.json:
		fmt.Fprintf(k.stdout, "%s\n", a.raw)
	default:
		fmt.Fprintf(k.stdout, "%s is %s: %s\n", found.Operation, to, follows)
	}
	return nil
}

func (k *keys) print(all []key) {
	if !k.json {
		k.table(all)
		return
	}
	for i := range all {
		fmt.Fprintf(k.stdout, "%s\n", all[i].raw)
	}
}

func (k *keys) table(all []key) {
	if len(all) == 0 {
		return
	}
	w := tabwriter.NewWriter(k.stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "OPERATION\tSTATE\tTOOL\tAGE\tENDS IN\tATTEMPT\tHOW\tSCOPE")
	for i := range all {
		x := &all[i]
		how := x.Cause
		if x.Status != 0 {
			how = strings.TrimSpace(fmt.Sprint(how, " ", x.Status))
		}
		if x.Resolved != "" {
			how = strings.TrimSpace(how + ", resolved: " + x.Resolved)
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%d\t%s\t%s\n", x.Operation, x.State, dash(x.Tool), roughly(x.Age), roughly(x.Expires), x.Attempt, dash(how), dash(x.Scope))
	}
	w.Flush()
}

func dash(s string) string { return cmp.Or(s, "-") }

// roughly is a time in milliseconds, as people read it.
func roughly(ms int64) string {
	d := time.Duration(ms) * time.Millisecond
	switch {
	case ms == 0:
		return "-"
	case d < time.Second:
		return d.String()
	case d < time.Minute:
		return d.Truncate(100 * time.Millisecond).String()
	}
	return d.Truncate(time.Second).String()
}
