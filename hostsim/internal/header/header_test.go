package header

import (
	"fmt"
	"testing"
)

func TestHeaderMap(t *testing.T) {
	m := &Map{}
	m.Add("A", "1")
	m.Add("b", "2")
	m.Add("a", "3")
	m.Set("A", "4")
	if got := fmt.Sprint(m.Lines); got != "[{b 2} {a 4}]" {
		t.Errorf("after set: %s", got)
	}
	m.Remove("B")
	if m.Has("b") || m.Value("a") != "4" || m.Bytes() != 2 {
		t.Errorf("after remove: %v", m.Lines)
	}
}
