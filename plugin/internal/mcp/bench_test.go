package mcp

import "testing"

// BenchmarkCall reads a call as clients send it and takes its fingerprint.
func BenchmarkCall(b *testing.B) {
	pointers := []string{"/idempotencyKey", "/_meta/callonce.dev~1idempotency-key", "/arguments/idempotency_key", "/arguments/idempotencyKey"}
	body := []byte(`{"jsonrpc":"2.0","id":42,"method":"tools/call","params":{"name":"charge_card","arguments":{"customer_id":"cus_8Fh2kQ","amount":1250,` +
		`"currency":"EUR","capture":true,"metadata":{"order":"2026-0001742","cart":["sku-118","sku-220"],"note":"Leave the parcel with the neighbour."}},` +
		`"_meta":{"progressToken":"tok-17","traceparent":"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"}}}`)
	for _, step := range []string{"read", "fingerprint"} {
		b.Run(step, func(b *testing.B) {
			var r Request
			var buf []byte
			b.SetBytes(int64(len(body)))
			b.ReportAllocs()
			for b.Loop() {
				r.Read(body, pointers)
				if step == "fingerprint" {
					_, buf = r.Fingerprint(buf, Shape{})
				}
				r.Release()
			}
		})
	}
}
