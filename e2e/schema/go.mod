module github.com/callonce/callonce/e2e/schema

go 1.26.0

replace github.com/callonce/callonce => ../../

require (
	github.com/callonce/callonce v0.0.0
	github.com/santhosh-tekuri/jsonschema/v6 v6.0.3
)

require golang.org/x/text v0.43.0 // indirect
