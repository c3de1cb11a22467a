package main

import (
	"fmt"
	"io"
	"slices"
	"text/tabwriter"
	"time"

	"github.com/callonce/callonce/e2e/envoytest"
)

// report prints medians and quartiles in µs. The first case is what the others are
// compared with, round by round.
func report(out io.Writer, cases []benchCase, samples [][]time.Duration) {
	fmt.Fprint(out, "\nCPU time of Envoy per request, µs\n\n")
	table := tabwriter.NewWriter(out, 0, 0, 3, ' ', 0)
	fmt.Fprintln(table, "case\tmedian\tquartiles\tabove no filter\tquartiles\ttarget")
	for i, c := range cases {
		own := micros(samples[i], nil)
		fmt.Fprintf(table, "%s\t%.0f\t%.0f–%.0f", c.name, quantile(own, 2), quantile(own, 1), quantile(own, 3))
		if i > 0 {
			above := micros(samples[i], samples[0])
			fmt.Fprintf(table, "\t%+.0f\t%+.0f–%+.0f\t%s", quantile(above, 2), quantile(above, 1), quantile(above, 3), c.target)
		}
		fmt.Fprintln(table)
	}
	table.Flush()
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

// quantile returns the q-th quartile of sorted numbers, between neighbours where it
// falls between them.
func quantile(sorted []float64, q int) float64 {
	at := float64(q) / 4 * float64(len(sorted)-1)
	low := int(at)
	high := min(low+1, len(sorted)-1)
	return sorted[low] + (at-float64(low))*(sorted[high]-sorted[low])
}

// reportMemory prints what the filter adds to Envoy's memory after all that load.
func reportMemory(out io.Writer, without, with *envoytest.Envoy) error {
	bare, err := without.Resident()
	if err != nil {
		return err
	}
	filtered, err := with.Resident()
	if err != nil {
		return err
	}
	// One worker's VM and two of the main thread (see the README of envoy/).
	const vms = 3
	const mib = 1 << 20
	fmt.Fprintf(out, "\nResident memory of Envoy: %d MiB without the filter, %d MiB with it in %d VMs: %d MiB each (target: ≤ 45)\n",
		bare/mib, filtered/mib, vms, (filtered-bare)/mib/vms)
	return nil
}
