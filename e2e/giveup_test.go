package e2e_test

import (
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/callonce/callonce/e2e/envoytest"
	"github.com/callonce/callonce/e2e/payments"
)

// Official clients whose own request timeout is below the tool's time, without and with on_disconnect: continue. It logs what each saw.
func TestClientsGiveUp(t *testing.T) {
	if os.Getenv("CALLONCE_LONG_RUN") == "" {
		t.Skip("takes minutes: set CALLONCE_LONG_RUN=1")
	}
	configs := []string{``, `,"on_disconnect":"continue"`}
	seen := map[string]map[string]string{} // client → column → words
	for i, config := range configs {
		for name, json := range map[string]bool{"JSON": true, "events": false} {
			t.Run(fmt.Sprint(name, config), func(t *testing.T) {
				server := startPayments(t, payments.Options{Stateless: true, JSON: json})
				e := startEnvoy(t, envoytest.Options{Plugin: must(t, buildPlugin), Upstream: server.URL(), Workers: 2,
					Config: `{"policies":{"p":{"server":"s","anonymous":true` + config + `}},"default":"p"}`})
				charge := func(client string, patience, pause float64) question {
					return question{Tool: "charge", Arguments: map[string]any{"customer": customer(client), "amount_cents": 5, "delay_ms": 3000}, Key: customer(client), Patience: patience, Pause: pause}
				}
				answers, errs := make([]answersSeen, len(officialClients)), make([]error, len(officialClients))
				var all sync.WaitGroup
				for n, client := range officialClients {
					all.Go(func() {
						answers[n], errs[n] = client.ask(t.Context(), questions{e.URL() + "/mcp", []question{charge(client.name, 1, 0), charge(client.name, 20, 0), charge(client.name, 20, 4)}})
					})
				}
				all.Wait()
				for n, client := range officialClients {
					if errs[n] != nil || len(answers[n].Calls) != 3 {
						t.Fatalf("%s: %v, %+v", client.name, errs[n], answers[n].Calls)
					}
					note(t, seen, i, client.name, answers[n].Calls)
					if n := server.Book.CountFor(customer(client.name)); n != 1 {
						t.Errorf("%s: charged %d times", client.name, n)
					}
				}
			})
		}
	}
	var doc strings.Builder
	doc.WriteString("| client | its first try | without: at once | without: later | with `continue`: at once, and later |\n| --- | --- | --- | --- | --- |\n")
	for _, client := range officialClients {
		s := seen[client.name]
		if s["first0"] != s["first1"] || s["at once1"] != s["later1"] {
			t.Errorf("%s: %v", client.name, s)
		}
		fmt.Fprintf(&doc, "| %s | %s | %s | %s | %s |\n", client.name, s["first0"], s["at once0"], s["later0"], s["at once1"])
	}
	doc.WriteString("\n")
	t.Log("\n" + doc.String())
}

// note keeps what a client saw of its first try, of its repeat at once and of the one later, without (0) and with (1) the option.
func note(t *testing.T, seen map[string]map[string]string, option int, client string, calls []answerSeen) {
	t.Helper()
	if seen[client] == nil {
		seen[client] = map[string]string{}
	}
	for n, column := range []string{"first", "at once", "later"} {
		word := gaveUpWord(calls[n])
		if option == 0 && n == 1 && strings.HasPrefix(word, "refused: ") {
			word = "refused" // in flight or unknown, by whether the proxy has noticed that its client left
		}
		if was, is := seen[client][fmt.Sprint(column, option)]; is && was != word {
			t.Errorf("%s: %s gets %s as JSON or as events, else %s", client, column, word, was)
		}
		seen[client][fmt.Sprint(column, option)] = word
	}
	if a, b := calls[1].Structured["charge_id"], calls[2].Structured["charge_id"]; option == 1 && (a == nil || a != b) {
		t.Errorf("%s: want the first answer twice, got %+v", client, calls[1:])
	}
}

// customer is a client's name as the server takes it.
func customer(client string) string { return strings.NewReplacer(" ", "-", ".", "-").Replace(client) }

// gaveUpWord says what a client was shown.
func gaveUpWord(a answerSeen) string {
	switch kind, _ := a.Data["type"].(string); {
	case a.Kind == "result":
		return "the answer"
	case kind == "idempotency_in_flight", kind == "idempotency_outcome_unknown":
		return "refused: " + kind
	case kind != "":
		return kind
	}
	return a.Kind
}
