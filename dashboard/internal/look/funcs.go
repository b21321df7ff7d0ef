// Package look is what the templates of the dashboard call to draw: numbers and times, icons, states, plots and the
// texts of jobs, and the style and the script that go with them. Nothing here knows a page, a request or Redis.
//
// Everything that a template calls is safe for hostile data: what comes from Redis may have any name, any bytes and any
// number. No function fails while a page is made, and none writes a style attribute, so a strict
// Content-Security-Policy holds.
package look

import (
	"html/template"
	"strings"
)

// Funcs returns the functions of templates by their short names. The times of a page are methods of its Times.
func Funcs() template.FuncMap {
	return template.FuncMap{
		"icon": Icon, "icons": Icons, "state": State, "chip": Chip,

		"n": Whole, "short": Short, "dur": Dur, "bytes": Bytes, "share": Share, "plural": Plural, "persecond": PerSecond,
		"count": Count, "countshort": CountShort, "age": Age, "rate": Rate, "unknown": Unknown,

		"spark": Spark, "bars": Bars, "meter": Meter, "split": SplitMeter, "parts": Parts, "slots": SlotCells, "hist": Hist, "runtime": Runtime,
		"series": SeriesPlot, "columns": ColumnPlot, "heat": HeatMap, "gantt": GanttPlot, "dag": Dag, "day": DayPlot,

		"json": JSON, "msg": Message, "trace": Trace, "text": Text,

		"dict": dict, "list": func(v ...any) []any { return v }, "add": func(a, b int) int { return a + b }, "low": strings.ToLower,
	}
}

// dict makes a map of names and values, for a template that takes several. A name that is no string is left out.
func dict(pairs ...any) map[string]any {
	m := make(map[string]any, len(pairs)/2)
	for i := 0; i+1 < len(pairs); i += 2 {
		if name, ok := pairs[i].(string); ok {
			m[name] = pairs[i+1]
		}
	}
	return m
}
