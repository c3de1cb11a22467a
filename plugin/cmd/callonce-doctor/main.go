// Command callonce-doctor says whether the filter stands in front of a server.
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"

	"github.com/callonce/callonce/doctor"
)

func main() {
	err := doctor.Run(os.Args[1:], os.Stdout, os.Stderr)
	if err == nil || errors.Is(err, flag.ErrHelp) {
		return
	}
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}
