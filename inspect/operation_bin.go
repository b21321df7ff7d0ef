package inspect

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/goworker/goworker/internal/payload"
	"github.com/goworker/goworker/internal/resque"
	"github.com/goworker/goworker/internal/resque/operations"
	"github.com/goworker/goworker/internal/resque/workflows"
)

// clear puts a queue and its lanes into the bin. Steps of workflows among its jobs are removed one by one before, and those that came
// meanwhile are taken out of the bin behind it, so that their workflows hear of it. A lock of a job in the bin falls some seconds later, when a process looks for its holder.
func (r *runner) clear(ctx context.Context) error {
	queue := r.plan.Query.Queue
	if err := r.clearSteps(ctx, queue); err != nil {
		return err
	}
	s, err := r.store(ctx)
	if err != nil {
		return err
	}
	sets, lanes, err := r.lanesOf(ctx, queue)
	if err != nil {
		return err
	}
	for first, last := true, false; !last; first = false {
		n := min(len(lanes), operations.StepJobs)
		last = n == len(lanes)
		var gone []resque.Lanes
		if last && r.plan.Verb == ForgetQueue {
			gone = append(sets, resque.Lanes{Queue: queue})
		}
		step := operations.Step{Changes: []operations.Change{{Call: s.ClearCall(r.id, queue, first, lanes[:n], gone)}}}
		for _, err = r.make(ctx, operations.Clear, step); errors.Is(err, errAgain); {
			_, err = r.make(ctx, operations.Clear, step)
		}
		if err != nil {
			return err
		}
		if !r.stepped() {
			return errBroken
		}
		lanes = lanes[n:]
	}
	return r.siftSteps(ctx)
}

// lanesOf returns the sets of lanes of a queue, and their lanes.
func (r *runner) lanesOf(ctx context.Context, queue string) (sets []resque.Lanes, all []resque.Lane, err error) {
	err = r.do(ctx, func(s resque.Store, c redis.Conn) (err error) {
		if sets, err = s.SortedQueues(c, queue); err != nil {
			return err
		}
		found := make(map[resque.Lane]bool)
		for _, set := range sets {
			for cursor := "0"; ; {
				lanes, next, err := s.ScanLanes(c, set, cursor)
				if err != nil {
					return err
				}
				for _, l := range lanes {
					if !found[l] {
						found[l], all = true, append(all, l)
					}
				}
				if cursor = next; cursor == "0" {
					break
				}
			}
		}
		return nil
	})
	return sets, all, err
}

// clearSteps removes the steps of workflows among the jobs of a queue. Where there is no workflow it reads none. A page whose steps
// have moved, or of which an answer was lost, is read again, because in the bin no workflow would hear of its steps.
func (r *runner) clearSteps(ctx context.Context, queue string) error {
	any, err := query(ctx, r.Inspector, func(s resque.Store, c redis.Conn) (bool, error) { return workflows.New(s).Any(c) })
	if err != nil || !any {
		return err
	}
	verb := r.plan.Verb
	r.plan.Verb = Drop
	defer func() { r.plan.Verb = verb }()
	for cursor, tries := "", 0; ; {
		page, err := r.find(ctx, Query{Queue: queue, Places: []Place{Queued, InLane}}, false, cursor)
		if err != nil {
			return err
		}
		steps := slices.DeleteFunc(page.Jobs, func(e Entry) bool { return !isStep(e) })
		changed, missed, again := 0, 0, false
		for _, some := range shares(steps, Entry.placeName) {
			done, left, err := r.share(ctx, some, "", 0)
			if err != nil && !errors.Is(err, errAgain) {
				return err
			}
			changed, missed, again = changed+done, missed+len(left), again || err != nil
		}
		if changed > 0 {
			tries = 0
		}
		if tries++; (again || missed > 0) && tries <= stepTries {
			continue
		}
		if again {
			return errAgain
		}
		if cursor, tries = page.Next, 0; cursor == "" {
			return nil
		}
	}
}

// siftSteps ends the steps of workflows in the bin: they came into the queue between the search for steps and its renaming.
func (r *runner) siftSteps(ctx context.Context) error {
	any, err := query(ctx, r.Inspector, func(s resque.Store, c redis.Conn) (bool, error) { return workflows.New(s).Any(c) })
	if err != nil || !any {
		return err
	}
	record, err := r.read(ctx)
	if err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(record.Bins())) {
		if p, ok := operations.ParseName(name); ok && !p.Went && (p.Kind == operations.QueuePlace || p.Kind == operations.LanePlace) {
			if err := r.sift(ctx, name, p.Queue); err != nil {
				return err
			}
		}
	}
	return r.announce(ctx)
}

// sift takes steps out of a list in the bin, and leaves them to announce.
func (r *runner) sift(ctx context.Context, name, queue string) error {
	s, err := r.store(ctx)
	if err != nil {
		return err
	}
	for from := 0; ; {
		page, err := query(ctx, r.Inspector, func(_ resque.Store, c redis.Conn) ([][]byte, error) { return s.Page(c, r.id, name, from, binPage) })
		if err != nil {
			return err
		}
		steps, kept := stepsAmong(page, from, queue)
		taken := 0
		if len(steps) > 0 {
			out, err := r.make(ctx, operations.Sift, operations.Step{Bin: name, Changes: []operations.Change{{Call: s.SiftCall(r.id, name, steps), Kept: kept}}})
			switch {
			case errors.Is(err, errAgain):
				continue
			case err != nil:
				return err
			case !r.stepped():
				return errBroken
			}
			taken = len(out.Answers[0].Jobs)
		} else if err := r.kept(ctx, ""); err != nil {
			return err
		}
		if taken > 0 { // the others have taken their places
			continue
		}
		if len(page) < binPage {
			return nil
		}
		from += binPage
	}
}

// stepsAmong returns the steps of workflows among the jobs of a page, so many as one step of the operation takes, and how they lie
// in the list of jobs that have ended.
func stepsAmong(page [][]byte, from int, queue string) (steps []resque.Move, kept []string) {
	for n, raw := range page {
		e := Entry{Payload: payload.JSON(raw)}
		if len(steps) == operations.StepJobs || !isStep(e) {
			continue
		}
		step := resque.Move{Element: resque.Element{Index: int64(from + n), Raw: raw}}
		step.Lock, step.ID = e.lock()
		steps, kept = append(steps, step), append(kept, operations.Ended+resque.JobPrefix(queue)+string(e.Payload))
	}
	return steps, kept
}

// Binned is a part of the bin: jobs that an operation removed from one place.
type Binned struct {
	Operation string
	Verb      Verb
	Place     string // "queue mail", "a lane of queue mail", "failure list failed", "goworker's schedule"
	Queue     string // of a queue or lane
	Shard     string // of several Redises, the one where it is
	Jobs      int64
	Ends      time.Time // until when they are kept
}

// Bin returns what is in the bin, of one operation, or of all for "". Undo brings it back.
func (o *Operations) Bin(ctx context.Context, id string) (all []Binned, err error) {
	if err := o.in.usable(); err != nil {
		return nil, err
	}
	err = o.in.each(func(one *Inspector) error {
		records, err := query(ctx, one, func(s resque.Store, c redis.Conn) ([]operations.Record, error) {
			if id != "" {
				return operations.New(s).Read(c, id)
			}
			ids, err := operations.New(s).IDs(c)
			if err != nil || len(ids) == 0 {
				return nil, err
			}
			return operations.New(s).Read(c, ids...)
		})
		for _, r := range records {
			op, bins := operationOf(r), r.Bins()
			if op.Binned == 0 {
				continue
			}
			for _, name := range slices.Sorted(maps.Keys(bins)) {
				p, ok := operations.ParseName(name)
				if !ok || p.Went {
					continue
				}
				b := Binned{Operation: op.ID, Verb: op.Plan.Verb, Place: p.String(), Queue: p.Queue, Jobs: bins[name], Ends: op.BinEnds}
				if o.in.several() {
					b.Shard = one.name()
				}
				all = append(all, b)
			}
		}
		return err
	})
	return all, err
}

// EmptyBin removes the jobs of operations in the bin for good, and returns how many these were. Without ids it empties all of the
// bin. What an operation moved or retried can be taken back all the same.
func (o *Operations) EmptyBin(ctx context.Context, ids ...string) (jobs int64, err error) {
	if err := o.in.usable(); err != nil {
		return 0, err
	}
	err = o.in.each(func(one *Inspector) error {
		n := int64(0)
		var emptied []string
		err := one.do(ctx, func(s resque.Store, c redis.Conn) error {
			store := operations.New(s)
			of := ids
			if len(of) == 0 {
				var err error
				if of, err = store.IDs(c); err != nil || len(of) == 0 {
					return err
				}
			}
			records, err := store.Read(c, of...)
			if err == nil && len(records) == 0 && len(ids) > 0 && !o.in.several() {
				err = ErrNoOperation
			}
			for _, r := range records {
				names := slices.DeleteFunc(slices.Sorted(maps.Keys(r.Bins())), func(name string) bool {
					p, ok := operations.ParseName(name)
					return !ok || p.Went
				})
				removed, failed := store.Empty(c, r.ID, names)
				if n, err = n+removed, cmp.Or(err, failed); removed > 0 {
					emptied = append(emptied, r.ID)
				}
			}
			return err
		})
		jobs += n
		return one.record(ctx, "Operations.EmptyBin", "the bin of "+strings.Join(emptied, ", "), n, err)
	})
	return jobs, err
}
