package etcd

import (
	"slices"
	"testing"

	"github.com/callonce/callonce/plugin/internal/etcd/etcdsim"
	"github.com/callonce/callonce/plugin/internal/ledger"
)

// rewriteTxn plants a bug into the transactions.
func rewriteTxn(f func(*etcdsim.Txn) (swallow bool)) func(*world) {
	return func(w *world) {
		w.fault = func(method string, request []byte) ([]byte, bool) {
			if method != MethodTxn {
				return request, false
			}
			x := etcdsim.ReadTxn(request)
			swallow := f(&x)
			return x.Encode(), swallow
		}
	}
}

func putsState(x *etcdsim.Txn) (ledger.State, int) {
	for i, o := range x.Then {
		if r, ok := decodeRecord(o.Value); o.Kind == 2 && ok {
			return r.state, i
		}
	}
	return ledger.Free, -1
}

func dropCompares(x *etcdsim.Txn, what int) {
	x.Compares = slices.DeleteFunc(x.Compares, func(c etcdsim.Compare) bool { return c.Target == what })
}

// plants are bugs, each of which the schedules must find.
func plants() map[string]func(*world) {
	alive := func(w *world) {
		rewriteTxn(func(x *etcdsim.Txn) bool {
			if st, i := putsState(x); st == ledger.InFlight {
				for _, k := range w.workers {
					if r, _ := decodeRecord(x.Then[i].Value); r.holder == k.store.self.incarnation {
						x.Then[i].Lease = k.store.self.alive.id
					}
				}
			}
			return false
		})(w)
	}
	return map[string]func(*world){
		"compare dropped": rewriteTxn(func(x *etcdsim.Txn) bool {
			if st, _ := putsState(x); st == ledger.InFlight {
				dropCompares(x, etcdsim.Create)
			}
			return false
		}),
		"record on the alive lease": alive,
		"settlement without revision": rewriteTxn(func(x *etcdsim.Txn) bool {
			if st, _ := putsState(x); st > ledger.InFlight {
				dropCompares(x, etcdsim.Mod)
			}
			return false
		}),
		"no release after a lost answer": rewriteTxn(func(x *etcdsim.Txn) bool {
			return len(x.Compares) > 0 && x.Compares[0].Target == etcdsim.Value
		}),
		"release given up too early": func(w *world) {
			w.givenUp = 35
			w.tweak = func(s *Store) {
				for _, b := range s.strays {
					b.until = 0
				}
			}
		},
		"take-over without revision": rewriteTxn(func(x *etcdsim.Txn) bool {
			if st, _ := putsState(x); st == ledger.InFlight {
				dropCompares(x, etcdsim.Mod)
			}
			return false
		}),
		"second incarnation not taken": rewriteTxn(func(x *etcdsim.Txn) bool {
			if st, _ := putsState(x); st == ledger.InFlight {
				x.Compares = slices.DeleteFunc(x.Compares, func(c etcdsim.Compare) bool { return c.Target == etcdsim.Version && c.Greater })
			}
			return false
		}),
		"settlements not tried again": func(w *world) {
			w.tweak = func(s *Store) {
				for fence, h := range s.grants {
					if h.gone && !h.trying {
						delete(s.grants, fence)
					}
				}
			}
		},
	}
}

func TestPlantedFaultsAreFound(t *testing.T) {
	for name, plant := range plants() {
		t.Run(name, func(t *testing.T) {
			for seed := uint64(1); seed <= 6000; seed++ {
				if _, err := playSeed(seed, plant); err != nil {
					t.Logf("found by seed %d: %v", seed, err)
					return
				}
			}
			t.Errorf("not found")
		})
	}
}
