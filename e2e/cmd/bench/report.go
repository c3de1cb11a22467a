package main

import (
	"fmt"
	"io"
	"slices"
	"text/tabwriter"
	"time"
)

// report prints medians and quartiles in µs, and what each case takes above some of
// them, the bases, round by round.
func report(out io.Writer, cases []benchCase, samples [][]time.Duration, bases ...int) {
	table := tabwriter.NewWriter(out, 0, 0, 3, ' ', 0)
	fmt.Fprint(table, "case\tsamples\tmedian\tquartiles")
	for _, base := range bases {
		fmt.Fprintf(table, "\tabove %s\tquartiles", cases[base].name)
	}
	targets := slices.ContainsFunc(cases, func(c benchCase) bool { return c.target != "" })
	if targets {
		fmt.Fprint(table, "\ttarget")
	}
	fmt.Fprintln(table)
	for i, c := range cases {
		fmt.Fprintf(table, "%s\t%d × %d\t%s", c.name, len(samples[i]), c.requests, quartiles(micros(samples[i], nil), "%.0f"))
		for _, base := range bases {
			if base >= i {
				fmt.Fprint(table, "\t\t")
				continue
			}
			fmt.Fprintf(table, "\t%s", quartiles(micros(samples[i], samples[base]), "%+.0f"))
		}
		if targets {
			fmt.Fprintf(table, "\t%s", c.target)
		}
		fmt.Fprintln(table)
	}
	table.Flush()
}

// reportSpeed prints calls per second of CPU time. The cases are pairs, Envoy and what
// is compared with it.
func reportSpeed(out io.Writer, cases []benchCase, samples [][]time.Duration) {
	fmt.Fprint(out, "\nCalls per second of CPU time\n\n")
	table := tabwriter.NewWriter(out, 0, 0, 3, ' ', 0)
	fmt.Fprintln(table, "case\tsamples\tµs a call\tquartiles\tcalls a CPU second\tquartiles\tof Envoy's\tquartiles")
	for i, c := range cases {
		fmt.Fprintf(table, "%s\t%d × %d\t%s\t%s", c.name, len(samples[i]), c.requests,
			quartiles(micros(samples[i], nil), "%.0f"),
			quartiles(ratios(slices.Repeat([]time.Duration{time.Second}, len(samples[i])), samples[i]), "%.0f"))
		if i%2 == 1 {
			fmt.Fprintf(table, "\t%s", quartiles(ratios(samples[i-1], samples[i]), "%.2f"))
		}
		fmt.Fprintln(table)
	}
	table.Flush()
}

// reportStarts prints how long hostsim takes to serve, without and with a cache.
func reportStarts(out io.Writer, starts [2][]start) {
	fmt.Fprint(out, "\nhostsim from its start until it serves, ms\n\n")
	table := tabwriter.NewWriter(out, 0, 0, 3, ' ', 0)
	fmt.Fprintln(table, "cache\tstarts\twall\tquartiles\tCPU\tquartiles")
	for i, name := range []string{"empty", "of an earlier start"} {
		var wall, cpu []float64
		for _, s := range starts[i] {
			wall = append(wall, float64(s.wall.Milliseconds()))
			cpu = append(cpu, float64(s.cpu.Milliseconds()))
		}
		slices.Sort(wall)
		slices.Sort(cpu)
		fmt.Fprintf(table, "%s\t%d\t%s\t%s\n", name, len(wall), quartiles(wall, "%.0f"), quartiles(cpu, "%.0f"))
	}
	table.Flush()
}

// quartiles spells the median and, in a cell of their own, the other two.
func quartiles(sorted []float64, verb string) string {
	return fmt.Sprintf(verb+"\t"+verb+"–"+verb, quantile(sorted, 2), quantile(sorted, 1), quantile(sorted, 3))
}

// micros returns samples, less those of the same round in base when there is one, in
// µs and sorted.
func micros(samples, base []time.Duration) []float64 {
	sorted := make([]float64, len(samples))
	for i, s := range samples {
		if base != nil {
			s -= base[i]
		}
		sorted[i] = float64(s.Nanoseconds()) / 1000
	}
	slices.Sort(sorted)
	return sorted
}

// ratios returns a to b, round by round, sorted.
func ratios(a, b []time.Duration) []float64 {
	sorted := make([]float64, len(a))
	for i := range a {
		sorted[i] = float64(a[i]) / float64(b[i])
	}
	slices.Sort(sorted)
	return sorted
}

// quantile returns the q-th quartile of sorted numbers, between neighbours where it
// falls between them.
func quantile(sorted []float64, q int) float64 {
	at := float64(q) / 4 * float64(len(sorted)-1)
	low := int(at)
	high := min(low+1, len(sorted)-1)
	return sorted[low] + (at-float64(low))*(sorted[high]-sorted[low])
}

// counted spells a number of things.
func counted(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}
