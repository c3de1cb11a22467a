package main

import (
	"fmt"
	"math"
	"slices"
)

// estimate is the median over processes of what was measured in each, with its standard error.
type estimate struct {
	median, err float64
	processes   int
}

// estimateOf takes one value of each process. The standard error is that of the median of a normal distribution, √(π/2) times
// the mean's; NaN of a single process, which says nothing of others.
func estimateOf(values []float64) estimate {
	e := estimate{median: math.NaN(), err: math.NaN(), processes: len(values)}
	if len(values) == 0 {
		return e
	}
	e.median = median(values)
	if len(values) < 2 {
		return e
	}
	var sum, squares float64
	for _, v := range values {
		sum += v
	}
	mean := sum / float64(len(values))
	for _, v := range values {
		squares += (v - mean) * (v - mean)
	}
	e.err = math.Sqrt(math.Pi / 2 * squares / float64(len(values)-1) / float64(len(values)))
	return e
}

// text spells it in two cells: the median and its error.
func (e estimate) text(verb string) string {
	if math.IsNaN(e.err) {
		return fmt.Sprintf(verb+"\t?", e.median)
	}
	return fmt.Sprintf(verb+"\t±%.1f", e.median, e.err)
}

func median(values []float64) float64 { return quantile(slices.Sorted(slices.Values(values)), 2) }

// less returns a less b, wave by wave: what a wave's processes have in common is in neither.
func less(a, b []float64) []float64 {
	out := make([]float64, min(len(a), len(b)))
	for i := range out {
		out[i] = a[i] - b[i]
	}
	return out
}
