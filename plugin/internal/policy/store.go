package policy

import (
	"strconv"
	"strings"
	"time"

	"github.com/callonce/callonce/canonical"
)

// StoreKind is where keys are kept.
type StoreKind uint8

const (
	// SharedData is the memory that the workers of one proxy share.
	SharedData StoreKind = iota
	// Etcd is a cluster of etcd, which many proxies share.
	Etcd
)

// Store says where keys are kept. All but Kind is for [Etcd].
type Store struct {
	Kind    StoreKind
	Cluster string        // as the proxy's configuration names it
	Prefix  string        // of all keys; it begins and ends with a slash
	Timeout time.Duration // of a claim, which its caller waits for
}

// MostEtcdReply bounds limits.reply_bytes where keys are kept in etcd, which takes no request above 1.5 MiB.
const MostEtcdReply = 1 << 20

const (
	expectCluster = "the name of a cluster, 1 to 256 characters"
	expectPrefix  = `2 to 256 letters, digits, - _ . and / that begin and end with /, such as "/callonce/"`
)

// store reads the member of that name; which other members it may have, its kind says.
func (r *reader) store(n canonical.Node, at string, s *Store) {
	if !r.isObject(n, at) {
		return
	}
	kind := r.doc.Member(n, "kind")
	if kind == canonical.NoNode {
		r.mistake(at+"/kind", "nothing", `"shared_data", "etcd"`)
		return
	}
	i, ok := r.choice(kind, at+"/kind", "shared_data", "etcd")
	if !ok {
		return
	}
	table := []member{{"kind", func(canonical.Node, string) {}}}
	if s.Kind = StoreKind(i); s.Kind == Etcd {
		*s = Store{Kind: Etcd, Prefix: "/callonce/", Timeout: 250 * time.Millisecond}
		table = append(table,
			member{"cluster", func(n canonical.Node, at string) { r.text(n, at, expectCluster, 1, 256, &s.Cluster) }},
			member{"prefix", func(n canonical.Node, at string) {
				if r.text(n, at, expectPrefix, 2, 256, &s.Prefix) && !isPrefix(s.Prefix) {
					r.wrong(n, at, expectPrefix)
				}
			}},
			member{"timeout", func(n canonical.Node, at string) {
				r.duration(n, at, 10*time.Millisecond, 10*time.Second, &s.Timeout)
			}})
	}
	r.members(n, at, table)
	if s.Kind == Etcd && r.doc.Member(n, "cluster") == canonical.NoNode {
		r.mistake(at+"/cluster", "nothing", expectCluster)
	}
}

func isPrefix(s string) bool {
	return strings.HasPrefix(s, "/") && strings.HasSuffix(s, "/") && plain(strings.ReplaceAll(s, "/", ""))
}

// checkStore tells what does not fit between the store and the policies.
func (r *reader) checkStore(c *Config) {
	for _, p := range c.Policies {
		at := child("/policies", p.Name) + "/limits/reply_bytes"
		if c.Store.Kind == Etcd && p.Limits.ReplyBytes > MostEtcdReply && !r.told(at) {
			r.mistake(at, strconv.Itoa(p.Limits.ReplyBytes), "at most "+strconv.Itoa(MostEtcdReply)+" where keys are kept in etcd")
		}
	}
}
