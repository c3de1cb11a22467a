// Package envoytest starts a real Envoy with the project's own configuration
// (envoy/envoy.yaml) and shows what it did: answers, metrics, access log, CPU time.
//
// It knows nothing of what the filter decides. It needs an Envoy (see
// [tools.Envoy]) and a compiled filter; ports are free ones, so that any number may
// run side by side.
package envoytest

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/callonce/callonce/e2e/child"
	"github.com/callonce/callonce/e2e/tools"
)

// startTimeout bounds the start: compiling the filter takes about a second for each
// VM on an idle machine.
const startTimeout = 2 * time.Minute

// ErrRefused is in the error of [Start] when Envoy ended by itself: it did not take
// the configuration.
var ErrRefused = errors.New("envoy refused its configuration")

// Envoy is a running Envoy.
type Envoy struct {
	process *child.Process
	opts    Options
	dir     string // holds its files; removed by Close
	admin   string // URL
	scheme  string // of the listener
	url     string
}

// Start runs Envoy and returns when it serves. An error holds Envoy's log.
func Start(opts Options) (*Envoy, error) {
	binary, err := tools.Envoy()
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "callonce-envoy-")
	if err != nil {
		return nil, err
	}
	e := &Envoy{opts: opts, dir: dir}
	if err := e.start(binary, opts); err != nil {
		e.Close()
		return nil, err
	}
	return e, nil
}

func (e *Envoy) start(binary string, opts Options) error {
	tree, err := configuration(opts, e.file("access.log"))
	if err != nil {
		return err
	}
	e.scheme = tree.scheme()
	drain := time.Second
	if opts.Changes {
		drain = cmp.Or(opts.Drain, time.Minute)
		if err := e.moveListeners(tree); err != nil {
			return err
		}
	}
	if err := writeJSON(e.file("envoy.json"), tree.top); err != nil {
		return err
	}
	cmd := exec.Command(binary,
		"--config-path", e.file("envoy.json"),
		"--concurrency", strconv.Itoa(max(1, opts.Workers)),
		"--use-dynamic-base-id",
		"--admin-address-path", e.file("admin"),
		"--file-flush-interval-msec", "20",
		"--drain-time-s", strconv.Itoa(int(drain.Seconds())), "--parent-shutdown-time-s", "120")
	cmd.Dir = opts.Dir
	if e.process, err = child.Start("envoy", cmd, nil); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	if err := e.process.Await(ctx, e.ready); err != nil {
		select {
		case <-e.process.Done():
			return fmt.Errorf("%w: %w", ErrRefused, err)
		default:
			return err
		}
	}
	e.url, err = e.listenerURL()
	return err
}

func (e *Envoy) file(name string) string { return filepath.Join(e.dir, name) }

func (e *Envoy) ready() error {
	addr, err := os.ReadFile(e.file("admin"))
	if err != nil {
		return err
	}
	e.admin = "http://" + string(addr)
	_, err = e.Admin("GET", "/ready")
	return err
}

func (e *Envoy) listenerURL() (string, error) {
	text, err := e.Admin("GET", "/listeners?format=json")
	if err != nil {
		return "", err
	}
	type status struct {
		Address struct {
			Socket struct {
				Address string `json:"address"`
				Port    int    `json:"port_value"`
			} `json:"socket_address"`
		} `json:"local_address"`
	}
	var listeners struct {
		Statuses []status `json:"listener_statuses"`
	}
	if err := json.Unmarshal([]byte(text), &listeners); err != nil {
		return "", fmt.Errorf("envoy's list of listeners: %w", err)
	}
	// An internal listener has no port.
	all := slices.DeleteFunc(listeners.Statuses, func(s status) bool { return s.Address.Socket.Port == 0 })
	if len(all) != 1 {
		return "", fmt.Errorf("envoy's list of listeners: want 1 with a port, got %d: %s", len(all), text)
	}
	socket := all[0].Address.Socket
	return fmt.Sprintf("%s://%s:%d", e.scheme, socket.Address, socket.Port), nil
}

// Admin asks Envoy's admin interface and returns the answer's body; an error when
// the status is not 200.
func (e *Envoy) Admin(method, path string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, e.admin+path, nil)
	if err != nil {
		return "", err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s %s: want 200, got %d: %s", method, path, resp.StatusCode, body)
	}
	return string(body), err
}

// URL is where clients reach it: "http://host:port" without a slash at its end, https
// where the listener has a transport socket.
func (e *Envoy) URL() string { return e.url }

// PID is Envoy's process id.
func (e *Envoy) PID() int { return e.process.PID() }

// CPU returns the CPU time, user and system together, that all threads of Envoy have
// used since its start.
func (e *Envoy) CPU() (time.Duration, error) { return child.CPU(e.PID()) }

// Logs is what Envoy logged so far, the filter's lines among it.
func (e *Envoy) Logs() string { return e.process.Output() }

// Close stops Envoy and removes its files. It may be called again.
func (e *Envoy) Close() {
	if e.process != nil {
		e.process.Stop()
	}
	// Nothing depends on it: the folder is a temporary one.
	_ = os.RemoveAll(e.dir)
}

// AccessLog returns the access log's records, oldest first: for each request what
// log_format in envoy.yaml names (status, details, outcome, key_hash, …), with ""
// for what does not apply. It waits, up to 5 s, until every request that was begun
// has its record; requests that still run then have none.
func (e *Envoy) AccessLog() ([]map[string]string, error) {
	for deadline := time.Now().Add(5 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		begun, err := e.Counter("envoy_http_downstream_rq_total", map[string]string{"envoy_http_conn_manager_prefix": "mcp"})
		if err != nil {
			return nil, err
		}
		records, err := readAccessLog(e.file("access.log"))
		if err != nil {
			return nil, err
		}
		if int64(len(records)) >= begun || time.Now().After(deadline) {
			return records, nil
		}
	}
}

func readAccessLog(file string) ([]map[string]string, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	var records []map[string]string
	for line := range strings.Lines(string(text)) {
		if !strings.HasSuffix(line, "\n") {
			break // still being written
		}
		var raw map[string]any
		if err := json.Unmarshal([]byte(line), &raw); err != nil {
			return nil, fmt.Errorf("access log: want a JSON object a line, got %q: %w", line, err)
		}
		records = append(records, textual(raw))
	}
	return records, nil
}

func textual(raw map[string]any) map[string]string {
	record := make(map[string]string, len(raw))
	for name, value := range raw {
		switch value := value.(type) {
		case nil:
			record[name] = ""
		case string:
			record[name] = value
		case float64:
			record[name] = strconv.FormatFloat(value, 'f', -1, 64)
		default:
			record[name] = fmt.Sprint(value)
		}
	}
	return record
}

// Version is the running Envoy's version, "1.40.0" for instance.
func (e *Envoy) Version() (string, error) {
	text, err := e.Admin("GET", "/server_info")
	if err != nil {
		return "", err
	}
	var info struct{ Version string }
	if err := json.Unmarshal([]byte(text), &info); err != nil {
		return "", fmt.Errorf("envoy's server_info: %w", err)
	}
	// A hash, the version, and how it was built, between slashes.
	parts := strings.Split(info.Version, "/")
	if len(parts) < 2 {
		return "", fmt.Errorf("envoy's server_info: want hash/version/…, got %q", info.Version)
	}
	return parts[1], nil
}
