package config_test

import (
	"fmt"

	"github.com/callonce/callonce/plugin/config"
)

func ExampleCheck() {
	warnings, err := config.Check([]byte(`{
		"policies": {"payments": {"server": "payments", "principal": ["header:x-user"], "strip": true, "ttl": "5 minutes"}},
		"default": "payments"
	}`))
	fmt.Println(err)
	fmt.Println(len(warnings), "warnings")
	// Output:
	// configuration: /policies/payments/ttl: found "5 minutes", expected a duration from "1s" to "24h", such as "5m"
	// 0 warnings
}

// What a caller must send so that the filter knows it.
func ExampleCallerHeaders() {
	names := config.CallerHeaders([]byte(`{
		"policies": {"payments": {"server": "payments", "principal": [["header:x-org", "header:x-user"]]}},
		"default": "payments"
	}`))
	fmt.Println(names)
	// Output: [x-org x-user]
}
