package e2e_test

import (
	"context"
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/callonce/callonce/e2e/child"
	"github.com/callonce/callonce/e2e/envoytest"
)

// startMembers runs a cluster of etcd, each member a process of its own.
func startMembers(t testing.TB, n int) []*member {
	t.Helper()
	var peers []string
	for i := range n {
		addr, err := child.FreeAddr()
		if err != nil {
			t.Fatal(err)
		}
		peers = append(peers, fmt.Sprintf("m%d=http://%s", i, addr))
	}
	all := make([]*member, n)
	var starting sync.WaitGroup
	for i, p := range peers {
		name, peer, _ := strings.Cut(p, "=")
		addr, err := child.FreeAddr()
		if err != nil {
			t.Fatal(err)
		}
		all[i] = &member{t: t, addr: addr, args: []string{"-name", name, "-data-dir", t.TempDir(), "-listen-client-urls", "http://" + addr,
			"-listen-peer-urls", peer, "-initial-cluster", strings.Join(peers, ",")}}
		must(t, buildEtcd)
		starting.Go(all[i].start)
		t.Cleanup(func() {
			if all[i].process != nil {
				all[i].process.Stop()
			}
		})
	}
	starting.Wait()
	return all
}

// leader finds the member that leads, nil for none yet.
func leader(t *testing.T, all []*member) *member {
	for _, m := range all {
		c, err := clientv3.New(clientv3.Config{Endpoints: []string{m.addr}, Logger: zap.NewNop(), DialTimeout: time.Second})
		if err != nil {
			continue
		}
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		status, err := c.Status(ctx, m.addr)
		cancel()
		c.Close()
		if err == nil && status.Leader != 0 && status.Leader == status.Header.MemberId {
			return m
		}
	}
	return nil
}

// over is the cluster as docs/etcd.md has it for several members: one that is gone is not asked.
func over(all []*member) func(*envoytest.Options) {
	return func(o *envoytest.Options) {
		o.Edit = func(e *envoytest.Tree) {
			addEtcd(e, "etcd", "http://"+all[0].addr)
			c := e.Object(envoytest.Clusters.To(0)...)
			var endpoints []any
			for _, m := range all {
				u, _ := url.Parse("http://" + m.addr)
				port, _ := strconv.Atoi(u.Port())
				endpoints = append(endpoints, map[string]any{"endpoint": map[string]any{"address": map[string]any{
					"socket_address": map[string]any{"address": u.Hostname(), "port_value": port}}}})
			}
			c["load_assignment"] = map[string]any{"cluster_name": "etcd", "endpoints": []any{map[string]any{"lb_endpoints": endpoints}}}
			c["health_checks"] = []any{map[string]any{"timeout": "1s", "interval": "1s", "unhealthy_threshold": 1, "healthy_threshold": 1,
				"grpc_health_check": map[string]any{}}}
		}
	}
}
