// Package schema judges configurations by the JSON Schema that users get
// (envoy/configuration.schema.json), with a validator that is not ours, and compares that
// with what the filter itself says. It knows no member by itself. It is a module of its own for the validator's sake.
package schema
