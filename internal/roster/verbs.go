package roster

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/goworker/goworker/internal/control"
	"github.com/goworker/goworker/internal/outcome"
)

// changed is the answer to a verb.
type changed[T any] struct {
	From     T       `json:"from"`
	To       T       `json:"to"`
	Settings T       `json:"settings"`
	For      float64 `json:"for,omitempty"` // seconds; then the former number returns
	Fixed    bool    `json:"autoscale_fixed,omitempty"`
	Busy     []busy  `json:"busy,omitempty"`
}

type busy struct {
	Worker string    `json:"worker"`
	Queue  string    `json:"queue"`
	Since  time.Time `json:"since"`
}

func answer[T any](c Change[T], err error) (any, error) { return answerFor(c, 0, err) }

func answerFor[T any](c Change[T], lasts time.Duration, err error) (any, error) {
	a := changed[T]{From: c.From, To: c.To, Settings: c.Settings, Fixed: c.Fixed, For: lasts.Seconds()}
	for _, j := range c.Busy {
		a.Busy = append(a.Busy, of(j))
	}
	return a, err
}

func of(j *outcome.Job) busy { return busy{j.Worker, j.Queue, j.StartedAt} }

// Verbs are the verbs by which operators change the concurrency and the queues.
func (r *Roster) Verbs() []control.Verb {
	return []control.Verb{
		{Name: "concurrency", Level: control.On, Whole: true, Help: "Change how many jobs run at a time, for a while or until the process ends: N, +N or -N", Do: r.doResize},
		{Name: "work-queues", Level: control.Full, Help: "Change which queues it works, until the process ends: add, remove or set some", Do: r.doRelist},
	}
}

// MostLapse is how long a change of the concurrency may last that ends by itself.
const MostLapse = 7 * 24 * time.Hour

// doResize changes the concurrency as an operator says: "12", "+4" or "-4". A number above the settings needs the level full.
func (r *Roster) doResize(ctx context.Context, c *control.Call) (any, error) {
	var args struct {
		Workers string  `json:"workers"`
		For     float64 `json:"for"`
	}
	if err := c.Decode(&args); err != nil {
		return nil, err
	}
	lasts, err := control.For(args.For, MostLapse)
	if err != nil {
		return nil, err
	}
	n, more, err := ParseWorkers(args.Workers)
	if more {
		n += r.workers()
	}
	switch {
	case err != nil:
		return nil, err
	case n < 1 || n > MostWorkers:
		return nil, fmt.Errorf("workers is %q, which makes %d: %w", args.Workers, n, errWorkers)
	case n > max(int(r.usual.Load()), r.Most):
		if err := c.Full(); err != nil {
			return nil, err
		}
	}
	change, err := r.ResizeFor(ctx, n, lasts)
	return answerFor(change, lasts, err)
}

var errWorkers = fmt.Errorf("it must be a number from 1 to %d, or a change to one, as in +4", MostWorkers)

// ParseWorkers reads how many jobs are to run at a time: "12", or so many more or fewer than do, as "+4" and "-4".
func ParseWorkers(text string) (n int, more bool, err error) {
	if n, err = strconv.Atoi(text); err == nil {
		more = strings.ContainsAny(text[:1], "+-")
	}
	if err != nil || !more && n < 1 || n > MostWorkers || n < -MostWorkers {
		return 0, false, fmt.Errorf("workers is %q: %w", text, errWorkers)
	}
	return n, more, nil
}

// workers returns how many jobs are to run at a time.
func (r *Roster) workers() int {
	if r.Team != nil {
		return r.Team.Workers()
	}
	return r.Lease.Wanted().Workers
}

// doRelist changes the list as an operator says.
func (r *Roster) doRelist(ctx context.Context, c *control.Call) (any, error) {
	var args struct{ Add, Remove, Set []string }
	if err := c.Decode(&args); err != nil {
		return nil, err
	}
	given := 0
	for _, lists := range [][]string{args.Add, args.Remove, args.Set} {
		if lists != nil {
			given++
		}
	}
	switch {
	case given != 1:
		return nil, errors.New(`the arguments must have one of "add", "remove" and "set", each a list of queues`)
	case args.Add != nil:
		return answer(r.Add(ctx, args.Add...))
	case args.Remove != nil:
		return answer(r.Remove(ctx, args.Remove...))
	}
	return answer(r.Set(ctx, args.Set...))
}
