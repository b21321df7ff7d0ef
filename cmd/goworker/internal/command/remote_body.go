package command

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/goworker/goworker/cmd/goworker/internal/view"
)

// body writes the answer to a verb of a program for people: a line for each value, with its name before it. Its texts are escaped.
func body(answer json.RawMessage) string {
	d := json.NewDecoder(bytes.NewReader(answer))
	d.UseNumber()
	var value any
	if d.Decode(&value) != nil {
		return "  " + escaped(string(answer)) + "\n"
	}
	var b strings.Builder
	lines(&b, "  ", value)
	return b.String()
}

// lines writes a value of JSON. In a list, an object without objects in it takes one line.
func lines(b *strings.Builder, indent string, value any) {
	switch v := value.(type) {
	case map[string]any:
		for _, key := range keysOf(v) {
			inner := v[key]
			if nested(inner) {
				fmt.Fprintf(b, "%s%s\n", indent, view.Text(key))
				lines(b, indent+"  ", inner)
			} else {
				fmt.Fprintf(b, "%s%s: %s\n", indent, view.Text(key), strings.ReplaceAll(plainValue(inner), "\n", "\n"+indent+"  "))
			}
		}
	case []any:
		for _, one := range v {
			object, ok := one.(map[string]any)
			if !ok || slices.ContainsFunc(keysOf(object), func(key string) bool { return strings.Contains(plainValue(object[key]), "\n") }) {
				lines(b, indent, one)
				continue
			}
			var parts []string
			for _, key := range keysOf(object) {
				parts = append(parts, view.Text(key)+"="+plainValue(object[key]))
			}
			fmt.Fprintf(b, "%s%s\n", indent, strings.Join(parts, "  "))
		}
	default:
		fmt.Fprintf(b, "%s%s\n", indent, plainValue(v))
	}
}

// nested reports whether a value contains values. An empty list or object counts as no value.
func nested(value any) bool {
	switch v := value.(type) {
	case map[string]any:
		return len(v) > 0
	case []any:
		return len(v) > 0
	}
	return false
}

// keysOf are the keys of an object, sorted.
func keysOf(object map[string]any) []string { return slices.Sorted(maps.Keys(object)) }

// plainValue writes a value as text and keeps its lines; "-": it is empty.
func plainValue(value any) string {
	switch v := value.(type) {
	case string:
		return view.Lines(v)
	case nil:
		return "-"
	}
	text, err := json.Marshal(value)
	if err != nil {
		return ""
	}
	if s := string(text); s == "[]" || s == "{}" {
		return "-"
	}
	return view.Text(string(text))
}
