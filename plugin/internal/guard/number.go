package guard

import (
	"crypto/sha256"
	"encoding/binary"

	"github.com/callonce/callonce/plugin/internal/policy"
)

// numberOf is what the ledger knows a policy, or a tool, by: a digest of its name, so that configurations that name one alike count together.
func numberOf(name string) uint64 {
	h := sha256.Sum256([]byte(name))
	return binary.LittleEndian.Uint64(h[:])
}

// numbers are those of the configured policies: by index, and back.
type numbers struct {
	of    []uint64
	names map[uint64]string
	tools map[*policy.Tool]uint64
}

func numbersOf(policies []*policy.Policy) numbers {
	n := numbers{names: make(map[uint64]string, len(policies)), tools: map[*policy.Tool]uint64{}}
	for _, p := range policies {
		number := numberOf(p.Name)
		n.of = append(n.of, number)
		n.names[number] = p.Name
		n.tools[&p.Unlisted] = numberOf(p.Unlisted.Match)
		for i := range p.Tools {
			n.tools[&p.Tools[i]] = numberOf(p.Tools[i].Match)
		}
	}
	return n
}

// number is a policy's, 0 for misnamed, under which nothing is ever claimed.
func (g *Guard) number(p *policy.Policy) uint64 {
	if p == misnamed {
		return 0
	}
	return g.numbers.of[p.Index]
}

// named is the policy of a number, "" where this configuration has none.
func (g *Guard) named(number uint64) string { return g.numbers.names[number] }
