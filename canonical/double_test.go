package canonical_test

import (
	"bufio"
	"bytes"
	"fmt"
	"math"
	"math/rand/v2"
	"os/exec"
	"strconv"
	"testing"

	"github.com/gowebpki/jcs"

	"github.com/callonce/callonce/canonical"
)

// manyDoubles is over a million finite doubles, the same in every run: the edges, and
// from a seed random bit patterns, integers, short decimals and powers.
func manyDoubles() []float64 {
	doubles := []float64{0, math.Copysign(0, -1), math.MaxFloat64, -math.MaxFloat64, math.SmallestNonzeroFloat64,
		0x1p-1022, math.Nextafter(0x1p-1022, 0), 1 << 53, 1<<53 + 2, 1<<53 - 1, -(1 << 53)}
	around := func(f float64) {
		doubles = append(doubles, f, -f, math.Nextafter(f, 0), math.Nextafter(f, math.Inf(1)))
	}
	for e := -323; e <= 308; e++ {
		f, _ := strconv.ParseFloat(fmt.Sprintf("1e%d", e), 64)
		around(f)
	}
	for e := -1074; e <= 1023; e++ {
		around(math.Ldexp(1, e))
	}
	r := rand.New(rand.NewPCG(8785, 1))
	for len(doubles) < 1_050_000 {
		switch r.IntN(8) {
		case 0:
			doubles = append(doubles, float64(r.Int64N(1<<54)-1<<53))
		case 1:
			doubles = append(doubles, float64(r.Int64N(1e6))/math.Pow10(r.IntN(12)))
		case 2:
			doubles = append(doubles, r.Float64()*math.Pow10(r.IntN(32)-10))
		default:
			if f := math.Float64frombits(r.Uint64()); !math.IsNaN(f) && !math.IsInf(f, 0) {
				doubles = append(doubles, f)
			}
		}
	}
	return doubles
}

// spellings of the shortest decimal that stands for f.
func spellings(f float64) []string {
	all := []string{strconv.FormatFloat(f, 'e', -1, 64)}
	if a := math.Abs(f); a == 0 || a > 1e-30 && a < 1e30 {
		all = append(all, strconv.FormatFloat(f, 'f', -1, 64))
	}
	return all
}

func TestDoublesAgainstJCS(t *testing.T) {
	var form []byte
	doubles := manyDoubles()
	for _, f := range doubles {
		want, err := jcs.NumberToJSON(f)
		if err != nil {
			t.Fatal(err)
		}
		for _, token := range spellings(f) {
			if form = canonical.AppendNumber(form[:0], []byte(token)); string(form) != want {
				t.Fatalf("%s gave %s, jcs gives %s", token, form, want)
			}
		}
	}
	t.Logf("%d doubles", len(doubles))
}

// TestDoublesAgainstNode compares with JSON.stringify, on which RFC 8785 is built.
func TestDoublesAgainstNode(t *testing.T) {
	node, err := exec.LookPath("node")
	if err != nil {
		t.Skip("no node on the path: nothing to compare with")
	}
	doubles := manyDoubles()
	bits := make([]byte, 0, 8*len(doubles))
	for _, f := range doubles {
		for b, k := math.Float64bits(f), 0; k < 8; k++ {
			bits = append(bits, byte(b>>(8*k)))
		}
	}
	command := exec.Command(node, "-e", `
		const bytes = require("fs").readFileSync(0);
		const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.length);
		const out = [];
		for (let i = 0; i < bytes.length; i += 8) out.push(JSON.stringify(view.getFloat64(i, true)));
		process.stdout.write(out.join("\n") + "\n");`)
	command.Stdin = bytes.NewReader(bits)
	out, err := command.Output()
	if err != nil {
		t.Fatalf("node: %v", err)
	}
	var form []byte
	lines := bufio.NewScanner(bytes.NewReader(out))
	for _, f := range doubles {
		if !lines.Scan() {
			t.Fatal("node said too little")
		}
		for _, token := range append(spellings(f), lines.Text()) {
			if form = canonical.AppendNumber(form[:0], []byte(token)); string(form) != lines.Text() {
				t.Fatalf("%s gave %s, node gives %s", token, form, lines.Text())
			}
		}
	}
	t.Logf("%d doubles", len(doubles))
}
