package canonical

import "strings"

// Pointer follows an RFC 6901 JSON Pointer from n; "" is n itself. NoNode if the
// pointer leads nowhere, is malformed, or names the element behind an array's last
// ("-").
func (d *Doc) Pointer(n Node, pointer string) Node {
	if !d.has(n) {
		return NoNode
	}
	escapes := strings.IndexByte(pointer, '~') >= 0
	for pointer != "" && n != NoNode {
		if pointer[0] != '/' {
			return NoNode
		}
		token := pointer[1:]
		if i := strings.IndexByte(token, '/'); i >= 0 {
			token = token[:i]
		}
		pointer = pointer[1+len(token):]
		switch d.tape[n].kind {
		case Object:
			if escapes {
				n = d.memberByToken(n, token)
			} else {
				n = d.Member(n, token)
			}
		case Array:
			n = d.element(n, token)
		default:
			n = NoNode
		}
	}
	return n
}

func (d *Doc) memberByToken(object Node, token string) Node {
	for n := d.First(object); n != NoNode; n = d.Next(n) {
		if tokenIs(token, d.decoded(n-1)) {
			return n
		}
	}
	return NoNode
}

// tokenIs compares a reference token, with ~0 and ~1 in it, with a name. A token
// that RFC 6901 does not allow equals nothing.
func tokenIs(token string, name []byte) bool {
	k := 0
	for i := 0; i < len(token); i++ {
		c := token[i]
		if c == '~' {
			i++
			switch {
			case i == len(token):
				return false
			case token[i] == '0':
			case token[i] == '1':
				c = '/'
			default:
				return false
			}
		}
		if k == len(name) || name[k] != c {
			return false
		}
		k++
	}
	return k == len(name)
}

func (d *Doc) element(array Node, token string) Node {
	if token == "" || token[0] == '0' && len(token) > 1 {
		return NoNode
	}
	index := 0
	for i := range len(token) {
		// No array has as many elements as there are entries on the tape.
		if token[i]-'0' > 9 || index >= len(d.tape) {
			return NoNode
		}
		index = index*10 + int(token[i]-'0')
	}
	n := d.First(array)
	for ; index > 0 && n != NoNode; index-- {
		n = d.Next(n)
	}
	return n
}
