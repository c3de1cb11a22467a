// Package callers makes the callers of envoy/mtls-jwt.yaml: authorities, client
// certificates, and tokens of two issuers, with the files by which a proxy checks them.
// It knows nothing of the filter.
package callers

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"time"
)

// lifetime of certificates and tokens: longer than any test run.
const lifetime = 24 * time.Hour

// Realm is what one proxy trusts.
type Realm struct {
	clients, strangers authority // only the first is trusted
	servers            authority
	rsa                *rsa.PrivateKey
	ec                 *ecdsa.PrivateKey
}

// authority signs certificates.
type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

// New makes a realm and writes what a proxy needs to know of it below dir, under the
// names in envoy/mtls-jwt.yaml: certs/server.pem, certs/server.key,
// certs/clients-ca.pem, jwks/first.json, jwks/second.json.
func New(dir string) (*Realm, error) {
	r := &Realm{}
	for name, a := range map[string]*authority{"clients": &r.clients, "strangers": &r.strangers, "servers": &r.servers} {
		if err := a.found(name); err != nil {
			return nil, err
		}
	}
	var err error
	if r.rsa, err = rsa.GenerateKey(rand.Reader, 2048); err != nil {
		return nil, err
	}
	if r.ec, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader); err != nil {
		return nil, err
	}
	server, err := r.servers.sign(&x509.Certificate{
		Subject: pkix.Name{CommonName: "proxy"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	})
	if err != nil {
		return nil, err
	}
	key, err := x509.MarshalPKCS8PrivateKey(server.PrivateKey)
	if err != nil {
		return nil, err
	}
	for name, content := range map[string][]byte{
		"certs/server.pem":     pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate[0]}),
		"certs/server.key":     pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: key}),
		"certs/clients-ca.pem": pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: r.clients.cert.Raw}),
		"jwks/first.json":      r.rsaKeys(),
		"jwks/second.json":     r.ecKeys(),
	} {
		file := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			return nil, err
		}
		if err := os.WriteFile(file, content, 0o600); err != nil {
			return nil, err
		}
	}
	return r, nil
}

func (a *authority) found(name string) error {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(lifetime),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return err
	}
	a.key = key
	a.cert, err = x509.ParseCertificate(der)
	return err
}

func (a *authority) sign(template *x509.Certificate) (tls.Certificate, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return tls.Certificate{}, err
	}
	if template.SerialNumber, err = rand.Int(rand.Reader, big.NewInt(1<<62)); err != nil {
		return tls.Certificate{}, err
	}
	template.NotBefore, template.NotAfter = time.Now().Add(-time.Hour), time.Now().Add(lifetime)
	template.KeyUsage = x509.KeyUsageDigitalSignature
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, key.Public(), a.key)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, err
}

// Client is what a caller has to show.
type Client struct {
	// URI is the URI in the client certificate's SAN, Name its subject's common name.
	// Without either there is no certificate.
	URI, Name string
	// Stranger has the certificate signed by an authority that the proxy does not know.
	Stranger bool
	// Token is a bearer token, see [Realm.Token].
	Token string
}

// Transport sends requests as a caller. Close its idle connections after use.
func (r *Realm) Transport(c Client) (*Transport, error) {
	known := x509.NewCertPool()
	known.AddCert(r.servers.cert)
	config := &tls.Config{RootCAs: known}
	if c.URI != "" || c.Name != "" {
		cert, err := r.certificate(c)
		if err != nil {
			return nil, err
		}
		// Whatever authorities the proxy names: a stranger's certificate is shown too.
		config.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &cert, nil }
	}
	return &Transport{&http.Transport{TLSClientConfig: config, DisableCompression: true, ForceAttemptHTTP2: true}, c.Token}, nil
}

func (r *Realm) certificate(c Client) (tls.Certificate, error) {
	template := &x509.Certificate{Subject: pkix.Name{CommonName: c.Name}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}
	if c.URI != "" {
		uri, err := url.Parse(c.URI)
		if err != nil {
			return tls.Certificate{}, fmt.Errorf("a certificate's URI: %w", err)
		}
		template.URIs = []*url.URL{uri}
	}
	if c.Stranger {
		return r.strangers.sign(template)
	}
	return r.clients.sign(template)
}

// Transport is a caller's.
type Transport struct {
	*http.Transport
	token string
}

// RoundTrip implements [http.RoundTripper].
func (t *Transport) RoundTrip(req *http.Request) (*http.Response, error) {
	if t.token != "" {
		req = req.Clone(req.Context())
		req.Header.Set("Authorization", "Bearer "+t.token)
	}
	return t.Transport.RoundTrip(req)
}
