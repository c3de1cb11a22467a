// Command image builds the filter, writes it as an OCI layout and prints the image's digest;
// with -push it goes to a registry too.
package main

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/v1/remote"

	"github.com/callonce/callonce/image"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "image:", err)
		os.Exit(1)
	}
}

func run() error {
	root := flag.String("root", "..", "the project's `FOLDER`")
	out := flag.String("out", "../dist/image", "`FOLDER` of the OCI layout; what is in it is removed")
	push := flag.String("push", "", "`registry/name:tag` to push to, with the credentials of docker login")
	version := flag.String("version", "", "of the release; empty: 0.0.0 and the commit")
	flag.Parse()
	wasm, built, err := image.Build(*root)
	if err != nil {
		return err
	}
	want, err := os.ReadFile(filepath.Join(*root, "image", "go.version"))
	if err != nil {
		return err
	}
	if w := strings.TrimSpace(string(want)); w != built {
		fmt.Fprintf(os.Stderr, "image: built with %s, and image/go.version says %s: the digest is not that of a release\n", built, w)
	}
	release := image.Release{Version: *version, Revision: revision(*root), Go: built}
	if release.Version == "" {
		release.Version = "0.0.0-unknown"
		if release.Revision != "" {
			release.Version = "0.0.0-" + release.Revision[:12]
		}
	}
	b, err := image.Pack(wasm, release)
	if err != nil {
		return err
	}
	if err := b.Write(*out); err != nil {
		return err
	}
	digest, err := b.Digest()
	if err != nil {
		return err
	}
	if *push != "" {
		if err := b.Push(*push, remote.WithAuthFromKeychain(authn.DefaultKeychain)); err != nil {
			return err
		}
		fmt.Fprintf(os.Stderr, "pushed; in manifests: oci://%s\n", pinned(*push, digest.String()))
	}
	fmt.Println(digest)
	return nil
}

// pinned names an image by its digest rather than its tag, which may move.
func pinned(ref, digest string) string {
	if slash, colon := strings.LastIndex(ref, "/"), strings.LastIndex(ref, ":"); colon > slash {
		ref = ref[:colon]
	}
	return ref + "@" + digest
}

// revision is the commit that the folder holds; none where it is no checkout, or holds
// changes.
func revision(root string) string {
	status, err := git(root, "status", "--porcelain", "--untracked-files=no")
	if err != nil || status != "" {
		return ""
	}
	commit, err := git(root, "rev-parse", "HEAD")
	if err != nil || len(commit) < 12 {
		return ""
	}
	return commit
}

func git(dir string, args ...string) (string, error) {
	cmd := exec.Command("git", args...)
	cmd.Dir = dir
	out, err := cmd.Output()
	return strings.TrimSpace(string(out)), err
}
