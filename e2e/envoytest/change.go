package envoytest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
)

// Envoy watches a file of listeners, if told to, and takes up what is moved there. A
// listener of which only the filters changed keeps its port and its open streams.

// listenersFile is the name of that file.
const listenersFile = "listeners.json"

// moveListeners takes the listeners out of a configuration and into the file.
func (e *Envoy) moveListeners(t *Tree) error {
	if err := e.writeListeners(t); err != nil {
		return err
	}
	delete(t.Object("static_resources"), "listeners")
	t.top["node"] = map[string]any{"id": "e2e", "cluster": "e2e"}
	t.top["dynamic_resources"] = map[string]any{"lds_config": map[string]any{
		"resource_api_version": "V3",
		"path_config_source":   map[string]any{"path": e.file(listenersFile)},
	}}
	return t.err
}

func (e *Envoy) writeListeners(t *Tree) error {
	listeners, _ := t.At("static_resources", "listeners").([]any)
	for _, l := range listeners {
		if m, ok := l.(map[string]any); ok {
			m["@type"] = "type.googleapis.com/envoy.config.listener.v3.Listener"
		}
	}
	if err := writeJSON(e.file("next.json"), map[string]any{"resources": listeners}); err != nil {
		return err
	}
	return os.Rename(e.file("next.json"), e.file(listenersFile))
}

// Change puts another filter, or another configuration of it, in place of the one that
// serves, and returns when Envoy has taken it. Only where Options.Changes is set. The
// error is [ErrRefused] where Envoy did not take it; the old one then goes on.
func (e *Envoy) Change(plugin, config string) error {
	opts := e.opts
	opts.Plugin, opts.Config = plugin, config
	tree, err := configuration(opts, e.file("access.log"))
	if err != nil {
		return err
	}
	before, err := e.updates()
	if err != nil {
		return err
	}
	if err := e.writeListeners(tree); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	err = e.process.Await(ctx, func() error {
		now, err := e.updates()
		switch {
		case err != nil:
			return err
		case now.rejected > before.rejected:
			return nil
		case now.taken == before.taken || now.warming > 0:
			return errors.New("the change has not been taken yet")
		}
		return nil
	})
	if err != nil {
		return err
	}
	if now, err := e.updates(); err != nil || now.rejected > before.rejected {
		return fmt.Errorf("%w (%v); it logged:\n%s", ErrRefused, err, e.Logs())
	}
	e.opts = opts
	return nil
}

// updates is what Envoy counts of its changes.
type updates struct{ taken, rejected, warming int }

func (e *Envoy) updates() (u updates, err error) {
	text, err := e.Admin("GET", "/stats?filter=listener_manager")
	if err != nil {
		return u, err
	}
	for line := range strings.Lines(text) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ": ")
		n, err := strconv.Atoi(value)
		if err != nil {
			continue
		}
		switch name {
		case "listener_manager.listener_in_place_updated", "listener_manager.listener_modified":
			u.taken += n
		case "listener_manager.lds.update_rejected":
			u.rejected = n
		case "listener_manager.total_listeners_warming":
			u.warming = n
		}
	}
	return u, nil
}

func writeJSON(file string, v any) error {
	text, err := json.MarshalIndent(v, "", " ")
	if err != nil {
		return err
	}
	return os.WriteFile(file, text, 0o600)
}

// RSS is the memory of Envoy's process that is in use, in bytes. Linux only.
func (e *Envoy) RSS() (int64, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", e.PID()))
	if err != nil {
		return 0, err
	}
	fields := strings.Fields(string(text))
	if len(fields) < 2 {
		return 0, fmt.Errorf("statm: want at least two numbers, got %q", text)
	}
	pages, err := strconv.ParseInt(fields[1], 10, 64)
	return pages * int64(os.Getpagesize()), err
}
