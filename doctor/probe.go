package doctor

import (
	"crypto/rand"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"strings"
)

// tool is one that no server has.
const tool = "callonce_doctor_probe"

// answer is what came back for a probe.
type answer struct {
	status   int
	refusal  string // data.type of the filter's own refusals, "" where another one answered
	location string
	replayed bool
	said     string // the beginning of what another one answered
	failed   bool   // it is a JSON-RPC error, or a result that says isError
}

// failure finds, in JSON or in events, that a call failed.
var failure = regexp.MustCompile(`"error"\s*:\s*\{|"isError"\s*:\s*true`)

// call sends a call of the tool that no server has, with one key in all places where a
// policy may look for it by default.
func (d *doctor) call(u *url.URL, key string) (answer, error) {
	k, _ := json.Marshal(key)
	body := fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":%q,"idempotencyKey":%s,"_meta":{"callonce.dev/idempotency-key":%s},"arguments":{"idempotency_key":%s}}}`, tool, k, k, k)
	req, err := http.NewRequest(http.MethodPost, d.url.String(), strings.NewReader(body))
	if err != nil {
		return answer{}, err
	}
	req.URL = u
	req.GetBody = nil // Go's own transport repeats what carries a key
	req.Header = d.header.Clone()
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json, text/event-stream")
	req.Header.Set("Idempotency-Key", key)
	resp, err := d.client.Do(req)
	if err != nil {
		return answer{}, err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(io.LimitReader(resp.Body, 64<<10))
	if err != nil {
		return answer{}, err
	}
	a := answer{status: resp.StatusCode, location: resp.Header.Get("Location"), replayed: resp.Header.Get("Idempotency-Replayed") == "true"}
	a.refusal, a.failed = refusal(text), failure.Match(text)
	if len(text) > 120 {
		text = text[:120]
	}
	a.said = strings.ToValidUTF8(strings.Join(strings.Fields(string(text)), " "), "?")
	return a, nil
}

// refusal is the type of the filter's refusal, in each of the shapes that `reply` has.
func refusal(text []byte) string {
	type data struct{ Type string }
	var m struct {
		Error  struct{ Data data }
		Result struct {
			Meta map[string]json.RawMessage `json:"_meta"`
		}
	}
	if json.Unmarshal(text, &m) != nil {
		return ""
	}
	if m.Error.Data.Type != "" {
		return m.Error.Data.Type
	}
	var d data
	_ = json.Unmarshal(m.Result.Meta["callonce.dev/refusal"], &d)
	return d.Type
}

// tooLong is a key that every policy refuses, before anything else is looked at.
var tooLong = strings.Repeat("x", 256)

// guard finds out whether a guard stands here at all.
func (d *doctor) guard() error {
	a, err := d.call(d.url, tooLong)
	if err != nil {
		return fmt.Errorf("doctor: %s: %w", d.url.Redacted(), err)
	}
	switch {
	case a.refusal == "idempotency_key_invalid":
		d.guarded = true
		d.say(good, "guard", "stands here: a key that is too long was refused")
	case a.refusal != "":
		d.guarded = true
		d.say(bad, "guard", fmt.Sprintf("stands here, and refuses calls with %s (HTTP %d)", a.refusal, a.status))
	case a.status >= 300 && a.status < 400:
		d.say(bad, "guard", fmt.Sprintf("not asked: redirected to %s; give that address", a.location))
	case a.status == 401 || a.status == 403:
		d.say(bad, "guard", fmt.Sprintf("not asked: something ahead answered %d %q. Give a caller's token by --header; in Istio 403 also stands where the image cannot be pulled", a.status, a.said))
	default:
		d.say(bad, "guard", fmt.Sprintf("none: a key that is too long went through, and was answered %d %q. No filter, another route, a policy that is off or observes, or one that guards only named tools", a.status, a.said))
	}
	return nil
}

// identity finds out whether the caller is known, and whether a repeat is replayed.
func (d *doctor) identity() {
	key := "callonce-doctor-" + rand.Text()
	a, err := d.call(d.url, key)
	if err != nil {
		d.say(bad, "identity", "the probe with a new key failed: "+err.Error())
		return
	}
	switch a.refusal {
	case "":
	case "idempotency_requires_verified_identity":
		d.say(bad, "identity", "not found: the policy's principal yields nothing for this caller (a token by --header? the filter's log names the sources)")
		return
	default:
		d.say(bad, "identity", fmt.Sprintf("not seen: a new key was refused with %s (HTTP %d)", a.refusal, a.status))
		return
	}
	d.say(good, "identity", "found, or callers may be anonymous")
	again, err := d.call(d.url, key)
	switch {
	case err != nil:
		d.say(bad, "repeat", "failed: "+err.Error())
	case again.replayed:
		d.say(good, "repeat", "replayed: the server was asked once")
	case again.refusal != "":
		d.say(info, "repeat", fmt.Sprintf("not run again: %s (the server answered the first with %d)", again.refusal, a.status))
	case a.status >= 400 && a.status < 500:
		d.say(info, "repeat", fmt.Sprintf("asked again, as it should be: the server refused the first itself (%d %q), which frees the key", a.status, a.said))
	case a.failed:
		// No tool has the probe's name, so most servers answer with an error.
		d.say(info, "repeat", fmt.Sprintf("asked again: the server answered the first with an error (%q). Does the policy free keys of errors (preset derived, on_error, on_tool_error, released_errors)? Else there are two proxies with a table each", a.said))
	default:
		d.say(bad, "repeat", fmt.Sprintf("run again: answered %d %q without a replay; two proxies with a table each?", again.status, again.said))
	}
}

// spellings looks for other spellings of the path that lead around the guard.
func (d *doctor) spellings() {
	path := d.url.EscapedPath()
	if path == "" || path == "/" {
		return
	}
	first := fmt.Sprintf("/%%%02x%s", path[1], path[2:])
	around := 0
	for _, spelled := range []string{"/" + path, "/." + path, "/x/.." + path, "/x/%2e%2e" + path, "/x%2f.." + path, "/%2f" + path[1:], strings.ToUpper(path), first, path + ";a=b", path + "%3ba=b", path + "/",
		"/;" + path, "/x;/.." + path, "/%25" + first[2:]} {
		u := *d.url
		var err error
		if u.Path, err = url.PathUnescape(spelled); err != nil {
			continue
		}
		u.RawPath = spelled
		a, err := d.call(&u, tooLong)
		// What the server does not know it may know at another time; what it takes for a call it runs.
		if err != nil || a.refusal != "" || a.status == 404 || a.status >= 300 && a.status < 400 || a.status == 400 && a.said == "" {
			continue
		}
		around++
		d.say(bad, "path", fmt.Sprintf("%s leads around the guard: answered %d %q", spelled, a.status, a.said))
	}
	if around == 0 {
		d.say(good, "path", "no other spelling of "+path+" leads around the guard to something that answers")
	}
}
