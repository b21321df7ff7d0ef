package command

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/goworker/goworker/cmd/goworker/internal/view"
	"github.com/goworker/goworker/inspect"
)

// changing adds the verbs that change something to the nouns that have some.
func (p *program) changing(nouns []*cobra.Command) []*cobra.Command {
	for _, of := range []struct {
		noun  string
		verbs []*cobra.Command
	}{
		{"queues", []*cobra.Command{p.queuesPause(), p.queuesResume(), p.queuesClear(), p.queuesRm(), p.queuesMove(), p.queuesWait()}},
		{"jobs", []*cobra.Command{p.cancels(), p.jobsRun(), p.jobsMove(), p.jobsRm()}},
		{"cancelled", []*cobra.Command{p.cancelledLift()}},
		{"failed", []*cobra.Command{p.failedRetry(), p.failedRm(), p.failedImport()}},
		{"delayed", []*cobra.Command{p.delayedRun(), p.delayedRm()}},
		{"schedule", []*cobra.Command{p.schedulePause(), p.scheduleResume(), p.scheduleRun(), p.scheduleRm(), p.scheduleDiff()}},
		{"workers", []*cobra.Command{p.workersRm()}},
		{"limits", []*cobra.Command{p.limitsSet(), p.limitsReset()}},
		{"locks", []*cobra.Command{p.locksRelease()}},
		{"operations", []*cobra.Command{p.operationsResume(), p.operationsStop(), p.operationsUndo()}},
		{"bin", []*cobra.Command{p.binEmpty()}},
	} {
		at := slices.IndexFunc(nouns, func(c *cobra.Command) bool { return c.Name() == of.noun })
		nouns[at].AddCommand(of.verbs...)
	}
	return append(nouns,
		one(p.enqueue(), "give the one where the queue lies"), one(p.drainToRuby(), "drain one after the other"), one(p.bench(), "measure one after the other"), p.dev(), p.controls())
}

// changes is change with a reason for the audit: the changes of the verb carry the operator's name.
func (p *program) changes(c *cobra.Command, run func(ctx context.Context, o *operator, args []string) error) *cobra.Command {
	var why string
	c = p.change(c, func(ctx context.Context, o *operator, args []string) error {
		o.by(why)
		return run(ctx, o, args)
	})
	c.Flags().StringVar(&why, "why", "", "the reason, for the audit")
	return c
}

// agree confirms a change that removes and runs nothing: only in a protected context it asks.
func (o *operator) agree(ctx context.Context, p plan) (bool, error) {
	if o.dryRun || o.place.Protect {
		return o.confirm(ctx, p)
	}
	return o.recordable(ctx)
}

// done is the result of the change of one thing.
type done struct {
	object   view.Object
	sentence string
}

// each changes things by their names, one after the other, and prints the result of each. It names on stderr the things that do not exist
// or may not be changed, and goes on with the rest.
func (o *operator) each(ctx context.Context, names []string, change func(ctx context.Context, name string) (done, error)) error {
	var failed []error
	missing := 0
	for _, name := range names {
		one, cancel := o.within(ctx)
		d, err := change(one, name)
		err = o.late(one, err)
		cancel()
		switch {
		case err == nil:
			if err := o.print(d.object, d.sentence); err != nil {
				return err
			}
			continue
		case ctx.Err() != nil || codeOf(ctx, err) == exitUnavailable || codeOf(ctx, err) == exitDeadline:
			return errors.Join(append(failed, err)...)
		case absent(err) && !errors.As(err, new(exitError)):
			missing++
		}
		failed = append(failed, err)
	}
	err := errors.Join(failed...)
	switch {
	case err == nil:
		return nil
	case missing == len(names):
		return exitError{exitNothing, err}
	case len(failed) < len(names):
		return exitError{exitPartly, err}
	case len(names) == 1:
		return failed[0]
	}
	code := codeOf(ctx, failed[0])
	for _, err := range failed {
		if codeOf(ctx, err) != code {
			code = exitFailed
		}
	}
	return exitError{code, err}
}

// absent reports whether an error says that what was named is not there.
func absent(err error) bool {
	return slices.ContainsFunc([]error{
		inspect.ErrUnknownQueue, inspect.ErrUnknownJob, inspect.ErrUnknownSchedule, inspect.ErrUnknownWorker, inspect.ErrNoLimit, inspect.ErrNoLock, inspect.ErrNoRule,
		inspect.ErrNoJob, inspect.ErrNoFailure, inspect.ErrNoOperation,
	}, func(is error) bool { return errors.Is(err, is) })
}

// missing is an error with the exit code of its kind.
func missing(err error) error {
	if absent(err) {
		return exitError{exitNothing, err}
	}
	return err
}

// names writes names for a sentence: those of the first three, and how many there are more.
func names(all []string) string {
	const most = 3
	shown := make([]string, 0, most+1)
	for n, name := range all {
		if n == most {
			shown = append(shown, view.Plural(int64(len(all)-most), "other"))
			break
		}
		shown = append(shown, escaped(name))
	}
	return andList(shown)
}

// named is names behind what they are: "queue mail", "queues mail and low".
func named(noun string, all []string) string {
	if len(all) > 1 {
		noun += "s"
	}
	return noun + " " + names(all)
}

// areIDs reports whether words of a command line are ids or refs of jobs, and no search: a search has a colon, a blank, or a minus in front.
func areIDs(words []string) bool {
	return len(words) > 0 && !slices.ContainsFunc(words, func(w string) bool {
		return w == "" || strings.ContainsAny(w, ": \t\"'*") || w[0] == '-'
	})
}
