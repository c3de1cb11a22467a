package main

import "github.com/callonce/callonce/plugin/policy"

// The filter's own reader judges a configuration, so that what is told here is word
// for word what a proxy's log will say.
func init() {
	checkConfig = func(config []byte) ([]string, error) {
		c, mistakes := policy.Parse(config)
		if len(mistakes) > 0 {
			return nil, mistakes
		}
		return c.Warnings(), nil
	}
}
