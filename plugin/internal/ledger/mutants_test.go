package ledger

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var plant = flag.Bool("mutants", false, "plant faults, one after the other, and see each found (minutes)")

// mutant is a fault planted in the code: pieces of text of one file, each of which must
// be there exactly once. found are the tests of which at least one must fail.
type mutant struct {
	name, file string
	edits      []string // old, new, old, new, …
	found      string
}

const randomly = "TestRandomSchedules|TestEverySchedule|TestAgainstModel"

var mutants = []mutant{
	{"the fence is not checked", "state.go",
		[]string{"e.fence() != h.Fence || ", ""}, "TestTable|TestAgainstModel"},
	{"the holder is not checked", "state.go",
		[]string{"e.holder() != h.Holder || ", ""}, "TestTable"},
	{"a tombstone is given up", "state.go",
		[]string{"Complete: fenced, Release: fenced, BuryUnknown: Unknown, BuryNotReplayable: fenced,\n\t\t\tLoseLease: fenced, GiveUp: fenced,",
			"Complete: fenced, Release: fenced, BuryUnknown: Unknown, BuryNotReplayable: fenced,\n\t\t\tLoseLease: fenced, GiveUp: Free,"}, randomly},
	{"a call in flight is given up", "state.go",
		[]string{"LoseLease: Unknown, GiveUp: fenced,", "LoseLease: Unknown, GiveUp: Free,"}, randomly},
	{"the lease never ends", "state.go",
		[]string{"return now-max(claimed, last) >= lease", "return false"}, randomly},
	{"the lease ends at once", "state.go",
		[]string{"return now-max(claimed, last) >= lease", "return now-max(claimed, last) >= lease/2"}, randomly},
	{"in flight ends by time", "state.go",
		[]string{"counts: counts{entries: 1, inFlight: 1, tombs: 1},", "timed: true, counts: counts{entries: 1, inFlight: 1, tombs: 1},"}, "TestSlowerThanTheLease|TestAgainstModel|TestContractTable"},
	{"ttl runs from the claim", "state.go",
		[]string{"at := now + ttl", "at := claimed + ttl"}, "TestRetention|TestAgainstModel"},
	{"the window is ignored", "state.go",
		[]string{"if window > 0 {", "if false {"}, "TestRetention|TestAgainstModel"},
	{"a task goes to everybody", "state.go",
		[]string{"&& !c.TakesTasks ||", "&& false ||"}, "TestTask|TestAgainstModel"},
	{"what cannot be read is free", "state.go",
		[]string{"if !e.readable() {\n\t\treturn RefusedUnavailable", "if !e.readable() {\n\t\treturn First"}, "TestUnreadableVersion"},
	{"a tombstone is not reserved", "state.go",
		[]string{"counts{entries: 1, inFlight: 1, tombs: 1}", "counts{entries: 1, inFlight: 1}"}, randomly},
	{"the reply's id is not compared", "reply.go",
		[]string{"[32]byte(b[4:]) != *id || ", ""}, "TestPlaceReusedBetweenReads|TestRandomSchedules|TestEverySchedule"},
	{"the reply's fence is not compared", "reply.go",
		[]string{" || le.Uint64(b[36:]) != fence", ""}, "TestReplyOfAnEarlierRun"},
	{"the claim takes a fresh cas", "ask.go",
		[]string{"	won, err := s.table.Set(key, s.buf, cas)", "	if _, fresh, ok := s.read(key); ok {\n\t\tcas = fresh\n\t}\n	won, err := s.table.Set(key, s.buf, cas)"}, randomly},
	{"the claim overwrites", "ask.go",
		[]string{"	won, err := s.table.Set(key, s.buf, cas)", "	won, err := s.table.Set(key, s.buf, 0)"}, randomly},
	{"the claim inserts with cas 0 where there was nothing", "shared.go",
		[]string{"	case !found:\n		return nil, InsertIfAbsent, true\n	case len(v)", "	case !found:\n		return nil, 0, true\n	case len(v)"}, randomly},
	{"the bucket before the reservation", "ask.go",
		[]string{"if v := s.room(&rows, need, policy, c, b.epoch(), now); v != First {", "if v := First; v != First {",
			"	s.open.stage(&h, running)", "	s.room(&rows, need, policy, c, b.epoch(), now)\n	s.open.stage(&h, running)"}, randomly},
	{"a lost race keeps its reservation", "ask.go",
		[]string{"		s.undo(&rows, levels, need, b.epoch())\n", ""}, "TestEverySchedule"},
	{"an orphan's place is given back twice", "ask.go",
		[]string{"		s.notice(Orphaned, e)\n", "		s.giveBack(e.rows(), table[InFlight].counts.minus(table[next].counts), b.epoch())\n		s.notice(Orphaned, e)\n"}, randomly},
	{"the count goes down before the entry", "settle.go",
		[]string{"		done, err := s.table.Set(key, s.buf, cas)", "		if !more {\n			s.giveBack(rows, before.minus(after), b.epoch())\n		}\n		done, err := s.table.Set(key, s.buf, cas)",
			"			s.release(rows, before.minus(after), &h.Limits, b.epoch())\n			return Applied", "			return Applied"}, randomly},
	{"completed before the reply is there", "settle.go",
		[]string{"if k.at, ok = s.keep(&h, &o.Reply); !ok {", "if k.at, ok = (place{0, 0, 0, uint32(replyHeader + len(o.Reply.Message))}), true; !ok {",
			"	s.open.remove(&h.ID, h.Fence)\n", "	s.open.remove(&h.ID, h.Fence)\n	if o.Event == Complete {\n		s.keep(&h, &o.Reply)\n	}\n"}, "TestAgainstModel|TestShedding|TestKilledWhileSettling"},
	{"a settlement overwrites", "settle.go",
		[]string{"done, err := s.table.Set(key, s.buf, cas)", "done, err := s.table.Set(key, s.buf, cas&0)"}, randomly},
	{"a recount without epochs: its result misses what came in between", "page.go",
		[]string{"late := epoch == p.open() && p.open() != p.installed()", "late := false"}, randomly},
	{"a recount without epochs: what it knows is counted again", "page.go",
		[]string{"if epoch < p.installed() {", "if false {"}, randomly},
	{"the sweep does not write the epoch into buckets", "sweep.go",
		[]string{"buf, done := s.clean(b, epoch, now)\n		s.buf = buf\n		won", "buf, done := s.clean(b, b.epoch(), now)\n		s.buf = buf\n		won"}, randomly},
	{"the sweep overwrites buckets", "sweep.go",
		[]string{"		won, err := s.table.Set(key, buf, cas)\n		if err != nil {\n			return false\n", "		won, err := s.table.Set(key, buf, cas&0)\n		if err != nil {\n			return false\n"}, randomly},
	{"an older pass is not refused", "sweep.go",
		[]string{"if p.open() != s.sweep.epoch || p.installed() >= s.sweep.epoch {", "if false {"}, randomly},
	{"a pass installs although it could not read an entry", "sweep.go",
		[]string{"w.phase == installing && !w.blind", "w.phase == installing"}, "TestUnreadableVersion"},
	{"a living holder's place is taken", "holder.go",
		[]string{"now-h.last() < 2*h.lease()", "now-h.last() < h.lease()/2"}, "TestPlaceTaken|TestRandomSchedules"},
	{"nobody shows that it lives", "holder.go",
		[]string{"	s.self.signed, s.self.lease = now, lease\n", "",
			"	if done, err := s.table.Set(key, appendHolder(nil, s.self.incarnation, now, lease), cas); err != nil {", "	if done, err := s.table.Set(key, v, cas); err != nil {"}, "TestSlowerThanTheLease|TestAgainstModel"},
	{"a hold whose stream is gone stays", "open.go",
		[]string{"s.live != nil && !s.live(o.token)", "false"}, "TestLostSettlement|TestAgainstModel"},
	{"a claim left half way stays", "open.go",
		[]string{"if o.stage != running || ", "if "}, "TestLostSettlement"},
	{"a holder bears its faults for ever", "settle.go",
		[]string{"				s.self = self{}\n", ""}, "TestLostSettlement"},
	{"the salt is not used", "shared.go",
		[]string{"h := s.salt[0]", "h := uint64(0)", " + s.salt[1]", ""}, "TestSalt"},
	{"foreign bytes are written over", "shared.go",
		[]string{"	case len(v) == 0 || !bucket(v).valid():", "	case !bucket(v).valid():\n		return nil, cas, true\n	case false:"}, "TestForeignRecords"},
	{"the pieces that a reply covers keep what they held", "ring.go",
		[]string{"for i := uint32(1); i < need; i++ {", "for i := need; i < need; i++ {"}, "TestShedding|TestAgainstModel"},
	{"the youngest goes first", "evict.go",
		[]string{"max(min(a.settled-b.settled, 1), -1)", "max(min(b.settled-a.settled, 1), -1)"}, "TestEvictionOrder|TestAgainstModel"},
	{"somebody else's goes first", "evict.go",
		[]string{"if r.level == atPolicy && r.settled[atPrincipal] > 0 &&", "if false &&"}, "TestEvictionOrder|TestAgainstModel"},
	{"an entry of another level goes", "evict.go",
		[]string{"level == atScope && a.scope == c.Scope", "level == atScope"}, "TestAgainstModel"},
	{"places serve in buckets of another epoch", "held.go",
		[]string{"if i, ok := p.at[placeKey{row, epoch}]; ok {", "if i, ok := p.at[placeKey{row, 0}]; ok {", "k := placeKey{row, epoch}", "k := placeKey{row, 0}"}, randomly},
	{"places serve twice", "held.go",
		[]string{"	return p.put(row, epoch, counts{}.minus(d))", "	return true"}, randomly},
	{"nobody follows a silent sweeper", "sweep.go",
		[]string{"sweeperSilence = Mono(3e9)", "sweeperSilence = Mono(3e12)"}, "TestSweeperIsFollowed"},
	{"scans are not bounded", "evict.go",
		[]string{"if scanned || s.scans == 0 {", "if scanned {"}, "TestScansAreBounded"},
	{"a scan remembers all", "evict.go",
		[]string{"if len(into.list) > candidatesKept {", "if false {"}, "TestScanRemembersTheOldest"},
	{"milliseconds are rounded down", "record.go",
		[]string{"(d+time.Millisecond-1)/time.Millisecond", "d/time.Millisecond"}, "TestMillisecondsAreRoundedUp"},
	{"a foreign record is told each time", "shared.go",
		[]string{"	s.warned[key] = true\n", ""}, "TestForeignIsToldOnce"},
	{"no index of many open calls", "open.go",
		[]string{"case len(o.list) > fewHolds:", "case false:"}, "TestTickIsLinearInOpenCalls"},
	{"a moved hold is not found", "open.go",
		[]string{"			o.at[o.list[last].hold.name()] = i\n", ""}, "TestManyHoldsAreFound"},
	{"the sweep does not write down what ends", "sweep.go",
		[]string{"			s.writeDues(w.at)\n", ""}, "TestRetryAfterIsTrue"},
	{"tombstones end with the first entry", "due.go",
		[]string{"	if r.tombs {", "	if false {"}, "TestRetryAfterIsTrue"},
	{"limits of the scope alone", "quota.go",
		[]string{"	return counts{int32(l.Entries), int32(l.InFlight), 0}", "	return counts{}"}, randomly + "|TestEachCap"},
}

func TestPlantedFaults(t *testing.T) {
	if !*plant {
		t.Skip("-mutants plants them")
	}
	for _, m := range mutants {
		t.Run(m.name, func(t *testing.T) {
			text, err := os.ReadFile(m.file)
			if err != nil {
				t.Fatal(err)
			}
			for e := range slices.Chunk(m.edits, 2) {
				if n := bytes.Count(text, []byte(e[0])); n != 1 {
					t.Fatalf("%q stands %d times in %s", e[0], n, m.file)
				}
				text = bytes.Replace(text, []byte(e[0]), []byte(e[1]), 1)
			}
			dir := t.TempDir()
			file, overlay := filepath.Join(dir, m.file), filepath.Join(dir, "overlay.json")
			here, _ := filepath.Abs(m.file)
			list, _ := json.Marshal(map[string]any{"Replace": map[string]string{here: file}})
			if err := os.WriteFile(file, text, 0o600); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(overlay, list, 0o600); err != nil {
				t.Fatal(err)
			}
			out, err := exec.Command("go", "test", "-overlay", overlay, "-timeout", "300s", "-rapid.shrinktime", "0s", "-rapid.nofailfile", "-run", "^("+m.found+")$", ".").CombinedOutput()
			if err == nil {
				t.Fatal("not found")
			}
			if bytes.Contains(out, []byte("[build failed]")) {
				t.Fatalf("does not build: %s", out)
			}
			failed := regexp.MustCompile(`(?m)^--- FAIL: (\w+)`).FindAllStringSubmatch(string(out), -1)
			var names []string
			for _, f := range failed {
				names = append(names, f[1])
			}
			if len(names) == 0 {
				t.Fatalf("no test failed: %s", out)
			}
			t.Logf("found by %s", strings.Join(names, ", "))
		})
	}
}
