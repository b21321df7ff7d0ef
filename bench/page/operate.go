package page

import "github.com/goworker/goworker/bench/result"

// operated is what the history, samples, operations, control and events take, and whether their bounds are held.
func operated(f result.File) string {
	var t table
	t.head("", "measured", "beside", "in", "ratio", "bound", "held")
	empty := true
	for _, b := range f.Bounds() {
		held := b.Held()
		if held == result.Unknown {
			continue
		}
		empty = false
		beside, ratio := "", ""
		if b.Compared() {
			beside, ratio = result.Number(b.Beside), result.Number(b.Value())+"×"
		}
		said := held.String()
		if held == result.No {
			said = "**no**"
		}
		t.row(b.What, result.Number(b.Measured), beside, b.Unit, ratio, b.Allowed(), said)
	}
	if empty {
		return notMeasured
	}
	return t.String()
}
