package command

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/goworker/goworker/cmd/goworker/internal/view"
	"github.com/goworker/goworker/inspect"
)

func (p *program) jobs() *cobra.Command {
	c := &cobra.Command{
		Use: "jobs", Short: "Find jobs, wherever they are; cancel, run, move and remove them", Args: nounArguments,
		RunE: func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	c.AddCommand(p.jobsFind(), p.jobsShow())
	return c
}

// jobsFind prints the jobs that a search matches.
func (p *program) jobsFind() *cobra.Command {
	var count int
	var from string
	c := p.verb(&cobra.Command{
		Use: "find SEARCH…", Short: "Find jobs by class, arguments, id, error and more",
		Long: "find looks through delayed jobs, queues, lanes, running jobs and failures.\n" +
			"A search is words that all must match: class:Send* queue:mail id:K3W1 state:failed arg.0.account:7 error:timeout for:>5m \"exact text\".\n" +
			"A - before a word excludes what it matches. A word that is a flag too, such as -n, stands behind --.",
		Example: "  goworker jobs find class:Send* arg.0.account:7 state:failed\n  goworker jobs find 'error:timeout since:2h' --json",
	}, func(ctx context.Context, o *operator, args []string) error {
		q, err := o.search(args)
		if err != nil {
			return err
		}
		return o.find(ctx, q, from, count)
	})
	c.Flags().IntVar(&count, "count", 50, "how many jobs to print; 0: all")
	c.Flags().StringVar(&from, "from", "", "go on where a search ended: what it printed behind more:")
	return c
}

// search reads the words of a command line as a search.
func (o *operator) search(words []string) (inspect.Query, error) {
	q, err := inspect.ParseQuery(strings.Join(words, " "), time.Now())
	if err != nil {
		return q, usageError{err}
	}
	return q, nil
}

// find prints the jobs of a search. Where the budget ends first it says how far it came.
func (o *operator) find(ctx context.Context, q inspect.Query, from string, most int) error {
	l := o.list(view.Column{Head: "PLACE"}, view.Column{Head: "QUEUE", Cut: true}, view.Column{Head: "JOB", Cut: true, Prose: true}, view.Column{Head: "REF"})
	until := time.Now().Add(o.budget)
	var away []error
	for {
		count := inspect.MaxPage
		if most > 0 {
			count = min(count, most-l.rows)
		}
		page, err := o.in.Find(ctx, q, from, count, inspect.Budget(max(time.Millisecond, time.Until(until))))
		for _, e := range page.Jobs {
			l.add(jobObject(e), string(e.Place), e.Queue, job(e), e.Ref)
		}
		for _, refused := range page.Refused {
			o.note("%s", refused)
		}
		if err != nil {
			away = append(away, err)
		}
		if from = page.Next; err != nil && (from == "" || ctx.Err() != nil || len(o.in.Doors()) == 1) { // of several Redises the next one follows
			break
		}
		enough := most > 0 && l.rows >= most
		if from != "" && !enough && time.Now().Before(until) {
			continue
		}
		if len(away) > 0 {
			break
		}
		if err := l.end(""); err != nil {
			return err
		}
		switch {
		case from == "" && l.rows == 0:
			return nothing("no job matches")
		case from == "":
			return nil
		case enough:
			o.note("more: --from %s", from)
			return nil
		}
		return partly("more: %s; the search has looked at %s of about %s: give it a longer --budget, or --from %s",
			"not all was seen", view.Count(page.Seen), view.Plural(page.Of, "job"), from)
	}
	return l.close("", errors.Join(away...))
}

func (p *program) jobsShow() *cobra.Command {
	return p.verb(&cobra.Command{
		Use: "show ID", Short: "Show a job by its id or ref: where it is, its payload, its result", Args: arguments(1, "one id, or the ref that find prints"),
	}, func(ctx context.Context, o *operator, args []string) error {
		id := args[0]
		found, away := o.named(ctx, id)
		for _, e := range found {
			if err := o.show(jobObject(e), jobPairs(e)...); err != nil {
				return err
			}
		}
		if away != nil {
			return away
		}
		s, err := o.in.Status(ctx, id)
		switch {
		case err == nil:
			return o.show(statusObject(s), statusPairs(s)...)
		case errors.Is(err, inspect.ErrNoResult) && len(found) > 0:
			return nil
		case errors.Is(err, inspect.ErrNoResult):
			return nothing("no job has the id %s, and no result is kept of one", id)
		}
		return err
	})
}

// named returns the jobs with an id or a ref in some places, or in all. Where the budget ends the search before it has found any,
// the error says so.
func (o *operator) named(ctx context.Context, name string, places ...inspect.Place) ([]inspect.Entry, error) {
	found, whole, err := o.seek(ctx, name, places)
	if !whole && len(found) == 0 && err == nil {
		return nil, partly("more: not all jobs were seen, and %s is not among those that were; give it a longer --budget", name)
	}
	return found, err
}

// allNamed returns all jobs with an id or a ref, to be changed. Where the budget ends the search first, there are none.
func (o *operator) allNamed(ctx context.Context, name string, places ...inspect.Place) ([]inspect.Entry, error) {
	found, whole, err := o.seek(ctx, name, places)
	if !whole && err == nil {
		return nil, partly("nothing was changed: not all jobs were seen, and more of them may have the name %s; give it a longer --budget", name)
	}
	return found, err
}

// seek searches for the jobs with an id or a ref. whole: the budget has not ended the search.
func (o *operator) seek(ctx context.Context, name string, places []inspect.Place) (found []inspect.Entry, whole bool, err error) {
	var away []error
	whole = true
	for e, err := range o.in.All(ctx, queryOf(name, places), inspect.Budget(o.budget)) {
		switch {
		case errors.As(err, new(*inspect.UnfinishedError)):
			whole = false
		case err != nil: // of several Redises the next one follows
			away = append(away, err)
		default:
			found = append(found, e)
		}
	}
	return found, whole, errors.Join(away...)
}

// queryOf is the query for the jobs with an id or a ref.
func queryOf(name string, places []inspect.Place) inspect.Query {
	if isRef(name) {
		return inspect.Query{Ref: name, Places: places}
	}
	return inspect.Query{ID: name, Places: places}
}

// isRef reports whether a name has the form of a ref: 28 hexadecimal digits.
func isRef(name string) bool {
	const size = 28
	return len(name) == size && strings.Trim(name, "0123456789abcdef") == ""
}

// job says in a few words what a job is: its class and arguments.
func job(e inspect.Entry) string {
	if e.Invalid != nil {
		return "no job: " + e.Invalid.Error()
	}
	args := make([]string, len(e.Args))
	for n, a := range e.Args {
		args[n] = string(a)
	}
	return e.Class + "(" + strings.Join(args, ", ") + ")"
}

// summary is a job as one harmless line.
func summary(e inspect.Entry) string { return escaped(job(e)) }

// jobObject is a job in JSON.
func jobObject(e inspect.Entry) view.Object {
	o := view.Object{
		{Key: "place", Value: string(e.Place)}, {Key: "queue", Value: e.Queue}, {Key: "class", Value: e.Class}, {Key: "id", Value: e.ID}, {Key: "ref", Value: e.Ref},
	}
	if e.Invalid != nil {
		o = o.With("invalid", e.Invalid.Error())
	} else {
		o = o.With("payload", e.Payload)
	}
	switch e.Place {
	case inspect.Delayed:
		o = o.With("at", e.At).With("plain", e.Plain)
	case inspect.InLane:
		o = o.With("limits", e.Limits)
	case inspect.Running, inspect.Leased:
		if e.Process != "" {
			o = o.With("process", e.Process).With("ticket", e.Ticket)
		}
		if !e.Lease.IsZero() {
			o = o.With("lease", e.Lease)
		}
	case inspect.Failed:
		if e.Failure != nil {
			o = o.With("failure", e.Failure.ID).With("exception", e.Failure.Exception).With("error", e.Failure.Error).With("failed_at", e.Failure.FailedAt)
		}
	}
	if e.Shard != "" {
		o = o.With("shard", e.Shard)
	}
	return o
}

func jobPairs(e inspect.Entry) [][2]string {
	pairs := [][2]string{{"place", string(e.Place)}, {"queue", e.Queue}, {"class", e.Class}, {"id", e.ID}, {"ref", e.Ref}, {"shard", e.Shard}}
	if !e.At.IsZero() {
		pairs = append(pairs, [2]string{"due", view.Time(e.At)})
	}
	if len(e.Limits) > 0 {
		pairs = append(pairs, [2]string{"waits for", strings.Join(e.Limits, ", ")})
	}
	if e.Process != "" {
		pairs = append(pairs, [2]string{"process", fmt.Sprintf("%s, ticket %d", e.Process, e.Ticket)})
	}
	if !e.Lease.IsZero() {
		pairs = append(pairs, [2]string{"held until", view.Time(e.Lease)})
	}
	if f := e.Failure; f != nil {
		pairs = append(pairs, [2]string{"failure", f.ID}, [2]string{"failed at", f.FailedAt}, [2]string{"exception", f.Exception}, [2]string{"error", f.Error})
	}
	if e.Invalid != nil {
		return append(pairs, [2]string{"no job", e.Invalid.Error()})
	}
	return append(pairs, [2]string{"payload", string(e.Payload)})
}

// statusObject is what is kept of a job's result, in JSON.
func statusObject(s inspect.Status) view.Object {
	o := view.Object{
		{Key: "id", Value: s.ID}, {Key: "state", Value: string(s.State)}, {Key: "class", Value: s.Class}, {Key: "queue", Value: s.Queue},
		{Key: "enqueued", Value: s.Enqueued}, {Key: "due", Value: s.Due}, {Key: "attempt", Value: s.Attempt}, {Key: "process", Value: s.Process},
		{Key: "worker", Value: s.Worker}, {Key: "began", Value: s.Began}, {Key: "ended", Value: s.Ended}, {Key: "result", Value: s.Result},
		{Key: "exception", Value: s.Exception}, {Key: "error", Value: s.Error}, {Key: "ttl", Value: s.TTL},
	}
	if p := s.Progress; p != nil {
		o = o.With("progress", view.Object{{Key: "done", Value: p.Done}, {Key: "total", Value: p.Total}, {Key: "note", Value: p.Note}, {Key: "at", Value: p.At}})
	}
	return o
}

func statusPairs(s inspect.Status) [][2]string {
	pairs := [][2]string{
		{"id", s.ID}, {"state", string(s.State)}, {"class", s.Class}, {"queue", s.Queue}, {"process", s.Process}, {"worker", s.Worker},
	}
	for _, t := range []struct {
		name string
		at   time.Time
	}{{"enqueued", s.Enqueued}, {"due", s.Due}, {"began", s.Began}, {"ended", s.Ended}} {
		if !t.at.IsZero() {
			pairs = append(pairs, [2]string{t.name, view.Time(t.at)})
		}
	}
	if s.Attempt > 1 {
		pairs = append(pairs, [2]string{"attempt", fmt.Sprint(s.Attempt)})
	}
	if p := s.Progress; p != nil {
		pairs = append(pairs, [2]string{"progress", fmt.Sprintf("%d of %d %s", p.Done, p.Total, p.Note)})
	}
	return append(pairs, [2]string{"exception", s.Exception}, [2]string{"error", s.Error}, [2]string{"result", string(s.Result)})
}
