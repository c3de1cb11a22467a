package guard

import "testing"

// The table says what rules 1 to 3 of the contract's section 1 say, for all there can be.
func TestHeadRules(t *testing.T) {
	for f := range facts(2 * long) {
		has := func(all facts) bool { return f&all == all }
		if has(jsonBody | likeJSON) {
			continue // likeJSON is another type
		}
		readsBody := !has(onlyHeaders) && !has(otherMethod) // a key may stand in the body
		guardable := has(keyed) || has(mustGuard)
		want := buffer
		switch {
		// 1. Nothing to look for, unless an answer is to gain an advert.
		case !guardable && has(onlyHeaders) && !has(advertises_), !guardable && has(otherMethod):
			want = pass
		// 2. Not a POST with a JSON body.
		case !has(post | jsonBody):
			switch {
			case has(post | mustGuard):
				want = unsupportedType
			case has(keyed) && !has(post):
				want = stray
			case has(post | contentCoded | keyed | likeJSON):
				want = encoded
			case has(post|keyed) && !has(contentCoded), has(post|likeJSON) && !has(onlyHeaders) && !has(contentCoded):
				want = sniff
			case has(keyed):
				want = stray
			default:
				want = pass
			}
		// 3. Content-Encoding, size.
		case has(contentCoded):
			if want = pass; guardable || readsBody {
				want = encoded
			}
		case has(long) && guardable:
			want = tooLarge
		}
		if got := classOf(f); got != want {
			t.Errorf("facts %09b: class %d, want %d", f, got, want)
		}
	}
	for i := range headRules {
		decides := false
		for f := range facts(2 * long) {
			if first := facts(jsonBody | likeJSON); f&first == first {
				continue
			}
			first := -1
			for j := range headRules {
				if r := &headRules[j]; f&r.when == r.when && f&r.unless == 0 {
					first = j
					break
				}
			}
			decides = decides || first == i
		}
		if !decides {
			t.Errorf("line %d never decides", i)
		}
	}
}
