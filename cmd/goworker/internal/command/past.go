package command

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/goworker/goworker/cmd/goworker/internal/view"
	"github.com/goworker/goworker/inspect"
	"github.com/goworker/goworker/internal/resque"
	"github.com/goworker/goworker/internal/resque/history"
)

// audit prints what operators changed.
func (p *program) audit() *cobra.Command {
	var count int
	c := p.verb(&cobra.Command{
		Use: "audit", Short: "Show what operators changed, the newest first", Args: noArguments,
	}, func(ctx context.Context, o *operator, _ []string) error {
		if count < 1 || count > resque.MostAudited {
			return usagef("--count takes a number from 1 to %d", resque.MostAudited)
		}
		entries, err := o.in.Audit(ctx, count)
		l := o.list(view.Column{Head: "AT"}, view.Column{Head: "WHO", Cut: true}, view.Column{Head: "DID", Cut: true}, view.Column{Head: "TO", Cut: true, Prose: true},
			view.Column{Head: "CHANGED", Right: true}, view.Column{Head: "WHY", Cut: true, Prose: true})
		for _, e := range entries {
			why := e.Why
			if e.Error != "" {
				why = strings.TrimPrefix(why+"; "+e.Error, "; ")
			}
			l.add(auditObject(e), view.Time(e.At), auditWho(e), e.What, auditOn(e), auditChanged(e), why)
		}
		return l.close("nothing was changed by an operator", err)
	})
	c.Flags().IntVarP(&count, "count", "c", 20, "how many to print")
	return c
}

// auditWho says who made a change. It names the program and the user of Redis where these are not the usual ones.
func auditWho(e inspect.AuditEntry) string {
	text := e.Who
	if e.Face != "" && e.Face != face {
		text += " via " + e.Face
	}
	if e.User != "" && e.User != "default" && e.User != "?" {
		text += " as " + e.User
	}
	return text
}

// auditOn says what a change concerned, and what was there before.
func auditOn(e inspect.AuditEntry) string {
	if e.Old == "" {
		return e.On
	}
	return e.On + ", was " + e.Old
}

// auditChanged says how much was changed. A change that was about to be made has no number: another entry has it.
func auditChanged(e inspect.AuditEntry) string {
	if e.Intent {
		return "begun"
	}
	return view.Count(e.Changed)
}

// auditObject is a change in JSON.
func auditObject(e inspect.AuditEntry) view.Object {
	o := view.Object{
		{Key: "at", Value: e.At}, {Key: "who", Value: e.Who}, {Key: "user", Value: e.User}, {Key: "face", Value: e.Face}, {Key: "why", Value: e.Why},
		{Key: "what", Value: e.What}, {Key: "on", Value: e.On}, {Key: "old", Value: e.Old}, {Key: "intent", Value: e.Intent},
		{Key: "changed", Value: e.Changed}, {Key: "error", Value: e.Error},
	}
	if e.Shard != "" {
		o = o.With("shard", e.Shard)
	}
	return o
}

// log prints what happened to the fleet.
func (p *program) log() *cobra.Command {
	var count int
	var follow bool
	var from string
	c := p.long(&cobra.Command{
		Use: "log", Short: "Show which processes started, stopped or were lost", Args: noArguments,
	}, func(ctx context.Context, o *operator, _ []string) error {
		if count < 1 || count > history.MostLogged {
			return usagef("--count takes a number from 1 to %d", history.MostLogged)
		}
		next, printed := from, 0
		for {
			limited, cancel := o.within(ctx)
			entries, goOn, err := o.in.Log(limited, next, count)
			err = o.late(limited, err)
			cancel()
			l := o.list(view.Column{}, view.Column{}, view.Column{Cut: true}, view.Column{Cut: true}, view.Column{Cut: true, Prose: true})
			for _, e := range entries {
				l.add(logObject(e), view.Time(e.At), e.Kind, e.Process, e.Version, e.Text)
			}
			printed += l.rows
			none := ""
			if printed == 0 && !follow && err == nil {
				none = "nothing has happened to the fleet, as far as goworker's processes know"
			}
			if err := l.end(none); err != nil {
				return err
			}
			if ctx.Err() != nil || err != nil && !follow {
				return cmp.Or(ctx.Err(), err)
			}
			if err == nil {
				next = goOn
			}
			if !follow {
				if printed > 0 {
					o.note("what happens later: --from %s", next)
				}
				return nil
			}
			if err := sleep(ctx, time.Second); err != nil {
				return err
			}
		}
	})
	c.Flags().IntVarP(&count, "count", "c", 50, "how many to print")
	c.Flags().StringVar(&from, "from", "", "print what happened later than another call printed, which ended with this")
	c.Flags().BoolVarP(&follow, "follow", "f", false, "go on: print what happens from now on")
	return c
}

// logObject is an event in JSON.
func logObject(e inspect.LogEntry) view.Object {
	o := view.Object{{Key: "at", Value: e.At}, {Key: "kind", Value: e.Kind}, {Key: "process", Value: e.Process}, {Key: "version", Value: e.Version}, {Key: "text", Value: e.Text}}
	for _, key := range slices.Sorted(maps.Keys(e.More)) {
		o = o.With("more_"+key, e.More[key])
	}
	if e.Shard != "" {
		o = o.With("shard", e.Shard)
	}
	return o
}

// steps are the spans of time that a row of the history may have.
var steps = map[string]time.Duration{"minute": time.Minute, "10m": 10 * time.Minute, "hour": time.Hour, "day": 24 * time.Hour}

// history prints what the fleet did.
func (p *program) history() *cobra.Command {
	var q inspect.HistoryQuery
	var since time.Duration
	var step string
	var classes bool
	c := p.verb(&cobra.Command{
		Use: "history", Short: "Show what ran in the last minutes, hours or days", Args: noArguments,
		Long: "history shows how many jobs ended and how, how long they ran and waited, and how busy the workers were.\n" +
			"It is counted by goworker's processes and HTTP servers: what Ruby's workers do is not in it.",
		Example: "  goworker history\n  goworker history --since 24h --step hour --class SendEmail\n  goworker history --classes",
	}, func(ctx context.Context, o *operator, _ []string) error {
		if step != "" {
			var ok bool
			if q.Step, ok = steps[step]; !ok {
				return usagef("--step is %q; it takes minute, 10m, hour or day", step)
			}
		}
		if since > 0 {
			q.Since = time.Now().Add(-since)
		}
		h, err := o.in.History(ctx, q)
		switch {
		case len(h.Rows) == 0 && err != nil:
			return err
		case classes:
			return errors.Join(err, o.historyOfClasses(h))
		}
		return errors.Join(err, o.historyOfTime(h, q))
	})
	f := c.Flags()
	f.DurationVar(&since, "since", 0, "how far to look back (2h by minutes, 48h by 10m, 14 days by hours, 90 days by days)")
	f.StringVar(&step, "step", "", "the time of a row: minute, 10m, hour or day (the shortest that is kept so long)")
	f.StringVar(&q.Class, "class", "", "only this class")
	f.StringVar(&q.Queue, "queue", "", "only this queue")
	f.BoolVar(&classes, "classes", false, "a row a class, over the whole time")
	return c
}

// historyOfTime prints a row for each span of time.
func (o *operator) historyOfTime(h inspect.History, q inspect.HistoryQuery) error {
	l := o.list(view.Column{Head: "FROM"}, view.Column{Head: "DONE", Right: true}, view.Column{Head: "FAILED", Right: true}, view.Column{Head: "RETRIED", Right: true},
		view.Column{Head: "RUN P50", Right: true}, view.Column{Head: "RUN P95", Right: true}, view.Column{Head: "WAITING", Right: true}, view.Column{Head: "BUSY", Right: true})
	for _, r := range h.Rows {
		sum := sumOf(r.Classes)
		if q.Class == "" && q.Queue != "" {
			sum = inspect.ClassHistory{Done: r.Queues[q.Queue].Done, Failed: r.Queues[q.Queue].Failed}
		}
		waiting := "?"
		if q.Queue != "" {
			if d := r.Queues[q.Queue].Depth; d.Looks > 0 {
				waiting = view.Count(int64(d.Mean()))
			}
		} else if r.Fleet.Waiting.Looks > 0 {
			waiting = view.Count(int64(r.Fleet.Waiting.Mean()))
		}
		object := historyObject(sum).With("waiting", level(r.Fleet.Waiting)).With("delayed", level(r.Fleet.Delayed)).With("failures", level(r.Fleet.Failures)).
			With("processes", level(r.Fleet.Processes)).With("stuck", level(r.Fleet.Stuck)).With("memory", level(r.Fleet.Memory)).
			With("worker_seconds", r.Fleet.Present).With("busy_seconds", r.Fleet.Busy).With("dropped", r.Fleet.Dropped).With("queues", queuesObject(r.Queues))
		object = append(view.Object{{Key: "at", Value: r.At}, {Key: "step", Value: h.Step}, {Key: "open", Value: r.Open}}, object...)
		l.add(object, view.Time(r.At), view.Count(sum.Done), view.Count(sum.Failed), view.Count(sum.Retried), quantile(sum.Runs, 0.5), quantile(sum.Runs, 0.95),
			waiting, view.Percent(int64(r.Fleet.Busy), int64(r.Fleet.Present)))
	}
	return l.end(noHistory)
}

const noHistory = "there is no history: goworker's processes and HTTP servers count it, and none has run here in that time"

// historyOfClasses prints a row for each class.
func (o *operator) historyOfClasses(h inspect.History) error {
	all := make(map[string]inspect.ClassHistory)
	for _, r := range h.Rows {
		for name, c := range r.Classes {
			all[name] = addHistory(all[name], c)
		}
	}
	l := o.list(view.Column{Head: "CLASS", Cut: true}, view.Column{Head: "DONE", Right: true}, view.Column{Head: "FAILED", Right: true}, view.Column{Head: "RETRIED", Right: true},
		view.Column{Head: "RUN P50", Right: true}, view.Column{Head: "RUN P95", Right: true}, view.Column{Head: "WAIT P95", Right: true}, view.Column{Head: "RAN", Right: true})
	names := slices.SortedFunc(maps.Keys(all), func(a, b string) int {
		return cmp.Or(cmp.Compare(all[b].Runs.Sum(), all[a].Runs.Sum()), cmp.Compare(a, b))
	})
	for _, name := range names {
		c := all[name]
		l.add(append(view.Object{{Key: "class", Value: name}}, historyObject(c)...), name, view.Count(c.Done), view.Count(c.Failed), view.Count(c.Retried),
			quantile(c.Runs, 0.5), quantile(c.Runs, 0.95), quantile(c.Waits, 0.95), view.Span(c.Runs.Sum()))
	}
	return l.end(noHistory)
}

func sumOf(classes map[string]inspect.ClassHistory) (sum inspect.ClassHistory) {
	for _, c := range classes {
		sum = addHistory(sum, c)
	}
	return sum
}

func addHistory(a, b inspect.ClassHistory) inspect.ClassHistory {
	return inspect.ClassHistory{
		Done: a.Done + b.Done, Failed: a.Failed + b.Failed, Retried: a.Retried + b.Retried, Snoozed: a.Snoozed + b.Snoozed, Returned: a.Returned + b.Returned,
		Passed: a.Passed + b.Passed, Discarded: a.Discarded + b.Discarded, Expired: a.Expired + b.Expired, Cancelled: a.Cancelled + b.Cancelled,
		Gathered: a.Gathered + b.Gathered, Processed: a.Processed + b.Processed, Runs: a.Runs.Add(b.Runs), Waits: a.Waits.Add(b.Waits),
	}
}

func quantile(d inspect.Durations, q float64) string {
	if d.Count() == 0 {
		return "-"
	}
	return view.Span(d.Quantile(q))
}

// historyObject says in JSON how jobs ended.
func historyObject(c inspect.ClassHistory) view.Object {
	durations := func(d inspect.Durations) any {
		if d.Count() == 0 {
			return nil
		}
		return view.Object{
			{Key: "count", Value: d.Count()}, {Key: "sum", Value: d.Sum()}, {Key: "p50", Value: d.Quantile(0.5)}, {Key: "p95", Value: d.Quantile(0.95)},
			{Key: "p99", Value: d.Quantile(0.99)},
		}
	}
	return view.Object{
		{Key: "done", Value: c.Done}, {Key: "failed", Value: c.Failed}, {Key: "retried", Value: c.Retried}, {Key: "snoozed", Value: c.Snoozed},
		{Key: "returned", Value: c.Returned}, {Key: "passed", Value: c.Passed}, {Key: "discarded", Value: c.Discarded}, {Key: "expired", Value: c.Expired},
		{Key: "cancelled", Value: c.Cancelled}, {Key: "gathered", Value: c.Gathered}, {Key: "processed", Value: c.Processed},
		{Key: "runs", Value: durations(c.Runs)}, {Key: "waits", Value: durations(c.Waits)},
	}
}

func level(l inspect.Level) any {
	if l.Looks == 0 {
		return nil
	}
	return view.Object{{Key: "mean", Value: l.Mean()}, {Key: "most", Value: l.Most}}
}

func queuesObject(queues map[string]inspect.QueueHistory) []view.Object {
	var all []view.Object
	for _, name := range slices.Sorted(maps.Keys(queues)) {
		q := queues[name]
		object := view.Object{
			{Key: "queue", Value: name}, {Key: "pushed", Value: q.Pushed}, {Key: "taken", Value: q.Taken}, {Key: "done", Value: q.Done}, {Key: "failed", Value: q.Failed},
			{Key: "depth", Value: level(q.Depth)},
		}
		if q.Age.Looks > 0 {
			object = object.With("age", view.Object{{Key: "mean", Value: q.Age.Mean()}, {Key: "most", Value: q.Age.Most}})
		}
		all = append(all, object)
	}
	return all
}
