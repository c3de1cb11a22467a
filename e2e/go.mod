module github.com/callonce/callonce/e2e

go 1.26.0

replace github.com/callonce/callonce => ../

require (
	github.com/modelcontextprotocol/go-sdk v1.8.0
	go.yaml.in/yaml/v3 v3.0.6
	golang.org/x/net v0.62.0
	golang.org/x/sys v0.50.0
)

require golang.org/x/text v0.43.0 // indirect

require (
	github.com/callonce/callonce v0.0.0
	github.com/callonce/callonce/clients/go v0.0.0
	github.com/google/jsonschema-go v0.4.3 // indirect
	github.com/segmentio/asm v1.1.3 // indirect
	github.com/segmentio/encoding v0.5.4 // indirect
	github.com/tetratelabs/wazero v1.12.0 // indirect
	github.com/yosida95/uritemplate/v3 v3.0.2 // indirect
	golang.org/x/oauth2 v0.35.0 // indirect
	golang.org/x/sync v0.24.0 // indirect
	golang.org/x/time v0.15.0 // indirect
)

tool github.com/modelcontextprotocol/go-sdk/conformance/everything-server

replace github.com/callonce/callonce/clients/go => ../clients/go
