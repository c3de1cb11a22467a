package mcp

import "testing"

// Numbers of a parameter, at each bound that RFC 8941 gives them (sections 3.3.1 and 3.3.2): an integer of 1 to 15 digits, or a decimal of
// 1 to 12 and 1 to 3.
func TestNumbersOfParameters(t *testing.T) {
	for number, ok := range map[string]bool{
		"1": true, "-1": true, "123456789012345": true, "1234567890123456": false, "": false, "-": false,
		"1.5": true, "-1.25": true, "1.125": true, "1.1255": false, "1.": false, ".5": false,
		"123456789012.5": true, "1234567890123.5": false,
	} {
		if got, read := HeaderKey(`"key";a=` + number); read != ok || ok && got != "key" {
			t.Errorf("%q: got %q, %v, want %v", number, got, read, ok)
		}
	}
}
