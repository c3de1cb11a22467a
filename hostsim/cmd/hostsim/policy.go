package main

import "github.com/callonce/callonce/plugin/config"

// The filter's own reader judges a configuration, so that what is told here is word
// for word what a proxy's log will say.
func init() { checkConfig = config.Check }
