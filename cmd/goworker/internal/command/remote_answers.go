package command

import (
	"errors"
	"fmt"
	"io"
	"iter"
	"strings"

	"github.com/goworker/goworker/cmd/goworker/internal/view"
	"github.com/goworker/goworker/control"
)

// answers prints the answer of each process as it comes. did is the word for that: "answered". Its error counts the processes that have
// not; each of them has a line of its own.
func (o *operator) answers(verb, did string, call iter.Seq2[control.Reply, error]) error {
	var all, refusals, silences, deaf int
	for r, err := range call {
		var silent *control.SilentError
		var refused *control.RefusedError
		switch all++; {
		case err == nil:
		case errors.As(err, &silent) && (silent.Off || silent.TooOld):
			deaf++
		case errors.As(err, &silent):
			silences++
		case errors.As(err, &refused):
			refusals++
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
	done := all - refusals - silences - deaf
	if done == all {
		return nil
	}
	var why []string
	for _, of := range []struct {
		n     int
		words string
	}{{refusals, "refused"}, {silences, "silent"}, {deaf, "without remote control"}} {
		if of.n > 0 {
			why = append(why, view.Count(int64(of.n))+" "+of.words)
		}
	}
	err := fmt.Errorf("%s of %s %s: %s", view.Count(int64(done)), processes(all), did, andList(why))
	if done == 0 {
		return exitError{exitFailed, fmt.Errorf("no process %s: %s", did, andList(why))}
	}
	return exitError{exitPartly, err}
}

// printAnswer prints the answer of one process, or why it has not answered.
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
		if r.Name != "" {
			name += " (" + escaped(r.Name) + ")"
		}
		if refused != nil {
			why = "refused: " + why
		}
		text := name + " " + strings.ReplaceAll(view.Lines(why), "\n", "\n  ")
		if o.width > 0 && !strings.Contains(text, "\n") {
			text = view.Wrap(text, o.width, "  ")
		}
		return o.print(nil, text)
	}
	if r.Name != "" {
		name += "   " + escaped(r.Name)
	}
	head := fmt.Sprintf("%s   %s   %s", name, view.Span(r.After), escaped(r.Version))
	if verb == control.Ping {
		var pong control.PingAnswer
		if err := r.Decode(&pong); err != nil {
			return err
		}
		head += fmt.Sprintf("   up %s   %s, %d busy", spanOf(pong.Up), view.Plural(int64(pong.Workers), "worker"), pong.Busy)
	}
	if o.width > 0 && view.Width(head) > o.width {
		head = view.Wrap(head, o.width, "  ")
	}
	if err := o.print(nil, head); err != nil || len(r.Body) == 0 || verb == control.Ping {
		return err
	}
	text, ok := o.drawn(verb, r)
	if !ok {
		text = body(r.Body)
	}
	_, err := io.WriteString(o.out, text)
	return err
}
