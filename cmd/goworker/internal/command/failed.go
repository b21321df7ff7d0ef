package command

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/goworker/goworker/cmd/goworker/internal/view"
	"github.com/goworker/goworker/inspect"
	kinds "github.com/goworker/goworker/inspect/groups"
	"github.com/goworker/goworker/internal/resque/failures"
)

func (p *program) failed() *cobra.Command {
	return p.noun("failed", "See failures; retry, remove, export and import them", p.failedLs(), p.failedGroups(), p.failedShow(), p.failedExport())
}

// failuresOf is a search among failures.
func (o *operator) failuresOf(words []string) (inspect.FailureFilter, error) {
	if len(words) == 0 {
		return inspect.FailureFilter{}, nil
	}
	q, err := o.search(words)
	return inspect.FailureFilter{Query: &q}, err
}

// eachFailure calls f for the failures that a search matches, the newest first, at most so many, 0 being all. It returns where
// to go on, "" if there are no more, and whether the budget ended it.
func (o *operator) eachFailure(ctx context.Context, words []string, from string, most int, f func(inspect.Failure) error) (next string, late bool, err error) {
	filter, err := o.failuresOf(words)
	if err != nil {
		return "", false, err
	}
	until := time.Now().Add(o.budget)
	var away []error
	for seen := 0; ; {
		count := inspect.MaxPage
		if most > 0 {
			count = min(count, most-seen)
		}
		found, next, err := o.in.Failures().Search(ctx, filter, from, count)
		for _, one := range found {
			if err := f(one); err != nil {
				return next, false, err
			}
		}
		seen += len(found)
		if err != nil { // of several Redises the next one follows
			away = append(away, err)
		}
		switch {
		case next == "" || err != nil && ctx.Err() != nil:
			return "", false, errors.Join(away...)
		case most > 0 && seen >= most:
			return next, false, errors.Join(away...)
		case time.Now().After(until):
			return next, true, errors.Join(away...)
		}
		from = next
	}
}

// ended says how a walk through failures ended.
func (o *operator) ended(rows int, next string, late bool) error {
	switch {
	case late:
		return partly("more: not all failures were seen; give it a longer --budget, or --from %s", next)
	case next != "":
		o.note("more: --from %s", next)
	case rows == 0:
		return nothing("no failure matches")
	}
	return nil
}

func (p *program) failedLs() *cobra.Command {
	var count int
	var from string
	c := p.verb(&cobra.Command{
		Use: "ls [SEARCH…]", Short: "List failures, the newest first",
		Example: "  goworker failed ls\n  goworker failed ls class:SendEmail error:timeout since:2h",
	}, func(ctx context.Context, o *operator, args []string) error {
		l := o.list(view.Column{Head: "ID"}, view.Column{Head: "AGO", Right: true}, view.Column{Head: "JOB", Cut: true, Prose: true}, view.Column{Head: "ERROR", Cut: true, Prose: true})
		now := time.Now()
		next, late, err := o.eachFailure(ctx, args, from, count, func(f inspect.Failure) error {
			l.add(failureObject(f), f.ID, view.Ago(now, failures.Time(f.FailedAt)), failedJob(f), strings.TrimPrefix(f.Exception+": "+f.Error, ": "))
			return nil
		})
		if err := l.close("", err); err != nil {
			return err
		}
		if l.rows == 0 && len(args) == 0 && !late {
			o.note("there are no failures")
			return nil
		}
		return o.ended(l.rows, next, late)
	})
	c.Flags().IntVarP(&count, "count", "c", 20, "how many to print; 0: all")
	c.Flags().StringVar(&from, "from", "", "go on where a list ended: what it printed behind more:")
	return c
}

func (p *program) failedGroups() *cobra.Command {
	return p.verb(&cobra.Command{
		Use: "groups [SEARCH…]", Short: "Count failures by class, exception and text, the most first",
		Long: "groups counts failures of one class and exception whose texts are equal without numbers, ids, times, addresses and what stands in quotes. " +
			"It reads all failures: a million take ten seconds or more. Give it a longer --timeout where there are many.",
		Example: "  goworker failed groups since:2h\n  goworker failed ls group:1f0c62a9d3be\n  goworker failed retry group:1f0c62a9d3be",
	}, func(ctx context.Context, o *operator, args []string) error {
		filter, err := o.failuresOf(args)
		if err != nil {
			return err
		}
		x := kinds.New(o.in, kinds.Options{MaxIndexed: math.MaxInt32, MaxGroups: mostGroups, Query: filter.Query})
		known, err := x.Refresh(ctx, 0)
		if err != nil && known.Indexed+known.Older < known.Of {
			return err // counts of a part of a Redis would mislead; a Redis that is away whole is named at the end
		}
		l := o.list(view.Column{Head: "FAILURES", Right: true}, view.Column{Head: "GROUP"}, view.Column{Head: "CLASS", Cut: true}, view.Column{Head: "EXCEPTION", Cut: true},
			view.Column{Head: "ERROR", Cut: true, Prose: true}, view.Column{Head: "AGO", Right: true})
		now, all := time.Now(), x.Groups(kinds.Filter{})
		for _, g := range all {
			l.add(view.Object{
				{Key: "group", Value: g.ID}, {Key: "class", Value: g.Class}, {Key: "exception", Value: g.Exception}, {Key: "pattern", Value: g.Pattern}, {Key: "example", Value: g.Example},
				{Key: "failures", Value: g.Count}, {Key: "unretried", Value: g.Unretried}, {Key: "first", Value: g.First}, {Key: "last", Value: g.Last},
			}, view.Count(int64(g.Count)), g.ID, g.Class, g.Exception, g.Pattern, view.Ago(now, g.Last))
		}
		if len(args) > 0 && len(all) == 0 && err == nil {
			return nothing("no failure matches")
		}
		return l.close("there are no failures", err)
	})
}

// mostGroups is how many groups are printed apart.
const mostGroups = 100_000

func (p *program) failedShow() *cobra.Command {
	return p.verb(&cobra.Command{
		Use: "show ID…", Short: "Show failures: the payload, the error, the backtrace", Args: some("the ids of failures"),
	}, func(ctx context.Context, o *operator, args []string) error {
		for n, id := range args {
			if !isRef(id) {
				return usagef("%s is no id of a failure, which has 28 hexadecimal digits: goworker failed ls prints them", id)
			}
			f, err := o.in.Failures().Get(ctx, id)
			if err != nil {
				return fmt.Errorf("failure %s: %w", id, err)
			}
			if n > 0 && !o.json {
				fmt.Fprintln(o.out)
			}
			object := failureObject(f).With("backtrace", f.Backtrace)
			err = o.show(object, [][2]string{
				{"failure", f.ID}, {"failed at", f.FailedAt}, {"retried at", f.RetriedAt}, {"queue", f.Queue}, {"class", f.Class}, {"worker", f.Worker},
				{"exception", f.Exception}, {"error", f.Error}, {"payload", failedPayload(f)}, {"backtrace", strings.Join(f.Backtrace, "\n")},
			}...)
			if err != nil {
				return err
			}
		}
		return nil
	})
}

func (p *program) failedExport() *cobra.Command {
	var from string
	c := p.long(&cobra.Command{
		Use: "export [SEARCH…]", Short: "Write failures as lines of JSON, which failed import puts back",
		Long: "export writes all failures that match, a line of JSON each, the newest first. It takes as long as it takes.",
	}, func(ctx context.Context, o *operator, args []string) error {
		filter, err := o.failuresOf(args)
		if err != nil {
			return err
		}
		out := bufio.NewWriter(o.out)
		rows := 0
		for {
			limited, cancel := o.within(ctx)
			found, next, err := o.in.Failures().Search(limited, filter, from, inspect.MaxPage)
			err = o.late(limited, err)
			cancel()
			for _, f := range found {
				rows++
				line := f.Line()
				if o.terminal {
					line = []byte(view.Escape(line)) // a file gets the bytes of the record
				}
				fmt.Fprintf(out, "%s\n", line)
			}
			if err = errors.Join(out.Flush(), err); err != nil {
				return err
			}
			if next == "" {
				return o.ended(rows, "", false)
			}
			from = next
		}
	})
	c.Flags().StringVar(&from, "from", "", "go on where an export ended")
	return c
}

// failedJob says in a few words which job failed.
func failedJob(f inspect.Failure) string {
	if f.Invalid != nil {
		return "no record: " + f.Invalid.Error()
	}
	var p struct{ Args []json.RawMessage }
	if json.Unmarshal(f.Payload, &p) != nil {
		return f.Class
	}
	return job(inspect.Entry{Class: f.Class, Args: p.Args})
}

func failedPayload(f inspect.Failure) string {
	if f.Invalid != nil {
		return string(f.Raw)
	}
	return string(f.Payload)
}

// failureObject is a failure in JSON.
func failureObject(f inspect.Failure) view.Object {
	o := view.Object{{Key: "id", Value: f.ID}}
	if f.Shard != "" {
		o = o.With("shard", f.Shard)
	}
	if f.Invalid != nil {
		return o.With("invalid", f.Invalid.Error()).With("raw", f.Raw)
	}
	return append(o, view.Object{
		{Key: "failed_at", Value: f.FailedAt}, {Key: "retried_at", Value: f.RetriedAt}, {Key: "queue", Value: f.Queue}, {Key: "class", Value: f.Class},
		{Key: "worker", Value: f.Worker}, {Key: "exception", Value: f.Exception}, {Key: "error", Value: f.Error}, {Key: "payload", Value: f.Payload},
	}...)
}
