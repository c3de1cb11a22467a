package schedule

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/callonce/callonce/hostsim"
	"github.com/callonce/callonce/hostsim/hosttest"
)

// Answers to callouts are steps: they come in every order, and one that is lost ends at its deadline.
func TestCalloutsAreOrderedAndLost(t *testing.T) {
	code, err := hostsim.Compile(context.Background(), hostsim.Config{Wasm: hosttest.Build(t, "../testdata/probe")})
	if err != nil {
		t.Fatal(err)
	}
	defer code.Close(context.Background())
	seen := map[string]bool{}
	var mu sync.Mutex
	for seed := uint64(1); seed <= 60; seed++ {
		var order []string
		var arrived []*hostsim.Arrival
		asked, late := 0, false
		s := Scenario{
			Host: hostsim.Config{Code: code, Workers: 2, HoldHeaders: true, PluginConfig: []byte("start register probe\n"),
				Servers: map[string]func(*hostsim.Arrival){"store": func(a *hostsim.Arrival) { arrived = append(arrived, a) }},
				Log: func(_ int, _ hostsim.LogLevel, text string) {
					for _, what := range []string{"message", "close 14"} {
						if name, _, ok := strings.Cut(text, " grpc 1 to the plugin: "+what); ok {
							mu.Lock()
							order = append(order, strings.TrimPrefix(name, "probe: ")+" "+what)
							mu.Unlock()
						}
					}
				}},
			Offer: func(w *World) (out []Option) {
				for n := asked; n < 2; n++ {
					out = append(out, Option{Name: fmt.Sprint("client ", n), Do: func() {
						asked++
						w.Host.Play(n, hostsim.Request{Method: "POST", Path: "/", Authority: "h", Body: []byte("b"), Headers: []hostsim.Header{
							{Name: "x-name", Value: fmt.Sprint("S", n)},
							{Name: "x-do", Value: "rh pause; rb pause; re pause; re grpc store Echo 1000 hello; grpc reply 200 done"}}})
					}})
					break
				}
				for i, a := range arrived {
					if !a.Gone() {
						out = append(out, Option{Name: fmt.Sprint("answer ", i), Do: func() { a.RespondGrpc([]byte("hi"), 0, "") }})
					}
				}
				if len(arrived) == 2 && !late && !w.Busy() {
					out = append(out, Option{Name: "the deadline", Do: func() { late = true; w.Advance(time.Second) }})
				}
				return out
			},
		}
		if err := Play(context.Background(), s, Random(seed)); err != nil {
			t.Fatal(err)
		}
		if len(order) != 2 {
			t.Fatalf("seed %d: two calls end as %q", seed, order)
		}
		seen[strings.Join(order, ", ")] = true
	}
	for _, want := range []string{"S0 message, S1 message", "S1 message, S0 message", "S0 message, S1 close 14", "S1 message, S0 close 14"} {
		if !seen[want] {
			t.Errorf("no schedule shows %q; seen: %v", want, seen)
		}
	}
}
