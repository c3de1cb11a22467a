package release

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"io"
	"os"
	"slices"
	"strings"
)

// file is one in an archive.
type file struct {
	name    string
	content []byte
	mode    int64
}

// pack writes an archive without times or owners, packed where the name ends in .gz.
func pack(to string, all []file) error {
	var out bytes.Buffer
	var w io.Writer = &out
	var z *gzip.Writer
	if strings.HasSuffix(to, ".gz") {
		var err error
		if z, err = gzip.NewWriterLevel(&out, gzip.BestCompression); err != nil {
			return err
		}
		w = z
	}
	slices.SortFunc(all, func(a, b file) int { return strings.Compare(a.name, b.name) })
	archive := tar.NewWriter(w)
	for _, f := range all {
		if err := archive.WriteHeader(&tar.Header{Name: f.name, Mode: f.mode, Size: int64(len(f.content)), Format: tar.FormatPAX}); err != nil {
			return err
		}
		if _, err := archive.Write(f.content); err != nil {
			return err
		}
	}
	if err := archive.Close(); err != nil {
		return err
	}
	if z != nil {
		if err := z.Close(); err != nil {
			return err
		}
	}
	return os.WriteFile(to, out.Bytes(), 0o644)
}
