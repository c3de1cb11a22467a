package version

import (
	"runtime"
	"runtime/debug"
	"strings"
	"testing"
)

func TestText(t *testing.T) {
	mark := strings.Repeat("x", frame)
	build := "path\texample.org/m/cmd\nmod\texample.org/m\tv1.2.3\th1:sum=\ndep\texample.org/other\tv9.9.9\th1:sum=\n"
	vcs := "build\tvcs=git\nbuild\tvcs.revision=0123456789abcdef0123\nbuild\tvcs.time=2026-01-31T10:00:00Z\n"
	for _, c := range []struct{ stamp, want string }{
		{mark + build + mark, "v1.2.3 go1.x"},
		{mark + build + vcs + "build\tvcs.modified=false\n" + mark, "v1.2.3 (0123456789ab, 2026-01-31T10:00:00Z) go1.x"},
		{mark + build + vcs + "build\tvcs.modified=true\n" + mark, "v1.2.3 (0123456789ab, 2026-01-31T10:00:00Z, modified) go1.x"},
		{mark + "mod\texample.org/m\t(devel)\t\n" + mark, "(devel) go1.x"},
		{mark + "mod\texample.org/m\n" + mark, "(devel) go1.x"},
		{mark + "build\tvcs.revision=ab\n" + mark, "(devel) (ab) go1.x"},
		{"", "(devel) go1.x"},
		{mark + mark, "(devel) go1.x"},
	} {
		if got := text(c.stamp, "go1.x"); got != c.want {
			t.Errorf("%q: got %q, want %q", c.stamp, got, c.want)
		}
	}
}

// The stamp that is read is the one that the library's own reader, which is too large for the module, reads.
func TestStampIsTheBuilds(t *testing.T) {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		t.Skip("this build has no stamp")
	}
	s := stamp()
	if len(s) <= 2*frame {
		t.Fatalf("want the build's stamp, got %q", s)
	}
	lines, want := s[frame:len(s)-frame], info.String()
	if _, want, _ = strings.Cut(want, "\n"); lines != want { // the first line is the compiler's version
		t.Errorf("got\n%s\nwant\n%s", lines, want)
	}
	if got := String(); !strings.HasSuffix(got, runtime.Version()) {
		t.Errorf("got %q, want the compiler's version at its end", got)
	}
}

// Labels of a metric: the version and the revision apart.
func TestBuild(t *testing.T) {
	for stamp, want := range map[string][2]string{
		"": {"(devel)", ""},
		"mod\tx\tv1.2.3\th1:x\nbuild\tvcs.revision=0123456789abcdef\nbuild\tvcs.time=now\n": {"v1.2.3", "0123456789ab"},
		"mod\tx\tv1.2.3\nbuild\tvcs.modified=true\nbuild\tvcs.revision=0123456789abcdef\n":  {"v1.2.3", "0123456789ab-modified"},
		"mod\tx\tv1.2.3\nbuild\tvcs.modified=false\nbuild\tvcs.revision=0123456789abcdef\n": {"v1.2.3", "0123456789ab"},
		"mod\tx\tv1.2.3\nbuild\tvcs.modified=true\n":                                        {"v1.2.3", ""},
	} {
		if stamp != "" {
			stamp = strings.Repeat("x", frame) + stamp + strings.Repeat("x", frame)
		}
		if v, r := build(stamp); v != want[0] || r != want[1] {
			t.Errorf("%q: %q %q, want %q", stamp, v, r, want)
		}
	}
}
