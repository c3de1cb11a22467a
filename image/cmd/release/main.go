// Command release writes dist/release: all that a release publishes.
package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"

	"github.com/callonce/callonce/image/release"
)

func main() {
	root := flag.String("root", "..", "the project's `FOLDER`")
	out := flag.String("out", "../dist/release", "`FOLDER` to write; what is in it is removed")
	version := flag.String("version", "", "the `VERSION`, such as 1.2.0")
	flag.Parse()
	if err := release.Make(*root, *out, *version, release.Platforms...); err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
	sums, err := os.ReadFile(filepath.Join(*out, "SHA256SUMS"))
	if err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
	os.Stdout.Write(sums)
}
