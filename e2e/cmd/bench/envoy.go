package main

import (
	"github.com/callonce/callonce/e2e/envoytest"
)

// Two policies in configRequests: with keys in headers only, a call without one passes unread;
// with the default key sources, it must be read to see that no key stands in it. The ttl
// is the shortest that goes with the default lease, so that the table does not fill
// up with the calls of the measurement; the limits leave room for those of the last
// half minute, however fast the machine is.
const (
	configRequests = `{"policies":{` + benchPolicy + `,"pass":{"server":"pass","anonymous":true,"keys":["header:Idempotency-Key"]}},
		"routes":{"pass":"pass"},"default":"bench"}`
	configDefault = `{"policies":{` + benchPolicy + `},"default":"bench"}`

	benchPolicy = `"bench":{"server":"bench","anonymous":true,"ttl":"15s",` + room + `}`

	room = `"limits":{"entries":65536,"entries_per_principal":65536,"entries_per_scope":65536}`
)

// startEnvoys starts an Envoy for each of the options, with so many workers, in front
// of one server. stop ends them.
func startEnvoys(upstream string, workers int, options ...envoytest.Options) (envoys []*envoytest.Envoy, stop func(), err error) {
	stop = func() {
		for _, e := range envoys {
			e.Close()
		}
	}
	for _, opts := range options {
		edit := opts.Edit
		opts.Upstream, opts.Workers, opts.Edit = upstream, workers, func(t *envoytest.Tree) {
			balance(t)
			if edit != nil {
				edit(t)
			}
		}
		envoy, err := envoytest.Start(opts)
		if err != nil {
			stop()
			return nil, nil, err
		}
		envoys = append(envoys, envoy)
	}
	return envoys, stop, nil
}

// balance gives each worker the same number of connections. The kernel, which shares
// them out otherwise, may well give all of a few to one worker.
func balance(t *envoytest.Tree) {
	t.Object("static_resources", "listeners", 0)["connection_balance_config"] = map[string]any{"exact_balance": map[string]any{}}
}
