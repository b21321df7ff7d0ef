package command

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/goworker/goworker/cmd/goworker/internal/view"
	"github.com/goworker/goworker/inspect"
)

// task says how an operation is described to the operator.
type task struct {
	all   string // with %s for how many jobs: "remove %s"
	typed string // what confirms it; "": y
	noun  string // of what there are many; "": job
	empty bool   // it is also done where there is none
}

// operate confirms an operation on many jobs, runs it to its end, and says how it is taken back.
func (o *operator) operate(ctx context.Context, p inspect.Plan, d task) error {
	if d.noun == "" {
		d.noun = "job"
	}
	counted, err := o.count(ctx, p)
	if err != nil {
		return err
	}
	if counted.Jobs == 0 && !counted.More && !d.empty && p.Verb == inspect.ClearQueue {
		return nothing("no job waits in queue %s; nothing was changed", p.Query.Queue)
	}
	if counted.Jobs == 0 && !counted.More && !d.empty {
		return nothing("no %s matches; nothing was changed", d.noun)
	}
	asked := plan{
		Sentence: fmt.Sprintf(d.all, view.Plural(counted.Jobs, d.noun)), Count: counted.Jobs, AtLeast: counted.More, Type: d.typed,
		Object: view.Object{{Key: "verb", Value: string(p.Verb)}, {Key: "ended", Value: counted.Ended}},
	}
	asked.Sentence = strings.TrimSuffix(asked.Sentence, ",")
	for _, e := range counted.Samples {
		asked.Samples = append(asked.Samples, fmt.Sprint(e))
	}
	if counted.Ended > 0 {
		asked.Notes = append(asked.Notes, fmt.Sprintf("%s with a lock, a step or a result: undo does not bring these back.", view.Plural(counted.Ended, d.noun)))
	}
	if ok, err := o.confirm(ctx, asked); !ok {
		return err
	}
	p.Expected = counted.Jobs
	op, err := o.in.Operations().Start(ctx, p)
	if err != nil {
		return err
	}
	if len(p.Jobs) > 0 { // that was all
		return o.followed(ctx, op, goOn)
	}
	return o.follow(ctx, op.ID, goOn, o.in.Operations().Run(ctx, op.ID))
}

// count counts what a plan concerns.
func (o *operator) count(ctx context.Context, p inspect.Plan) (inspect.Counted, error) {
	ctx, cancel := o.within(ctx)
	defer cancel()
	counted, err := o.in.Operations().Count(ctx, p)
	return counted, o.late(ctx, err)
}

// progressEvery is how often a command that goes on for long says how far it is.
const progressEvery = 2 * time.Second

// The verbs that go on with an operation that did not come to its end.
const (
	goOn   = "operations resume"
	goBack = "operations undo"
)

// follow goes through the steps of an operation, and says what became of it. again is the verb that goes on with it.
func (o *operator) follow(ctx context.Context, id, again string, steps iter.Seq2[inspect.Operation, error]) error {
	var last inspect.Operation
	var failed error
	next := time.Now().Add(progressEvery)
	for op, err := range steps {
		if failed = err; err != nil {
			break
		}
		if last = op; time.Now().After(next) && o.terminal {
			o.note("%s of %s", view.Count(op.Done+op.Back), view.Count(op.Plan.Expected))
			next = time.Now().Add(progressEvery)
		}
	}
	if failed != nil && ctx.Err() == nil {
		return o.brokenOff(ctx, last, id, again, failed)
	}
	if last.ID = id; last.Begun.IsZero() { // it has not begun a step
		one, cancel := o.within(context.WithoutCancel(ctx))
		defer cancel()
		if op, err := o.in.Operations().Get(one, id); err == nil {
			last = op
		}
	}
	return o.followed(ctx, last, again)
}

// brokenOff is the error of an operation that this program does not run to its end: how far it was, as far as that is known, and what goes on with it,
// unless another program runs it or it has ended.
func (o *operator) brokenOff(ctx context.Context, last inspect.Operation, id, again string, failed error) error {
	for _, is := range []error{inspect.ErrNoOperation, inspect.ErrOperationOver, inspect.ErrOperationBusy, inspect.ErrOperationLost} {
		if errors.Is(failed, is) {
			return failed
		}
	}
	far := ""
	if !last.Begun.IsZero() {
		far = " after " + view.Plural(last.Done, "job")
		if again == goBack {
			far = " after " + view.Plural(last.Back, "job") + " were taken back"
		}
	}
	return exitError{codeOf(ctx, failed), fmt.Errorf("operation %s was broken off%s: %w; after 10 seconds, when its lease is over, go on with\n%s", escaped(id), far, failed, o.resuming(again, id))}
}

// resuming is the line that goes on with an operation.
func (o *operator) resuming(again, id string) string {
	if line, ok := o.paste(again, id); ok {
		return line
	}
	return "goworker " + again
}

// followed says what became of an operation.
func (o *operator) followed(ctx context.Context, last inspect.Operation, again string) error {
	if err := o.print(operationObject(last), o.operationSentence(last)); err != nil {
		return err
	}
	switch {
	case ctx.Err() != nil:
		return exitError{exitInterrupted, fmt.Errorf("interrupted between two steps; go on with\n%s", o.resuming(again, last.ID))}
	case last.State == inspect.OperationStopped || last.State == inspect.OperationStands:
		return partly("the operation has stopped: %s; go on with\n%s", escaped(last.Why), o.resuming(again, last.ID))
	case last.Undoing && last.Gone > 0:
		return partly("%s could not be taken back: %s", view.Plural(last.Gone, "job"), lost(last.Plan))
	case last.Refused > 0:
		return unchanged(last)
	case last.Done == 0 && last.State == inspect.OperationDone && last.Plan.Verb != inspect.ForgetQueue:
		return nothing("no job was where it was found any more; nothing was changed")
	}
	return nil
}

// unchanged is the error of an operation that could not change all of its jobs.
func unchanged(op inspect.Operation) error {
	why := escaped(op.Refusal)
	if op.Refused > 1 {
		why = "the reason of the last one is that " + why
	}
	err := fmt.Errorf("%s could not be changed: %s", view.Plural(op.Refused, "job"), why)
	switch {
	case op.Done > 0:
		return exitError{exitPartly, err}
	case op.Refusal == inspect.RefusalGone:
		return exitError{exitNothing, err}
	}
	return exitError{exitFailed, err}
}

// past are the verbs of operations in sentences about what was done.
var past = map[inspect.Verb]string{
	inspect.Retry: "put back", inspect.Run: "put into %s", inspect.MoveTo: "moved", inspect.Delay: "delayed", inspect.Drop: "removed",
	inspect.Revoke: "cancelled", inspect.ClearQueue: "removed", inspect.ForgetQueue: "removed",
}

func (o *operator) operationSentence(op inspect.Operation) string {
	if op.Undoing {
		return view.Plural(op.Back, "job") + " taken back"
	}
	text := view.Plural(op.Done, "job") + " " + past[op.Plan.Verb]
	if op.Plan.Verb == inspect.Run {
		where := "their queues"
		if op.Done == 1 {
			where = "its queue"
		}
		text = fmt.Sprintf(text, where)
	}
	if line, ok := o.paste("operations undo", op.ID); ok && op.Done > 0 {
		text += "; to take it back: " + line
	}
	return text
}

// pacing are the flags of an operation that goes on for long.
type pacing struct {
	rate, brake string
	waiting     int64
}

func (p *pacing) flags(c *cobra.Command) {
	c.Flags().StringVar(&p.rate, "rate", "", "change at most so many jobs in a time, such as 50/s or 100/m")
	c.Flags().StringVar(&p.brake, "brake", "", "stop when this share of the jobs that were put back has failed again, such as 20%")
	c.Flags().Int64Var(&p.waiting, "max-waiting", 0, "stop while more jobs than this wait in the queue where they go; 0: never")
}

// none refuses the flags for jobs that are named by ids: these are changed at once.
func (p *pacing) none() error {
	if p.rate != "" || p.brake != "" || p.waiting != 0 {
		return usagef("--rate, --brake and --max-waiting take a search, and no ids: those are changed at once")
	}
	return nil
}

// of is set for what a command line names: ids take no pace.
func (p *pacing) of(words []string, to *inspect.Plan) error {
	if areIDs(words) {
		return p.none()
	}
	return p.set(to)
}

// set writes what the flags say into a plan.
func (p *pacing) set(to *inspect.Plan) error {
	if p.rate != "" {
		count, unit, _ := strings.Cut(p.rate, "/")
		per, known := map[string]float64{"": 1, "s": 1, "m": 60, "h": 3600}[unit]
		n, err := strconv.ParseFloat(count, 64)
		if err != nil || !known || !(n > 0) {
			return usagef("--rate takes a number and a time, such as 50/s or 100/m, not %q", p.rate)
		}
		to.Pace = n / per
	}
	if p.brake != "" {
		n, err := strconv.ParseFloat(strings.TrimSuffix(p.brake, "%"), 64)
		if err != nil || !(n > 0) || n > 100 {
			return usagef("--brake takes a share between 0%% and 100%%, such as 20%%, not %q", p.brake)
		}
		to.Brake.Failed = n / 100
	}
	if p.waiting < 0 {
		return usagef("--max-waiting takes a number of jobs, not %d", p.waiting)
	}
	to.Brake.Waiting = p.waiting
	return nil
}

// chosen makes a plan concern what a command line names: ids and refs, or a search. Its places are in.
func (o *operator) chosen(ctx context.Context, words []string, p *inspect.Plan, in ...inspect.Place) error {
	if !areIDs(words) {
		q, err := o.search(words)
		if err != nil {
			return err
		}
		if len(in) > 0 {
			q.Places = in
		}
		p.Query = q
		return nil
	}
	const most = 250
	if len(words) > most {
		return usagef("at most %d ids are taken at once; name the jobs by a search", most)
	}
	ctx, cancel := o.within(ctx)
	defer cancel()
	for _, id := range distinct(words) {
		jobs, err := o.allNamed(ctx, id, in...)
		if err != nil {
			return o.late(ctx, err)
		}
		if len(jobs) > most {
			word := "id"
			if isRef(id) {
				word = "ref"
			}
			return usagef("%s names %d jobs, and at most %d are changed by their names: use the search %s:%s", id, len(jobs), most, word, id)
		}
		if len(jobs) == 0 {
			return nothing("no job has the id %s; nothing was changed", id)
		}
		p.Jobs = append(p.Jobs, jobs...)
	}
	return nil
}

// operation is how an operation stands.
func (o *operator) operation(ctx context.Context, id string) (inspect.Operation, error) {
	ctx, cancel := o.within(ctx)
	defer cancel()
	op, err := o.in.Operations().Get(ctx, id)
	return op, o.late(ctx, missing(err))
}

func (p *program) operationsResume() *cobra.Command {
	return p.changes(&cobra.Command{
		Use: "resume ID", Short: "Run an operation on that has stopped", Args: arguments(1, "the id of one operation"),
	}, func(ctx context.Context, o *operator, args []string) error {
		op, err := o.operation(ctx, args[0])
		if err != nil {
			return err
		}
		left := max(0, op.Plan.Expected-op.Done)
		ok, err := o.confirm(ctx, plan{Sentence: fmt.Sprintf("run operation %s (%s) on: %s are left", escaped(op.ID), op.Plan.Verb, view.Plural(left, "job")), Count: left})
		if !ok {
			return err
		}
		return o.follow(ctx, op.ID, goOn, o.in.Operations().Run(ctx, op.ID))
	})
}

func (p *program) operationsStop() *cobra.Command {
	return p.changes(&cobra.Command{
		Use: "stop ID…", Short: "Stop operations between two steps, whichever program runs them", Args: some("ids of operations"),
	}, func(ctx context.Context, o *operator, ids []string) error {
		ids = distinct(ids)
		if ok, err := o.agree(ctx, plan{Sentence: "stop " + named("operation", ids), Count: int64(len(ids))}); !ok {
			return err
		}
		return o.each(ctx, ids, func(ctx context.Context, id string) (done, error) {
			return done{view.Object{{Key: "operation", Value: id}, {Key: "stopped", Value: true}}, "operation " + escaped(id) + " stops"},
				o.in.Operations().Stop(ctx, id, "stopped by "+o.p.who())
		})
	})
}

func (p *program) operationsUndo() *cobra.Command {
	return p.changes(&cobra.Command{
		Use: "undo ID", Short: "Take back what an operation did", Args: arguments(1, "the id of one operation"),
		Long: "undo brings removed jobs back to the heads of their queues, failures to their lists and delayed jobs to their time, and jobs that were moved or\n" +
			"retried to where they were, as far as they still wait. What is in the bin is kept for a day.",
	}, func(ctx context.Context, o *operator, args []string) error {
		op, err := o.operation(ctx, args[0])
		if err != nil {
			return err
		}
		p := plan{Sentence: fmt.Sprintf("take back what operation %s (%s) did with %s", escaped(op.ID), op.Plan.Verb, view.Plural(op.Done, "job")), Count: op.Done}
		if op.Ended > 0 {
			p.Notes = append(p.Notes, fmt.Sprintf("%s had a lock, a step or a result and cannot be taken back.", view.Plural(op.Ended, "job")))
		}
		if ok, err := o.confirm(ctx, p); !ok {
			return err
		}
		return o.follow(ctx, op.ID, goBack, o.in.Operations().Undo(ctx, op.ID))
	})
}

func (p *program) binEmpty() *cobra.Command {
	return p.changes(&cobra.Command{
		Use: "empty [OPERATION…]", Short: "Remove what is in the bin, for good",
	}, func(ctx context.Context, o *operator, ids []string) error {
		if len(ids) == 0 {
			ids = []string{""}
		}
		var jobs int64
		var samples []string
		for _, id := range ids {
			binned, err := o.in.Operations().Bin(ctx, id)
			if err != nil {
				return err
			}
			for _, b := range binned {
				jobs += b.Jobs
				samples = append(samples, fmt.Sprintf("%s of %s, by operation %s", view.Plural(b.Jobs, "job"), b.Place, b.Operation))
			}
		}
		if jobs == 0 && len(samples) == 0 {
			return nothing("nothing is in the bin")
		}
		if ok, err := o.confirm(ctx, plan{Sentence: "remove " + view.Plural(jobs, "job") + " from the bin, for good", Count: jobs, Samples: samples}); !ok {
			return err
		}
		if ids[0] == "" {
			ids = nil
		}
		removed, err := o.in.Operations().EmptyBin(ctx, ids...)
		return errors.Join(err, o.print(view.Object{{Key: "removed", Value: removed}}, view.Plural(removed, "job")+" removed for good"))
	})
}
