package view

import (
	"slices"
	"strings"

	"github.com/charmbracelet/x/ansi"
)

// Column is a column of a Table.
type Column struct {
	Head  string
	Right bool // its cells stand at the right, as numbers do
	Prose bool // what is cut of its cells is their end, as of a sentence; of a name it is the middle
	Cut   bool // its cells are cut where the line would be too long; in one table, those of several columns in proportion
}

// Table is a table of names and numbers.
type Table struct {
	Columns []Column
	Rows    [][]string // already escaped
}

// least is how many cells a column that is cut keeps.
const least = 8

// Draw returns the lines of the table, none wider than so many cells where its columns can be cut so far. A width of 0 cuts
// nothing.
func (t Table) Draw(width int) string {
	widths := make([]int, len(t.Columns))
	for n, c := range t.Columns {
		widths[n] = Width(c.Head)
		for _, row := range t.Rows {
			if n < len(row) {
				widths[n] = max(widths[n], Width(row[n]))
			}
		}
	}
	const gap = 2
	total := (len(widths) - 1) * gap
	for _, w := range widths {
		total += w
	}
	for width > 0 && total > width {
		at := -1
		for n, c := range t.Columns { // the widest gives way
			if c.Cut && widths[n] > max(least, Width(c.Head)) && (at < 0 || widths[n] > widths[at]) {
				at = n
			}
		}
		if at < 0 {
			break
		}
		widths[at]--
		total--
	}
	var b strings.Builder
	line := func(cells []string) {
		var l strings.Builder
		for n, cell := range cells {
			if n > 0 {
				l.WriteString(strings.Repeat(" ", gap))
			}
			switch c := t.Columns[n]; {
			case c.Cut && c.Prose:
				cell = ansi.Truncate(cell, widths[n], "…")
			case c.Cut:
				cell = Cut(cell, widths[n])
			}
			l.WriteString(pad(cell, widths[n], t.Columns[n].Right))
		}
		b.WriteString(strings.TrimRight(l.String(), " "))
		b.WriteByte('\n')
	}
	heads := make([]string, len(t.Columns))
	for n, c := range t.Columns {
		heads[n] = c.Head
	}
	if slices.ContainsFunc(heads, func(h string) bool { return h != "" }) {
		line(heads)
	}
	for _, row := range t.Rows {
		line(row)
	}
	return b.String()
}

// Pairs draws names and values below one another, for one thing that is shown. It breaks long values and cuts nothing.
func Pairs(width int, pairs ...[2]string) string {
	widest := 0
	for _, p := range pairs {
		widest = max(widest, Width(p[0]))
	}
	var b strings.Builder
	for _, p := range pairs {
		if p[1] == "" {
			continue
		}
		value := p[1]
		if width > 0 {
			value = ansi.Hardwrap(value, max(least, width-widest-2), true)
		}
		for n, l := range strings.Split(value, "\n") {
			name := p[0]
			if n > 0 {
				name = ""
			}
			b.WriteString(strings.TrimRight(pad(name, widest, false)+"  "+l, " "))
			b.WriteByte('\n')
		}
	}
	return b.String()
}
