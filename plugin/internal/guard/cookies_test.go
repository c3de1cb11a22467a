package guard

import "testing"

// A cookie that only steers is left out where every reader finds the same value in it. What
// follows a comma or a space may be another cookie, which names a caller.
func TestSteeringValues(t *testing.T) {
	for line, apart := range map[string]bool{
		"AWSALB=1; sid=$": true, "AWSALB=$": false, "AWSALB=$; sid=a": false, `GCLB="$"`: false, "AWSALB=a|b/c+$==": false, "AWSALB= $": false,
		"AWSALB=1, sid=$": true, "AWSALB=1,sid=$": true, "AWSALB=1 sid=$": true, "AWSALB=1\tsid=$": true, `AWSALB=1\"; sid=$`: true,
		`sid="a; AWSALB=$; b"`: true, `sid="a; AWSALB=$`: true, `sid="a; b"; AWSALB=$`: false, `sid="a"; AWSALB=$`: false,
		`AWSALB="1, sid=$"`: true, `AWSALB="1 $"`: true, `AWSALB="1"$"`: true, `AWSALB=1\$`: true, "AWSALB=\xff$": true,
	} {
		w := newWorld(t)
		g := w.worker(plain)
		call := func(who string) *exchange {
			cookie := ""
			for _, c := range []byte(line) {
				if c == '$' {
					cookie += who
				} else {
					cookie += string([]byte{c})
				}
			}
			return w.send(g, toolCall("1", `{}`), "idempotency-key", "k", "cookie", cookie)
		}
		call("ada").answer(200, "application/json", okResult)
		if other := call("bob"); other.sent != apart {
			t.Errorf("%q: another caller: %v, expected %v: %d %s", line, other.sent, apart, other.status, other.reply)
		}
		if same := call("ada"); same.sent {
			t.Errorf("%q: the same caller is another", line)
		}
	}
}
