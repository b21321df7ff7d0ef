package command

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/goworker/goworker/cmd/goworker/internal/view"
	"github.com/goworker/goworker/control"
)

// answers prints what processes answer, each as it comes, and returns how many did not.
func (o *operator) answers(verb string, call iter.Seq2[control.Reply, error]) error {
	var answered, awaited, failed int
	var left []string
	for r, err := range call {
		var silent *control.SilentError
		var refused *control.RefusedError
		switch {
		case err == nil:
			answered, awaited = answered+1, awaited+1
		case errors.As(err, &silent):
			if silent.Off {
				left = append(left, "control is off in "+escaped(r.Process))
			} else if !silent.TooOld {
				awaited++
			}
			failed++
		case errors.As(err, &refused):
			awaited, failed = awaited+1, failed+1
		case errors.Is(err, control.ErrNobody):
			return exitError{exitUnavailable, err}
		case errors.Is(err, control.ErrNoMatch):
			return exitError{exitNothing, err}
		default:
			return err
		}
		if err := o.printAnswer(verb, r, silent, refused); err != nil {
			return err
		}
	}
	if failed == 0 {
		return nil
	}
	tail := ""
	if len(left) > 0 {
		tail = " (" + strings.Join(left, ", ") + ")"
	}
	if awaited == 0 {
		return partly("no process there obeys commands%s", tail)
	}
	return partly("%d of %d answered%s", answered, awaited, tail)
}

// printAnswer prints what one process answered, or why it did not.
func (o *operator) printAnswer(verb string, r control.Reply, silent *control.SilentError, refused *control.RefusedError) error {
	state, why := "answered", ""
	switch {
	case silent != nil && silent.Off:
		state, why = "off", silent.Why()
	case silent != nil && silent.TooOld:
		state, why = "too old", silent.Why()
	case silent != nil:
		state, why = "silent", silent.Why()
	case refused != nil:
		state, why = "refused", refused.Text
	}
	object := view.Object{
		{Key: "process", Value: r.Process}, {Key: "host", Value: r.Host}, {Key: "name", Value: r.Name}, {Key: "version", Value: r.Version},
		{Key: "state", Value: state}, {Key: "after", Value: r.After}, {Key: "error", Value: why}, {Key: "answer", Value: r.Body},
	}
	if silent != nil {
		object = object.With("lease_age", silent.Age)
	}
	if r.Shard != "" {
		object = object.With("shard", r.Shard)
	}
	if o.json {
		return o.print(object, "")
	}
	name := escaped(r.Process)
	if r.Shard != "" {
		name += " at " + escaped(o.places[r.Shard])
	}
	if why != "" {
		text := name + "   " + strings.ReplaceAll(view.Lines(why), "\n", "\n  ")
		if refused != nil {
			text = name + "   refused: " + strings.ReplaceAll(view.Lines(why), "\n", "\n  ")
		}
		if o.width > 0 && !strings.Contains(text, "\n") {
			text = view.Wrap(text, o.width, "  ")
		}
		return o.print(nil, text)
	}
	head := fmt.Sprintf("%s   %s   %s", name, view.Span(r.After), escaped(r.Version))
	if verb == control.Ping {
		var pong control.PingAnswer
		if err := r.Decode(&pong); err != nil {
			return err
		}
		return o.print(nil, fmt.Sprintf("%s  up %s  %s, %d busy", head, view.Span(time.Duration(pong.Up*float64(time.Second))), view.Plural(int64(pong.Workers), "worker"), pong.Busy))
	}
	if err := o.print(nil, head); err != nil || len(r.Body) == 0 {
		return err
	}
	_, err := io.WriteString(o.out, body(r.Body))
	return err
}

// body is an answer for people: a line for each value, with what it is before it. Its texts are escaped.
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

// lines writes a value of JSON. Objects that have no objects in them are one line each where they stand in a list.
func lines(b *strings.Builder, indent string, value any) {
	switch v := value.(type) {
	case map[string]any:
		for _, key := range keysOf(v) {
			switch inner := v[key].(type) {
			case map[string]any, []any:
				fmt.Fprintf(b, "%s%s\n", indent, view.Text(key))
				lines(b, indent+"  ", inner)
			default:
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

// keysOf are the keys of an object, sorted.
func keysOf(object map[string]any) []string { return slices.Sorted(maps.Keys(object)) }

// plainValue is a value as a text, whose lines are kept.
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
	return view.Text(string(text))
}
