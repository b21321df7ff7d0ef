package command

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/goworker/goworker/cmd/goworker/internal/view"
	"github.com/goworker/goworker/inspect"
)

const (
	defaultWatch  = 2 * time.Second
	defaultSample = 2 * time.Second
	leastWatch    = 200 * time.Millisecond
)

func (p *program) status() *cobra.Command {
	var watch, apart time.Duration
	c := p.long(&cobra.Command{
		Use: "status", Short: "Show the queues, who serves them, and what needs attention", Args: noArguments,
		Long: "status shows how many jobs wait, how long the oldest has waited, how fast they come and go, and who serves each queue.\n" +
			"An age is exact (the job says when it was enqueued), counted (≈), seen (>: at least so long) or unknown (?).\n" +
			"On a terminal it looks twice, --sample apart, so that there are rates. With --watch it goes on.",
		Example: "  goworker status\n  goworker status --watch\n  goworker status --json --sample 2s",
	}, func(ctx context.Context, o *operator, _ []string) error {
		switch {
		case watch != 0 && watch < leastWatch:
			return usagef("--watch is %s; it takes at least %s", watch, leastWatch)
		case watch != 0 && o.json:
			return o.watchLines(ctx, watch)
		case watch != 0:
			return o.watch(ctx, watch)
		}
		if !o.given.Changed("sample") && o.terminal && !o.json {
			apart = defaultSample
		}
		s, err := o.look(ctx, nil)
		if apart > 0 && err == nil {
			if err := sleep(ctx, apart); err != nil {
				return err
			}
			s, err = o.look(ctx, &s.Sample)
		}
		if len(s.Sample.Servers) == 0 {
			return err
		}
		return errors.Join(err, o.statusOnce(s)) // of several Redises, what the others say
	})
	c.Flags().DurationVar(&watch, "watch", 0, "go on and look each so often (2s, where no time is given)")
	c.Flags().Lookup("watch").NoOptDefVal = defaultWatch.String()
	c.Flags().DurationVar(&apart, "sample", 0, "look twice, so long apart, for rates (2s on a terminal; else once)")
	return c
}

// sleep waits, unless the context ends.
func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// look takes a sample, and compares it with one before. With an error the status is what those of several Redises say that answered.
func (o *operator) look(ctx context.Context, before *inspect.Sample) (view.Status, error) {
	limited, cancel := o.within(ctx)
	defer cancel()
	var options []inspect.SampleOption
	if before != nil {
		options = append(options, inspect.SampleAfter(*before))
	}
	sample, err := o.in.Sample(limited, options...)
	s := view.Status{Sample: sample, Colour: o.colours(), Places: o.places}
	if err = o.late(limited, err); err != nil && len(sample.Servers) == 0 {
		return s, err
	}
	if before != nil && len(before.Servers) == len(sample.Servers) {
		rates := sample.Rates(*before)
		s.Rates = &rates
	}
	s.Alarms = o.alarms(limited, before, sample)
	return s, err
}

// statusOnce prints a status.
func (o *operator) statusOnce(s view.Status) error {
	if o.json {
		return o.statusLines(s)
	}
	_, err := io.WriteString(o.out, view.Frame(s, o.width, 0))
	if a := s.Sample; len(a.Queues) == 0 && a.Workers.All.N == 0 && a.Processed.N == 0 {
		o.note("nothing of Resque is under %s here: does your program use another Redis (-u) or namespace (-n)?", a.Namespace)
	}
	if err == nil && s.Sample.NextQueues != "" {
		o.note("there are more queues: %s are shown; goworker queues ls lists all", view.Count(int64(len(s.Sample.Queues))))
	}
	return err
}

// statusLines prints a status as JSON: a line for all, and one for each queue.
func (o *operator) statusLines(s view.Status) error {
	a := s.Sample
	var servers []view.Object
	for _, r := range a.Servers {
		servers = append(servers, view.Object{
			{Key: "server", Value: r.Name}, {Key: "version", Value: r.Version}, {Key: "role", Value: r.Role}, {Key: "policy", Value: r.Policy},
			{Key: "persistence", Value: r.Persistence}, {Key: "memory", Value: r.Memory}, {Key: "max_memory", Value: r.MaxMemory}, {Key: "clients", Value: r.Clients},
		})
	}
	var warnings []view.Object
	for _, w := range s.Alarms {
		warnings = append(warnings, view.Object{{Key: "text", Value: w.Text}, {Key: "command", Value: w.Command}, {Key: "error", Value: w.Error}})
	}
	object := view.Object{
		{Key: "at", Value: a.At}, {Key: "namespace", Value: a.Namespace}, {Key: "servers", Value: servers},
		{Key: "processed", Value: count(a.Processed)}, {Key: "failed", Value: count(a.Failed)}, {Key: "waiting", Value: count(a.Waiting)},
		{Key: "delayed", Value: count(a.Delayed)}, {Key: "retrying", Value: count(a.Retrying)}, {Key: "failures", Value: count(a.Failures)},
		{Key: "leased", Value: count(a.Leased)}, {Key: "late", Value: age(a.Late)}, {Key: "processes", Value: len(a.Processes)},
		{Key: "workers", Value: count(a.Workers.All)}, {Key: "workers_go", Value: count(a.Workers.Go)}, {Key: "workers_other", Value: count(a.Workers.Other)}, {Key: "workers_dead", Value: count(a.Workers.Dead)},
		{Key: "workers_busy", Value: count(a.Workers.Busy)}, {Key: "http_servers", Value: len(a.Servings)}, {Key: "stuck", Value: len(a.Stuck)},
		{Key: "paused_all", Value: a.PausedAll}, {Key: "queues", Value: count(a.QueueCount)}, {Key: "warnings", Value: warnings},
	}
	if s.Rates != nil {
		object = object.With("processed_rate", rate(s.Rates.Processed)).With("failed_rate", rate(s.Rates.Failed))
	}
	if scaled := s.Scaled(); len(scaled) > 0 {
		var all []view.Object
		for _, p := range scaled {
			all = append(all, autoscaleObject(p.Vitals.Autoscale).With("process", p.ID).With("workers", p.Vitals.Workers))
		}
		object = object.With("autoscale", all)
	}
	if err := o.print(object, ""); err != nil {
		return err
	}
	for _, q := range s.Queues() {
		if err := o.print(queueObject(q, s.Rates), ""); err != nil {
			return err
		}
	}
	return nil
}

// queueObject is a queue in JSON.
func queueObject(q inspect.SampleQueue, rates *inspect.Rates) view.Object {
	object := view.Object{
		{Key: "queue", Value: q.Name}, {Key: "waiting", Value: count(q.Waiting)}, {Key: "in_lanes", Value: count(q.InLanes)},
		{Key: "oldest", Value: age(q.Oldest)}, {Key: "method", Value: method(q.Oldest)}, {Key: "paused", Value: q.Paused},
		{Key: "workers_go", Value: count(q.Go)}, {Key: "workers_other", Value: count(q.Other)}, {Key: "http_servers", Value: count(q.HTTP)},
	}
	if q.Shard != "" {
		object = object.With("shard", q.Shard)
	}
	if rates == nil {
		return object
	}
	r, ok := rates.Queues[q.Name]
	if !ok {
		return object
	}
	object = object.With("in", rate(r.In)).With("out", rate(r.Out)).With("growth", rate(r.Growth))
	if r.EmptyIn > 0 {
		object = object.With("empty_in", r.EmptyIn)
	}
	return object.With("never_empty", r.Never)
}

// count is a number in JSON.
func count(c inspect.Count) any { return bounded(c.Bound, c.N) }

// rate is a rate in JSON.
func rate(r inspect.Rate) any { return bounded(r.Bound, r.PerSecond) }

// bounded is a number in JSON: itself where it is exact, an object that says how it is bounded, or null.
func bounded(b inspect.Bound, n any) any {
	switch b {
	case inspect.Exact:
		return n
	case inspect.AtLeast:
		return view.Object{{Key: "at_least", Value: n}}
	case inspect.AtMost:
		return view.Object{{Key: "at_most", Value: n}}
	}
	return nil
}

// age is an age in JSON, in seconds; its method stands beside it.
func age(a inspect.Age) any {
	if !a.Known() {
		return nil
	}
	return a.For
}

func method(a inspect.Age) any {
	if !a.Known() {
		return nil
	}
	return string(a.Method)
}

// watchLines prints a status each so often, as JSON.
func (o *operator) watchLines(ctx context.Context, every time.Duration) error {
	var before *inspect.Sample
	for {
		s, err := o.look(ctx, before)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err != nil {
			fmt.Fprintln(o.out, view.Object{{Key: "error", Value: err.Error()}}.Line())
		}
		if len(s.Sample.Servers) > 0 {
			if err := o.statusLines(s); err != nil {
				return err
			}
			before = &s.Sample
		}
		if err := sleep(ctx, every); err != nil {
			return err
		}
	}
}
