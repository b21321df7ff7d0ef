package command

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/goworker/goworker/cmd/goworker/internal/view"
	"github.com/goworker/goworker/inspect"
)

// whichFailures is the error of a command line that chooses none.
const whichFailures = "ids, a search such as class:SendEmail since:2h, or --all"

func (p *program) failedRetry() *cobra.Command {
	return p.failures(&cobra.Command{
		Use: "retry ID… | SEARCH… | --all", Short: "Put failed jobs back into their queues",
		Long: "retry puts the jobs of failures to the tails of their queues, whole, and marks the records. A failure that was retried before is left out of a search.\n" +
			"With --rate and --brake a large set does not become the next outage: the operation stops where jobs fail again, and is run on later.",
		Example: "  goworker failed retry class:SendEmail since:2h --rate 50/s --brake 20%\n  goworker failed retry 5d41402abc4b2a76b9719d911017",
	}, inspect.Retry, "retry %s", "retried", (*inspect.FailureList).RetryID)
}

func (p *program) failedRm() *cobra.Command {
	return p.failures(&cobra.Command{
		Use: "rm ID… | SEARCH… | --all", Short: "Put failures into the bin",
		Long: "rm takes failures out of their lists. Those of a search are kept in the bin for a day, and operations undo brings them back; those named by their ids are gone for good.",
	}, inspect.Drop, "remove %s", "removed", (*inspect.FailureList).RemoveID)
}

// failures is a verb on failures: those with ids, or those of a search.
func (p *program) failures(c *cobra.Command, verb inspect.Verb, all, done string, byID func(l *inspect.FailureList, ctx context.Context, ids ...string) (int, error)) *cobra.Command {
	var pace pacing
	var every bool
	var end func() inspect.End
	c = p.changes(c, func(ctx context.Context, o *operator, args []string) error {
		if every != (len(args) == 0) {
			return usagef("%s takes %s", c.CommandPath(), whichFailures)
		}
		if areIDs(args) {
			if end != nil && end() == inspect.Head {
				return usagef("--head takes a search or --all, and no ids")
			}
			if err := pace.none(); err != nil {
				return err
			}
			return o.failuresByID(ctx, args, all, done, byID)
		}
		plan := inspect.Plan{Verb: verb, Query: inspect.Query{Places: []inspect.Place{inspect.Failed}}}
		if end != nil {
			plan.To = end()
		}
		if err := pace.set(&plan); err != nil {
			return err
		}
		if !every {
			if err := o.chosen(ctx, args, &plan, inspect.Failed); err != nil {
				return err
			}
		}
		return o.operate(ctx, plan, task{all: all, noun: "failure"})
	})
	c.Flags().BoolVar(&every, "all", false, "all failures")
	if pace.flags(c); verb == inspect.Retry {
		end = headFlag(c)
	}
	return c
}

// failuresByID retries or removes failures by their ids.
func (o *operator) failuresByID(ctx context.Context, ids []string, all, what string, change func(l *inspect.FailureList, ctx context.Context, ids ...string) (int, error)) error {
	ids = distinct(ids)
	asked := plan{Sentence: fmt.Sprintf(all, view.Plural(int64(len(ids)), "failure")), Count: int64(len(ids))}
	looking, cancel := o.within(ctx)
	defer cancel()
	for _, id := range ids[:min(3, len(ids))] {
		f, err := o.in.Failures().Get(looking, id)
		if err != nil {
			return o.late(looking, fmt.Errorf("failure %s: %w", id, err))
		}
		asked.Samples = append(asked.Samples, f.FailedAt+" "+failedJob(f)+": "+f.Error)
	}
	if ok, err := o.confirm(ctx, asked); !ok {
		return err
	}
	return o.each(ctx, ids, func(ctx context.Context, id string) (done, error) {
		_, err := change(o.in.Failures(), ctx, id)
		return done{view.Object{{Key: "id", Value: id}, {Key: what, Value: true}}, "failure " + escaped(id) + " is " + what}, err
	})
}

// failedImport puts back what failed export wrote.
func (p *program) failedImport() *cobra.Command {
	var from int
	c := p.changes(&cobra.Command{
		Use: "import [FILE]", Short: "Put exported failures back into their lists, byte for byte",
		Long: "import reads what failed export wrote, from a file or from standard input, and puts it to the heads of the lists, in the order that it had. It does not look\n" +
			"whether a failure is there already: run it once. After an error it says with which --from to go on. A line that is no failure is named by its number, and the others are put back.",
	}, func(ctx context.Context, o *operator, args []string) error {
		if len(args) > 1 {
			return usagef("failed import takes one file, or none for standard input")
		}
		if from < 1 {
			return usagef("--from takes the number of a line, from 1 on")
		}
		var in io.Reader = o.stdin
		if len(args) == 1 {
			f, err := os.Open(args[0])
			if err != nil {
				return usageError{err}
			}
			defer f.Close()
			in = f
		}
		return o.importFailures(ctx, in, from)
	})
	c.Flags().IntVar(&from, "from", 1, "the number of the line to begin with")
	return c
}

func (o *operator) importFailures(ctx context.Context, in io.Reader, from int) error {
	const together = 500
	sentence, count := "put failures of a file back into their lists", int64(0)
	if o.dryRun || o.place.Protect { // the plan says how many
		text, err := io.ReadAll(in)
		if err != nil {
			return err
		}
		number := 0
		for line := range bytes.Lines(text) {
			if number++; number >= from && len(bytes.TrimSpace(line)) > 0 {
				count++
			}
		}
		sentence, in = "put "+view.Plural(count, "failure")+" of a file back into their lists", bytes.NewReader(text)
	}
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, 512<<20) // as large as Redis lets a record be
	var piece []inspect.FailureLine
	read, first, imported, refused := 0, from, 0, 0
	send := func() error {
		if len(piece) == 0 || o.dryRun {
			imported += len(piece)
			piece = piece[:0]
			return nil
		}
		one, cancel := o.within(ctx)
		defer cancel()
		n, err := o.in.Failures().Import(one, piece...)
		imported += n
		piece = piece[:0]
		if err != nil {
			return fmt.Errorf("%w; the lines from %d to %d may be there or not: look, and go on with --from", o.late(one, err), first, read)
		}
		first = read + 1
		return nil
	}
	if ok, err := o.agree(ctx, plan{Sentence: sentence, Count: count}); !ok && !o.dryRun {
		return err
	}
	for lines.Scan() {
		if read++; read < from || len(bytes.TrimSpace(lines.Bytes())) == 0 {
			continue
		}
		l, err := inspect.ParseFailureLine(bytes.Clone(lines.Bytes()))
		if err != nil {
			refused++
			o.note("line %d is refused: %v", read, err)
			continue
		}
		if piece = append(piece, l); len(piece) == together {
			if err := send(); err != nil {
				return err
			}
		}
	}
	if err := errors.Join(lines.Err(), send()); err != nil {
		return err
	}
	word := " put back"
	if o.dryRun {
		word = " would be put back"
	}
	if err := o.print(view.Object{{Key: "imported", Value: imported}, {Key: "refused", Value: refused}, {Key: "dry_run", Value: o.dryRun}}, view.Plural(int64(imported), "failure")+word); err != nil {
		return err
	}
	switch {
	case refused > 0:
		return partly("%s left out", view.Plural(int64(refused), "line"))
	case imported == 0:
		return nothing("there is no failure to put back")
	}
	return nil
}
