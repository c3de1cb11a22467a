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

// toolNumber is what the ledger knows a policy's tool by.
func toolNumber(p *policy.Policy, match string) uint64 { return numberOf(p.Name + "\n" + match) }

// ofProxy is the number that all policies share whose limits count over the proxy. The ledger
// cannot tell them apart, so what it counts by itself has no server's label.
const ofProxy = 1

// numbers are those of the configured policies: by index, each once, and back.
type numbers struct {
	of    []uint64
	each  []uint64
	names map[uint64]string
	tools map[*policy.Tool]uint64
}

func numbersOf(policies []*policy.Policy) numbers {
	n := numbers{names: make(map[uint64]string, len(policies)), tools: map[*policy.Tool]uint64{}}
	for _, p := range policies {
		number, name := numberOf(p.Name), p.Name
		if p.LimitsOfProxy {
			number, name = ofProxy, ""
		}
		n.of = append(n.of, number)
		if _, known := n.names[number]; !known {
			n.each = append(n.each, number)
		}
		n.names[number] = name
		n.tools[&p.Unlisted] = toolNumber(p, p.Unlisted.Match)
		for i := range p.Tools {
			n.tools[&p.Tools[i]] = toolNumber(p, p.Tools[i].Match)
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
