package main

import (
	"bytes"
	"fmt"
	"image/color"
	"io"
	"math"
	"os"
	"path/filepath"
	"strings"
	"text/tabwriter"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgsvg"
)

// chart is what a plot and the table beside it show: cost in µs of CPU for each request, by one thing that grows.
type chart struct {
	name   string // of the file
	title  string
	x      string // what grows, with its unit
	label  func(x int) string
	at     []int
	series []series
	logY   bool
}

// series is one line of a chart: an estimate for each place of its axis.
type series struct {
	name string
	of   []estimate
}

// report prints the numbers, and draws them where plots are kept.
func (c chart) report(out io.Writer, plots string) error {
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprint(table, c.x)
	for _, s := range c.series {
		fmt.Fprintf(table, "\t%s\t", s.name)
	}
	fmt.Fprintln(table)
	for i, x := range c.at {
		fmt.Fprint(table, c.label(x))
		for _, s := range c.series {
			fmt.Fprintf(table, "\t%s", s.of[i].text("%+.1f"))
		}
		fmt.Fprintln(table)
	}
	if err := table.Flush(); err != nil || plots == "" {
		return err
	}
	text, err := c.svg()
	if err != nil {
		return err
	}
	if err := os.MkdirAll(plots, 0o755); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(plots, c.name+".svg"), text, 0o644)
}

// The colours of lines can be told apart, and seen on white and on black; marks and dashes tell lines apart without them.
var (
	lineColors = []color.RGBA{{0x2f, 0x81, 0xd7, 0xff}, {0xd9, 0x5f, 0x02, 0xff}, {0x1b, 0x9e, 0x77, 0xff}, {0xb0, 0x6f, 0xc4, 0xff}, {0x8a, 0x8a, 0x2a, 0xff}, {0xc4, 0x4e, 0x6e, 0xff}}
	lineMarks  = []draw.GlyphDrawer{draw.CircleGlyph{}, draw.SquareGlyph{}, draw.TriangleGlyph{}, draw.CrossGlyph{}, draw.RingGlyph{}, draw.PlusGlyph{}}
	gridColor  = color.RGBA{0xd8, 0xd8, 0xd8, 0xff}
)

// theme gives text, axes, grid and ground the colours that go with the reader's; lines have one for both.
const theme = `<style>
text{fill:#1f2328;font-family:"Liberation Sans",Arial,Helvetica,sans-serif!important}
@media (prefers-color-scheme:dark){
text{fill:#e6edf3}
path[style*="stroke:#000000"]{stroke:#9da7b3!important}
path[style*="stroke:#D8D8D8"]{stroke:#30363d!important}
path[style*="fill:#FFFFFF"]{fill:#0d1117!important}
}
</style>
`

// svg draws the chart, with error bars of one standard error.
func (c chart) svg() ([]byte, error) {
	p := plot.New()
	sans := font.Font{Typeface: "Liberation", Variant: "Sans", Size: 11}
	p.Title.Text, p.X.Label.Text, p.Y.Label.Text = c.title, c.x, "CPU time above none, µs a request"
	for _, style := range []*font.Font{&p.Title.TextStyle.Font, &p.X.Label.TextStyle.Font, &p.Y.Label.TextStyle.Font, &p.X.Tick.Label.Font,
		&p.Y.Tick.Label.Font, &p.Legend.TextStyle.Font} {
		*style = sans
	}
	p.Title.TextStyle.Font.Size, p.Title.Padding = 13, 8
	p.X.Padding, p.Y.Padding = 6, 6
	p.X.Scale, p.X.Tick.Marker = plot.LogScale{}, c.places()
	if c.logY {
		p.Y.Scale, p.Y.Tick.Marker = plot.LogScale{}, plot.TickerFunc(decades)
	} else {
		p.Y.Min = 0
	}
	p.Legend.Top, p.Legend.Left, p.Legend.Padding, p.Legend.XOffs = true, true, 2, 6
	grid := plotter.NewGrid()
	grid.Vertical.Color, grid.Horizontal.Color = gridColor, gridColor
	p.Add(grid)
	for i, s := range c.series {
		points := c.points(s)
		if len(points.XYs) == 0 {
			continue
		}
		line, marks, err := plotter.NewLinePoints(points.XYs)
		if err != nil {
			return nil, fmt.Errorf("%s, %s: %w", c.name, s.name, err)
		}
		bars, err := plotter.NewYErrorBars(points)
		if err != nil {
			return nil, fmt.Errorf("%s, %s: %w", c.name, s.name, err)
		}
		line.Color, line.Width = lineColors[i%len(lineColors)], 1.5
		if i >= 3 {
			line.Dashes = []vg.Length{5, 3}
		}
		marks.Color, marks.Shape, marks.Radius = line.Color, lineMarks[i%len(lineMarks)], 3
		bars.Color = line.Color
		p.Add(line, marks, bars)
		p.Legend.Add(s.name, line, marks)
	}
	if c.logY {
		p.Y.Min, p.Y.Max = math.Pow(10, math.Floor(math.Log10(p.Y.Min))), math.Pow(10, math.Ceil(math.Log10(p.Y.Max)))
	} else {
		p.Y.Max *= 1.35
	}
	canvas := vgsvg.New(7*vg.Inch, 4.4*vg.Inch)
	// A reader's font may be wider than ours.
	p.Draw(draw.Crop(draw.New(canvas), 6, -22, 4, -6))
	var out bytes.Buffer
	if _, err := canvas.WriteTo(&out); err != nil {
		return nil, err
	}
	// Into the outermost element, behind its attributes.
	head, body, ok := strings.Cut(out.String(), "<g transform")
	if !ok {
		return nil, fmt.Errorf("%s: the drawing has no group", c.name)
	}
	return []byte(head + "<title>" + escape.Replace(c.title) + "</title>\n" + theme + "<g transform" + body), nil
}

var escape = strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;")

// pointsOf are points with the lengths of their error bars.
type pointsOf struct {
	plotter.XYs
	plotter.YErrors
}

// points leaves out what cannot be drawn: no number, and on an axis of powers what is not above zero. The table has it.
func (c chart) points(s series) (out pointsOf) {
	for i, e := range s.of {
		if math.IsNaN(e.median) || c.logY && e.median <= 0 {
			continue
		}
		low, high := e.err, e.err
		if math.IsNaN(e.err) {
			low, high = 0, 0
		}
		if c.logY {
			low = min(low, e.median/2)
		}
		out.XYs = append(out.XYs, plotter.XY{X: float64(c.at[i]), Y: e.median})
		out.YErrors = append(out.YErrors, struct{ Low, High float64 }{low, high})
	}
	return out
}

// places marks the axis where something was measured.
func (c chart) places() plot.Ticker {
	return plot.TickerFunc(func(float64, float64) (ticks []plot.Tick) {
		for _, x := range c.at {
			ticks = append(ticks, plot.Tick{Value: float64(x), Label: c.label(x)})
		}
		return ticks
	})
}

// decades marks an axis of powers at 1, 2 and 5 of each decade; of many decades, at 1 and 3.
func decades(low, high float64) (ticks []plot.Tick) {
	steps := []float64{1, 2, 5}
	if high/low > 1e3 {
		steps = []float64{1, 3}
	}
	for e := math.Floor(math.Log10(low)); e <= math.Ceil(math.Log10(high)); e++ {
		for _, m := range steps {
			if v := m * math.Pow(10, e); v >= low*0.999 && v <= high*1.001 {
				ticks = append(ticks, plot.Tick{Value: v, Label: thousands(int(math.Round(v)))})
			}
		}
	}
	return ticks
}

// thousands spells a number with commas.
func thousands(n int) string {
	text := fmt.Sprint(n)
	for i := len(text) - 3; i > 0 && text[i-1] != '-'; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return text
}

// bytesText spells a size.
func bytesText(n int) string {
	if n < 1<<10 {
		return fmt.Sprintf("%d B", n)
	}
	return fmt.Sprintf("%d KiB", n>>10)
}
