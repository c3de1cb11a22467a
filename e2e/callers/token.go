package callers

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"math/big"
	"time"
)

// The issuers in envoy/mtls-jwt.yaml. Tokens of the first are signed RS256, those of
// the second ES256 (RFC 7518).
const (
	First  = "https://first.example"
	Second = "https://second.example"
)

// Token is a signed JSON Web Token (RFC 7519) of an issuer for a subject, with more
// claims beside iss, sub, aud and exp, which they may replace, or with nil take away.
// It panics on claims that are no JSON.
func (r *Realm) Token(issuer, subject string, more map[string]any) string {
	claims := map[string]any{"iss": issuer, "sub": subject, "aud": "mcp", "exp": time.Now().Add(lifetime).Unix()}
	maps.Copy(claims, more)
	maps.DeleteFunc(claims, func(_ string, v any) bool { return v == nil })
	alg, kid := "RS256", "first"
	if issuer == Second {
		alg, kid = "ES256", "second"
	}
	signed := part(map[string]any{"alg": alg, "kid": kid, "typ": "JWT"}) + "." + part(claims)
	return signed + "." + base64.RawURLEncoding.EncodeToString(r.signature(alg, signed))
}

func part(v any) string {
	text, err := json.Marshal(v)
	if err != nil {
		panic(fmt.Sprintf("a token's claims: %v", err))
	}
	return base64.RawURLEncoding.EncodeToString(text)
}

func (r *Realm) signature(alg, text string) []byte {
	digest := sha256.Sum256([]byte(text))
	if alg == "RS256" {
		// Fails only for a key too short for the digest.
		sig, err := rsa.SignPKCS1v15(rand.Reader, r.rsa, crypto.SHA256, digest[:])
		if err != nil {
			panic(err)
		}
		return sig
	}
	a, b, err := ecdsa.Sign(rand.Reader, r.ec, digest[:])
	if err != nil {
		panic(err)
	}
	return append(fixed(a), fixed(b)...)
}

// fixed is a number of P-256 as 32 bytes, big endian.
func fixed(n *big.Int) []byte { return n.FillBytes(make([]byte, 32)) }

func (r *Realm) rsaKeys() []byte {
	return keys(map[string]any{
		"kty": "RSA", "alg": "RS256", "use": "sig", "kid": "first",
		"n": base64.RawURLEncoding.EncodeToString(r.rsa.N.Bytes()),
		"e": base64.RawURLEncoding.EncodeToString(big.NewInt(int64(r.rsa.E)).Bytes()),
	})
}

func (r *Realm) ecKeys() []byte {
	// The uncompressed point: 4, x, y. Fails only for a curve that has none.
	point, err := r.ec.PublicKey.Bytes()
	if err != nil {
		panic(err)
	}
	return keys(map[string]any{
		"kty": "EC", "crv": "P-256", "alg": "ES256", "use": "sig", "kid": "second",
		"x": base64.RawURLEncoding.EncodeToString(point[1:33]),
		"y": base64.RawURLEncoding.EncodeToString(point[33:]),
	})
}

func keys(key map[string]any) []byte {
	text, err := json.Marshal(map[string]any{"keys": []any{key}})
	if err != nil {
		panic(err)
	}
	return text
}
