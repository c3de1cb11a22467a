package e2e_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/callonce/callonce/e2e/envoytest"
	"github.com/callonce/callonce/e2e/payments"
)

// pki is an authority and what it has signed, as files: NAME.pem and NAME.key.
type pki struct {
	t    testing.TB
	dir  string
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

func newPKI(t testing.TB) *pki {
	p := &pki{t: t, dir: t.TempDir()}
	p.sign("ca", &x509.Certificate{IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign})
	return p
}

func (p *pki) file(name string) string { return filepath.Join(p.dir, name) }

func (p *pki) sign(name string, c *x509.Certificate) {
	p.t.Helper()
	check := func(err error) {
		if err != nil {
			p.t.Fatal(err)
		}
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	check(err)
	c.SerialNumber, err = rand.Int(rand.Reader, big.NewInt(1<<62))
	check(err)
	c.Subject = pkix.Name{CommonName: name}
	c.NotBefore, c.NotAfter = time.Now().Add(-time.Hour), time.Now().Add(time.Hour)
	if p.cert == nil {
		p.cert, p.key = c, key
	}
	der, err := x509.CreateCertificate(rand.Reader, c, p.cert, key.Public(), p.key)
	check(err)
	if c.IsCA {
		p.cert, err = x509.ParseCertificate(der)
		check(err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	check(err)
	check(os.WriteFile(p.file(name+".pem"), pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o600))
	check(os.WriteFile(p.file(name+".key"), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret}), 0o600))
}

func (p *pki) client(name string) {
	p.sign(name, &x509.Certificate{KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}})
}

// Etcd behind TLS, with client certificates, and a role that can do no more than it must; and a user who may less.
func TestEtcdRoles(t *testing.T) {
	server := startPayments(t, payments.Options{Stateless: true, JSON: true})
	p := newPKI(t)
	p.sign("etcd", &x509.Certificate{KeyUsage: x509.KeyUsageDigitalSignature, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}})
	for _, name := range []string{"root", "callonce", "stranger"} {
		p.client(name)
	}
	etcd := startMember(t, "-listen-client-urls", "https://127.0.0.1:0", "-cert-file", p.file("etcd.pem"), "-key-file", p.file("etcd.key"), "-trusted-ca-file", p.file("ca.pem"), "-client-cert-auth")
	etcd.addr = strings.TrimSpace(etcd.process.Output()[strings.Index(etcd.process.Output(), "ready on ")+len("ready on "):])
	setRoles(t, p, etcd.addr)
	as := func(user string) func(*envoytest.Options) {
		return func(o *envoytest.Options) {
			o.Workers = 1
			o.Edit = func(e *envoytest.Tree) {
				addEtcd(e, "etcd", "http://"+etcd.addr)
				e.Object(envoytest.Clusters.To(0)...)["transport_socket"] = map[string]any{
					"name": "tls", "typed_config": ext("transport_sockets.tls.v3.UpstreamTlsContext", map[string]any{"common_tls_context": map[string]any{
						"tls_certificates":   []any{map[string]any{"certificate_chain": map[string]any{"filename": p.file(user + ".pem")}, "private_key": map[string]any{"filename": p.file(user + ".key")}}},
						"validation_context": map[string]any{"trusted_ca": map[string]any{"filename": p.file("ca.pem")}},
					}})}
			}
		}
	}
	may := replica(t, server, etcd.addr, etcdConfig("", ""), as("callonce"))
	if got := pay(t, may, "k", 0); got != "first" {
		t.Errorf("with the role: got %s, want first", got)
	}
	if got := payUntil(t, may, "k", 0, settled); got != "replay" {
		t.Errorf("with the role: got %s, want a replay", got)
	}
	mayNot := replica(t, server, etcd.addr, etcdConfig("", ""), as("stranger"))
	awaitLog(t, mayNot, "it denies the request: the user of the client certificate needs a role with readwrite on the prefix")
	if got := payOnce(t, mayNot.URL(), "k", 0); got != unavailable {
		t.Errorf("without the role: got %s, want unavailable", got)
	}
	wrongPrefix := replica(t, server, etcd.addr, etcdConfig(`,"prefix":"/other/"`, ""), as("callonce"))
	awaitLog(t, wrongPrefix, "(cluster etcd, prefix /other/e2e/) cannot be used: it denies the request")
}

// setRoles does what docs/etcd.md does with etcdctl.
func setRoles(t *testing.T, p *pki, addr string) {
	t.Helper()
	pair, err := tls.LoadX509KeyPair(p.file("root.pem"), p.file("root.key"))
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AddCert(p.cert)
	c, err := clientv3.New(clientv3.Config{Endpoints: []string{"https://" + addr}, Logger: zap.NewNop(),
		TLS: &tls.Config{Certificates: []tls.Certificate{pair}, RootCAs: pool}})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	noPassword := &clientv3.UserAddOptions{NoPassword: true}
	steps := []func() error{
		func() error { _, err := c.RoleAdd(ctx, "callonce"); return err },
		func() error {
			_, err := c.RoleGrantPermission(ctx, "callonce", "/callonce/", clientv3.GetPrefixRangeEnd("/callonce/"), clientv3.PermissionType(clientv3.PermReadWrite))
			return err
		},
		func() error { _, err := c.UserAddWithOptions(ctx, "root", "", noPassword); return err },
		func() error { _, err := c.UserGrantRole(ctx, "root", "root"); return err },
		func() error { _, err := c.UserAddWithOptions(ctx, "callonce", "", noPassword); return err },
		func() error { _, err := c.UserGrantRole(ctx, "callonce", "callonce"); return err },
		func() error { _, err := c.UserAddWithOptions(ctx, "stranger", "", noPassword); return err },
		func() error { _, err := c.AuthEnable(ctx); return err },
	}
	for i, step := range steps {
		if err := step(); err != nil {
			t.Fatalf("step %d: %v", i, err)
		}
	}
}

// awaitLog waits until an Envoy's log says something.
func awaitLog(t *testing.T, e *envoytest.Envoy, text string) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); !strings.Contains(e.Logs(), text); time.Sleep(50 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("the log does not say %q:\n%s", text, e.Logs())
		}
	}
	if up, err := e.Counter("callonce_store_up", map[string]string{"namespace": "e2e"}); err != nil || up != 0 {
		t.Errorf("callonce_store_up is %d, %v, while the log says %q", up, err, text)
	}
}

// What is wrong with the cluster is said in words at the first tick, and calls get what on_store_error says.
func TestEtcdMistakes(t *testing.T) {
	server := startPayments(t, payments.Options{Stateless: true, JSON: true})
	etcd := startMember(t)
	for name, c := range map[string]struct {
		edit func(*envoytest.Tree)
		says string
	}{
		"no such cluster": {func(*envoytest.Tree) {}, "the proxy knows no cluster of that name"},
		"HTTP/1": {func(e *envoytest.Tree) {
			e.Insert([]any{e.Cluster("etcd", "http://"+etcd.addr)}, envoytest.Clusters...)
		}, "does not speak etcd's gRPC: the cluster must have http2_protocol_options"},
		"not etcd": {func(e *envoytest.Tree) { addEtcd(e, "etcd", server.URL()) }, "cannot be used: it does not answer"},
		"nobody":   {func(e *envoytest.Tree) { addEtcd(e, "etcd", closedPort(t)) }, "cannot be used: it does not answer"},
	} {
		t.Run(name, func(t *testing.T) {
			edit := func(o *envoytest.Options) { o.Edit, o.Workers = c.edit, 1 }
			refuses := replica(t, server, etcd.addr, etcdConfig("", ""), edit)
			awaitLog(t, refuses, c.says)
			if got := payOnce(t, refuses.URL(), strings.ReplaceAll(name, " ", "-"), 0); got != unavailable {
				t.Errorf("got %s, want unavailable", got)
			}
		})
	}
	forwards := replica(t, server, etcd.addr, etcdConfig("", `,"on_store_error":"forward"`), func(o *envoytest.Options) { o.Edit, o.Workers = nil, 1 })
	for range 2 {
		if got := payOnce(t, forwards.URL(), "forwarded", 0); got != "first" {
			t.Errorf("on_store_error forward: got %s, want it to run unguarded", got)
		}
	}
}
