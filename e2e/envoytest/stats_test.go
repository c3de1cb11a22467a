package envoytest

import "testing"

const metrics = `# TYPE calls counter
calls{server="s1.x",tool="get_*",outcome="first"} 3
calls{server="s1.x",tool="charge",outcome="first"} 4
calls{server="say \"hi\", you\\",outcome="replay"} 5

# TYPE plain gauge
plain{} 7
bare 1.5e3
`

func TestSum(t *testing.T) {
	for _, c := range []struct {
		name   string
		labels map[string]string
		want   int64
	}{
		{"calls", nil, 12},
		{"calls", map[string]string{"outcome": "first"}, 7},
		{"calls", map[string]string{"outcome": "first", "tool": "charge"}, 4},
		{"calls", map[string]string{"server": `say "hi", you\`}, 5},
		{"calls", map[string]string{"tool": ""}, 0},
		{"call", nil, 0},
		{"plain", nil, 7},
		{"bare", nil, 1500},
	} {
		if got, err := sum(metrics, c.name, c.labels); err != nil || got != c.want {
			t.Errorf("%s%v: want %d, got %d, %v", c.name, c.labels, c.want, got, err)
		}
	}
}

func TestSumTellsMalformedLines(t *testing.T) {
	for _, line := range []string{"calls", `calls{a="b} 1`, `calls{a} 1`, `calls{a="b"} x`, `calls{a="b"`} {
		if got, err := sum(line, "calls", nil); err == nil {
			t.Errorf("%s: want an error, got %d", line, got)
		}
	}
}
