package e2e_test

import (
	"fmt"
	"os"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/callonce/callonce/e2e/envoytest"
	"github.com/callonce/callonce/e2e/payments"
)

// Of 200 identical calls at once, spread over Envoys of four workers each, one runs.
func TestEtcdRace(t *testing.T) {
	raceOnEtcd(t, etcdRace{members: 1, store: `,"timeout":"5s"`}, 2, 3)
}

// Three members, whose leader is killed in the middle of a race: no call runs twice, and each key comes to an end.
func TestEtcdLeaderKilled(t *testing.T) {
	raceOnEtcd(t, etcdRace{
		members: 3, store: `,"timeout":"2s"`, delayMS: 100,
		fault: func(f *etcdFleet) (repair func()) {
			var killed *member
			for killed == nil {
				killed = leader(f.t, f.members)
			}
			f.kill(killed.process.PID())
			<-killed.process.Done()
			return killed.start
		},
	}, 3)
}

// An Envoy that is killed in the middle of a race takes its calls along: no call runs twice, and each key ends completed or unknown.
func TestEtcdEnvoyKilled(t *testing.T) {
	victim := 0
	raceOnEtcd(t, etcdRace{
		members: 1, store: `,"timeout":"2s"`, policy: `,"lease":"3s"`, delayMS: 500, unknown: true,
		fault: func(f *etcdFleet) (repair func()) {
			i := victim % len(f.replicas)
			victim++
			f.kill(f.replicas[i].PID())
			return func() {
				f.replicas[i].Close()
				f.replicas[i] = f.replica(i)
			}
		},
	}, 2)
}

// etcdRace is what a race is like.
type etcdRace struct {
	members       int
	store, policy string
	delayMS       int // of each call in a round with a fault, so that it is in the middle
	// fault happens in every tenth round, once a call of it runs; what it returns ends it.
	fault   func(*etcdFleet) (repair func())
	unknown bool // it may leave unknown outcomes
}

// etcdFleet is several Envoys over one etcd, each in front of a server of its own.
type etcdFleet struct {
	etcdRace
	t        *testing.T
	servers  []*payments.Server
	members  []*member
	replicas []*envoytest.Envoy
}

// runs is how often a call was run, and how many run now, at all servers.
func (f *etcdFleet) runs(key string) (ended, running int) {
	for _, s := range f.servers {
		running += s.Book.Running()
		ended += s.Book.CountFor(key)
	}
	return ended, running
}

func (f *etcdFleet) replica(i int) *envoytest.Envoy {
	config := etcdConfig(f.store, f.policy+`,"ttl":"2h"`) // no entry ends within a run
	if f.etcdRace.members > 1 {
		return replica(f.t, f.servers[i], "", config, over(f.members))
	}
	return replica(f.t, f.servers[i], f.members[0].addr, config)
}

func (f *etcdFleet) kill(pid int) {
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		f.t.Fatal(err)
	}
}

// raceOnEtcd plays a few rounds with so many Envoys; in a long run 200, with two and with three.
func raceOnEtcd(t *testing.T, race etcdRace, envoys ...int) {
	rounds := 5
	if os.Getenv("CALLONCE_LONG_RUN") != "" {
		rounds, envoys = 200, []int{2, 3}
	}
	for _, n := range envoys {
		t.Run(fmt.Sprint(n, " Envoys"), func(t *testing.T) {
			f := &etcdFleet{etcdRace: race, t: t}
			if race.members > 1 {
				f.members = startMembers(t, race.members)
			} else {
				f.members = []*member{startMember(t)}
			}
			for i := range n {
				f.servers = append(f.servers, startPayments(t, payments.Options{Stateless: true, JSON: true}))
				f.replicas = append(f.replicas, f.replica(i))
				pay(t, f.replicas[i], fmt.Sprint("warm", i), 0)
			}
			f.play(rounds)
		})
	}
}

func (f *etcdFleet) play(rounds int) {
	t, h := f.t, observe(f.t, f.members)
	ends, ran := map[string]int{}, map[int]int{}
	total, faulty := map[string]int{}, map[string]int{}
	for round := range rounds {
		key, delay, told := fmt.Sprint("race-", round), round%3*10, total
		fails := f.fault != nil && round%10 == 2
		if fails {
			delay, told = f.delayMS, faulty
		}
		h.begin(key, delay)
		var mu sync.Mutex
		var all sync.WaitGroup
		start := make(chan struct{})
		for i := range 200 {
			e := f.replicas[i%len(f.replicas)]
			all.Go(func() {
				<-start
				if fails && i >= 100 {
					time.Sleep(time.Duration(i*2) * time.Millisecond) // while the fault lasts
				}
				kind := h.pay(e)
				mu.Lock()
				told[kind]++
				mu.Unlock()
			})
		}
		close(start)
		if fails {
			awaitRun(t, func() bool { ended, running := f.runs(key); return ended+running > 0 }) // it may be over before we look
			repair := f.fault(f)
			all.Wait()
			repair()
		}
		all.Wait()
		end := ""
		for i, e := range f.replicas {
			got := h.payUntilSettled(e)
			switch {
			case got == "first" && end == "": // nobody had got it to run
			case got != "replay" && !(got == outcomeUnknown && f.unknown), end != "" && end != "first" && got != end:
				t.Errorf("%s once more at %d: got %s after %s", key, i, got, end)
			}
			end = got
		}
		ends[end]++
		n, running := f.runs(key)
		for ; running > 0; n, running = f.runs(key) {
			time.Sleep(5 * time.Millisecond) // of a killed proxy; it ends all the same
		}
		ran[n]++
		if n > 1 || n == 0 && end == "replay" {
			t.Fatalf("%s ran %d times, and ends as %s", key, n, end)
		}
	}
	t.Logf("%d rounds; runs of a key: %v; ends: %v; answers: %v; in rounds with a fault: %v", rounds, ran, ends, total, faulty)
	if total["first"] > rounds {
		t.Errorf("%d first answers in %d rounds", total["first"], rounds)
	}
	h.judge()
}
