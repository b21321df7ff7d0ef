package inspect

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/goworker/goworker/internal/clock"
	"github.com/goworker/goworker/internal/resque"
	"github.com/goworker/goworker/internal/resque/delayed"
	"github.com/goworker/goworker/internal/resque/operations"
)

// page changes the jobs of a page, each share of it in one step. Jobs that have moved meanwhile are read again. The error is errAgain
// if it is unknown what became of the jobs that a walk from the head has read, or of those of a page that was read often enough.
func (r *runner) page(ctx context.Context, page Page, cursor string) error {
	ahead := cursor == moving
	for tries := 0; ; {
		jobs := slices.DeleteFunc(slices.Clone(page.Jobs), func(e Entry) bool { return !r.plan.wants(e) })
		missed, changed, again := 0, 0, false
		groups := shares(jobs, r.plan.shareName)
		if len(groups) == 0 && len(page.Refused) > 0 {
			return r.note(ctx, cursor, page)
		}
		for n, some := range groups {
			if n > 0 {
				page.Looked = 0
			}
			done, left, err := r.share(ctx, some, cursor, int64(page.Looked))
			switch {
			case errors.Is(err, errAgain):
				again = true
			case err != nil:
				return err
			}
			if changed, missed = changed+done, missed+len(left); again {
				break
			}
			if !r.stepped() {
				return errBroken
			}
			if r.brake.stops != "" {
				return nil
			}
		}
		switch {
		case again && ahead:
			return errAgain
		case missed == 0 && !again, ahead:
			return nil
		}
		if changed > 0 {
			tries = 0
		}
		if tries++; tries > stepTries {
			if again {
				return errAgain
			}
			return nil
		}
		q := r.plan.Query
		if cursor != "" && strings.HasPrefix(cursor, moving) {
			return nil
		}
		fresh, err := r.find(ctx, q, false, cursor)
		if err != nil {
			return err
		}
		// What was read before and is not there any more has gone; the page may have others behind it, for which the walk comes later.
		page = Page{Jobs: fresh.Jobs, Next: fresh.Next}
	}
}

// hand changes given jobs. Those that one step could not take, or whose step was not made, are tried again; those that are not
// where they were read count as refused.
func (r *runner) hand(ctx context.Context, given []Entry) error {
	left, wanted, lost := slices.Clone(given), int64(len(given)), false
	for tries := 0; len(left) > 0 && tries < stepTries; {
		changed, again := 0, false
		stay := make(map[string]int)
		for _, some := range shares(left, r.plan.shareName) {
			done, missed, err := r.share(ctx, some, "", 0)
			if err != nil && !errors.Is(err, errAgain) {
				return err
			}
			again, lost, changed = again || err != nil, lost || err != nil, changed+done
			for _, e := range missed {
				stay[e.where()]++
			}
			if err == nil && !r.stepped() {
				return errBroken
			}
		}
		left = slices.DeleteFunc(left, func(e Entry) bool {
			stay[e.where()]--
			return stay[e.where()] < 0
		})
		switch {
		case again:
			tries++
		case changed == 0:
			tries = stepTries
		}
	}
	if len(left) == 0 && !lost {
		return nil
	}
	record, err := r.read(ctx)
	if err != nil {
		return err
	}
	if left := wanted - record.Number("done") - record.Number("refused"); left > 0 && r.plan.Verb != Revoke {
		_, err = r.make(ctx, operations.Rest, operations.Step{Refused: left, Why: RefusalGone})
	}
	if errors.Is(err, errAgain) {
		err = nil
	}
	return err
}

// where tells given jobs apart. Jobs that it does not tell apart are equal.
func (e Entry) where() string {
	failure, index := "", e.index
	if e.Failure != nil {
		failure, index = e.Failure.ID, e.Failure.record.Index
	}
	return fmt.Sprint(e.placeName(), " ", index, " ", e.stamp(), " ", e.Ref, " ", failure, " ", e.Process, " ", e.Ticket)
}

// note counts what of a page Redis refused to read.
func (r *runner) note(ctx context.Context, cursor string, page Page) error {
	_, err := r.make(ctx, operations.Rest, operations.Step{Cursor: cursor, Looked: int64(page.Looked), Why: page.Refused[len(page.Refused)-1].Error()})
	if errors.Is(err, errAgain) {
		err = nil
	}
	return err
}

// share makes the step of jobs in one place. It returns how many it changed, and which were not where they were read or not tried.
// If the error is errAgain, these are all of a step that was not made.
func (r *runner) share(ctx context.Context, jobs []Entry, cursor string, looked int64) (changed int, missed []Entry, err error) {
	settings, err := r.redis.Settings()
	if err != nil {
		return 0, nil, err
	}
	var s share
	all, step := jobs, r.step
	err = r.do(ctx, func(store resque.Store, c redis.Conn) error {
		if jobs[0].Plain && r.plan.Verb != MoveTo { // one script searches so many elements of seconds at most
			times := make([]delayed.Job, len(jobs))
			for n, e := range jobs {
				times[n] = e.delay
			}
			n, err := delayed.New(store).Changeable(c, times)
			if err != nil {
				return err
			}
			missed, jobs = jobs[n:], jobs[:n]
		}
		s = shareOf(store, settings.Style, r.plan, jobs)
		return nil
	})
	if err != nil {
		return 0, nil, err
	}
	out, err := r.make(ctx, s.kind.Or(operations.Rest), operations.Step{Cursor: cursor, Bin: s.name, Looked: looked, Refused: s.refused, Why: s.why, Changes: s.changes})
	switch {
	case errors.Is(err, errAgain) && r.step == step:
		return 0, all, err
	case err != nil:
		return 0, missed, err
	}
	did, lost := s.changed(out)
	if r.plan.does(all[0]) != Revoke { // of a cancelled job nothing is to be read again
		missed = slices.Concat(missed, lost)
	}
	r.paced(len(did))
	err = r.behind(ctx, did)
	r.brake.look(ctx, r, did, out.Took, len(jobs))
	return len(did), missed, err
}

// changed returns the jobs that a step changed, and those that were not where they were read, and not refused.
func (s share) changed(out operations.Stepped) (did, missed []Entry) {
	first := 0
	for n, change := range s.changes {
		answer := out.Answers[n]
		for job := 1; job <= len(change.Kept) && first+job <= len(s.jobs); job++ {
			switch e := s.jobs[first+job-1]; {
			case slices.Contains(answer.Jobs, job):
				did = append(did, e)
			case answer.Refused == "":
				missed = append(missed, e)
			}
		}
		first += len(change.Kept)
	}
	return did, missed
}

// paced puts off the next step until the pace allows it.
func (r *runner) paced(jobs int) {
	if r.plan.Pace <= 0 || r.undo {
		return
	}
	now := clock.System.Now()
	if r.next.Before(now) {
		r.next = now
	}
	r.next = r.next.Add(time.Duration(float64(jobs) / r.plan.Pace * float64(time.Second)))
}

// behind does what belongs to a change of jobs and is no part of its step: their documents say where they are.
func (r *runner) behind(ctx context.Context, did []Entry) error {
	var documents []resque.DocumentChange
	ended := false
	for _, e := range did {
		if r.plan.does(e) == Drop {
			ended = ended || e.featured()
			continue
		}
		d, ok := resque.DocumentChangeOf(e.Payload)
		if !ok || e.Place == Failed || r.plan.Verb == Revoke {
			continue
		}
		switch d.Queue = e.Queue; r.plan.Verb {
		case MoveTo:
			d.Queue, d.Due = r.plan.Queue, e.At
		case Delay:
			d.Due = r.plan.At
		}
		documents = append(documents, d)
	}
	if err := r.document(ctx, documents); err != nil || !ended {
		return err
	}
	return r.announce(ctx)
}

// announce ends removed jobs as cancelled whose locks, steps or results wait for that: their list in the bin says which are left.
// It asks for no lease, because a job may end twice: one whose operation was stopped meanwhile ends all the same.
func (r *runner) announce(ctx context.Context) error {
	for {
		var page [][]byte
		err := r.with(ctx, func(s operations.Store, c redis.Conn) (err error) {
			page, err = s.Page(c, r.id, operations.EndedName, 0, operations.StepJobs)
			return err
		})
		if err != nil || len(page) == 0 {
			return err
		}
		var jobs []gone
		var documents []resque.DocumentChange
		for _, text := range page {
			queue, raw, ok := resque.CutPrefix(text)
			if !ok {
				continue
			}
			jobs = append(jobs, gone{queue, raw})
			if d, ok := resque.DocumentChangeOf(raw); ok {
				d.Gone = true
				documents = append(documents, d)
			}
		}
		if err := errors.Join(r.document(ctx, documents), r.fail(ctx, jobs)); err != nil {
			return err
		}
		if err := r.with(ctx, func(s operations.Store, c redis.Conn) error { return s.Took(c, r.id, page) }); err != nil {
			return err
		}
	}
}
