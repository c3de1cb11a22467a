package mesh_test

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"math/big"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// authority vouches for the world's names and workloads.
var authority *ca

type ca struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	pem  string
}

func newAuthority() (*ca, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "meshes of tests"}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
		URIs: []*url.URL{{Scheme: "spiffe", Host: "cluster.local"}},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		return nil, err
	}
	cert, err := x509.ParseCertificate(der)
	return &ca{cert, key, string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))}, err
}

// issue makes a certificate for names: of hosts, and of workloads where they are SPIFFE ids.
func (c *ca) issue(t *testing.T, names ...string) tls.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	serial, err := rand.Int(rand.Reader, big.NewInt(1<<62))
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: serial, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(12 * time.Hour),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	for _, name := range names {
		if !strings.HasPrefix(name, "spiffe://") {
			template.DNSNames = append(template.DNSNames, name)
			continue
		}
		u, err := url.Parse(name)
		if err != nil {
			t.Fatal(err)
		}
		template.URIs = append(template.URIs, u)
	}
	der, err := x509.CreateCertificate(rand.Reader, template, c.cert, &key.PublicKey, c.key)
	if err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

// credentials lays a workload's certificate where pilot-agent looks for those that somebody else issues, below its working folder.
func (c *ca) credentials(t *testing.T, dir, id string) {
	t.Helper()
	made := c.issue(t, id)
	key, err := x509.MarshalPKCS8PrivateKey(made.PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	dir = filepath.Join(dir, "var", "run", "secrets", "workload-spiffe-credentials")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{
		"cert-chain.pem": string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: made.Certificate[0]})),
		"key.pem":        string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: key})),
		"root-cert.pem":  c.pem,
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// startIssuer serves the key of https://issuer.example.com, and gives what makes its tokens.
func startIssuer(t *testing.T) func(subject string) string {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	encode := base64.RawURLEncoding.EncodeToString
	x, y := make([]byte, 32), make([]byte, 32)
	point, err := key.PublicKey.Bytes()
	if err != nil {
		t.Fatal(err)
	}
	copy(x, point[1:33])
	copy(y, point[33:])
	set, err := json.Marshal(object{"keys": []any{object{"kty": "EC", "crv": "P-256", "alg": "ES256", "use": "sig", "kid": "k", "x": encode(x), "y": encode(y)}}})
	if err != nil {
		t.Fatal(err)
	}
	listen(t, issuerIP+":443", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { w.Write(set) }), "issuer.example.com")
	return func(subject string) string {
		claims, err := json.Marshal(object{"iss": "https://issuer.example.com", "sub": subject, "aud": "mcp", "exp": time.Now().Add(time.Hour).Unix()})
		if err != nil {
			t.Fatal(err)
		}
		signed := encode([]byte(`{"alg":"ES256","kid":"k","typ":"JWT"}`)) + "." + encode(claims)
		digest := crypto.SHA256.New()
		digest.Write([]byte(signed))
		r, s, err := ecdsa.Sign(rand.Reader, key, digest.Sum(nil))
		if err != nil {
			t.Fatal(err)
		}
		signature := make([]byte, 64)
		r.FillBytes(signature[:32])
		s.FillBytes(signature[32:])
		return signed + "." + encode(signature)
	}
}
