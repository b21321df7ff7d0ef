package inspect

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/gomodule/redigo/redis"

	"github.com/goworker/goworker/internal/clock"
	"github.com/goworker/goworker/internal/payload"
	"github.com/goworker/goworker/internal/prefix"
	"github.com/goworker/goworker/internal/resque"
	"github.com/goworker/goworker/internal/resque/delayed"
	"github.com/goworker/goworker/internal/resque/failures"
)

// ErrNoJob is returned for a job that is not where it was found any more: a worker has taken it, or it was
// removed, moved or changed. Nothing was done to it. Find it again.
var ErrNoJob = prefix.New("the job is not there any more; a worker or another operator may have taken it, find it again")

// End is an end of a queue.
type End string

const (
	Head End = "head" // a worker takes it next
	Tail End = "tail" // behind the jobs that are there
)

// action is a change of jobs: what it is of a job in each place.
type action struct {
	name  string // of the call
	doing string // in errors: "removing"

	backwards bool // the last of several jobs first, because each goes to the head

	list    func(e Entry) resque.Target // of a job in a queue or lane
	delayed func(s delayed.Store, c redis.Conn, jobs []delayed.Job) ([]bool, error)
	failed  func(s failures.Store, c redis.Conn, f Failure) error
	as      []byte // the bytes as which a job in a queue or lane goes on; nil: its own

	removes  bool                                    // steps of workflows among waiting jobs have failed then
	document func(e Entry, d *resque.DocumentChange) // what its document says then
}

// Remove removes jobs that Find or List returned, for good, and returns how many it removed. A unique job
// gives up its lock. Of a failed job it removes the record. What is known of a waiting job that was enqueued with a
// result says cancelled then. A step of a workflow has failed then. That is done in a second step: its error says so, and
// the jobs are removed.
//
// Each job is removed as exactly what was found, wherever in its list it is by now. The error joins an
// ErrNoJob for each job that is not there any more, naming the job and its place; the others are removed
// all the same. A running job is refused: only its handler ends it.
func (i *Inspector) Remove(ctx context.Context, jobs ...Entry) (removed int, err error) {
	return counted(i.act(ctx, removal, jobs))
}

var removal = action{
	name: "Remove", doing: "removing",
	list:    func(Entry) resque.Target { return resque.Target{} },
	delayed: delayed.Store.Take,
	failed:  func(s failures.Store, c redis.Conn, f Failure) error { return s.Remove(c, f.record) },

	removes: true, document: func(_ Entry, d *resque.DocumentChange) { d.Gone = true },
}

// Move puts jobs that Find or List returned into another queue, and returns how many it moved. A waiting
// job goes to the tail of that queue. A delayed one keeps its time. A failed one is retried there, as by
// RunNow. Payloads stay as they are, and unique jobs keep their locks. Errors are as those of Remove.
func (i *Inspector) Move(ctx context.Context, queue string, jobs ...Entry) (moved int, err error) {
	a, err := i.movement(queue)
	if err != nil {
		return 0, err
	}
	return counted(i.act(ctx, a, jobs))
}

func (i *Inspector) movement(queue string) (action, error) {
	if err := i.usable(); err != nil {
		return action{}, err
	}
	if queue == "" {
		return action{}, errors.New("goworker: the queue to move jobs to has no name; give it one")
	}
	style, err := i.style()
	return action{
		name: "Move", doing: "moving",
		list: func(Entry) resque.Target { return resque.Target{Queue: queue} },
		delayed: func(s delayed.Store, c redis.Conn, jobs []delayed.Job) ([]bool, error) {
			there := make([]bool, len(jobs))
			for n, d := range jobs {
				if d.Err != nil {
					continue
				}
				var err error
				if there[n], _, err = s.Swap(c, d, queue, d.Payload, style); err != nil {
					return there, err
				}
			}
			return there, nil
		},
		failed: func(s failures.Store, c redis.Conn, f Failure) error {
			return s.RetryAs(c, f.record, clock.System.Now(), failures.Again{Queue: queue})
		},
		document: func(e Entry, d *resque.DocumentChange) { d.Queue, d.Due = queue, e.At },
	}, err
}

// style is how payloads are encoded.
func (i *Inspector) style() (payload.Style, error) {
	settings, err := i.all()[0].redis.Settings()
	return settings.Style, err
}

// RunNow puts jobs that Find or List returned to an end of their queues, and returns how many. A delayed
// job waits no longer. Jobs that go to the head of a queue are there in the order given. A failed one is retried: its record is marked, and its payload loses the number of
// its attempt and its expiry. Errors are as those of Remove.
//
// A job in a lane goes to the head of its lane, and the lane is the next of its queue; or to the tail of
// its queue, which puts it behind the others of its lane. Its limits still hold.
func (i *Inspector) RunNow(ctx context.Context, to End, jobs ...Entry) (run int, err error) {
	a, err := running(to)
	if err != nil {
		return 0, err
	}
	return counted(i.act(ctx, a, jobs))
}

func running(to End) (action, error) {
	if to != Head && to != Tail {
		return action{}, fmt.Errorf("goworker: %q is no end of a queue; use Head or Tail", to)
	}
	return action{
		name: "RunNow", doing: "running", backwards: to == Head,
		list: func(e Entry) resque.Target {
			t := resque.Target{Queue: e.Queue, Head: to == Head}
			if t.Head {
				t.Lane = e.lane
			}
			return t
		},
		delayed: func(s delayed.Store, c redis.Conn, jobs []delayed.Job) ([]bool, error) {
			return s.Enqueue(c, jobs, to == Head)
		},
		failed: func(s failures.Store, c redis.Conn, f Failure) error {
			return s.RetryAs(c, f.record, clock.System.Now(), failures.Again{Head: to == Head})
		},
		document: func(e Entry, d *resque.DocumentChange) { d.Queue = e.Queue },
	}, nil
}

// Edit says what of a job changes. A zero field stays as it is.
type Edit struct {
	Queue string
	Class string
	Args  []any // empty but not nil: no arguments
}

// Edit changes the queue, class or arguments of a job that Find or List returned, and returns the job as
// it is then. All other fields of its payload stay: its id, its lock, its expiry. An edited job without
// an id still has none.
//
// A job in a queue keeps its place there, or goes to the tail of the other queue. A job in a lane goes
// to the head of its queue, because other limits may concern it. A delayed job keeps its time; RunNow of what
// Edit returns runs it. A failed job is retried in its new form, at the tail of its queue, and its record
// keeps the old one. The error is ErrNoJob if the job is not there any more.
//
// A unique job keeps the lock of its old class and arguments, until it is done.
func (i *Inspector) Edit(ctx context.Context, job Entry, edit Edit) (Entry, error) {
	if err := i.usable(); err != nil {
		return Entry{}, err
	}
	if err := job.changeable("editing"); err != nil {
		return Entry{}, err
	}
	if edit.Queue == "" && edit.Class == "" && edit.Args == nil {
		return Entry{}, errors.New("goworker: the edit changes nothing; set its Queue, Class or Args")
	}
	one := i.at(job.shard)
	settings, err := one.redis.Settings()
	if err != nil {
		return Entry{}, err
	}
	if job.Invalid != nil {
		return Entry{}, prefix.Errorf("editing %s: it cannot be read: %w", job, job.Invalid)
	}
	as, err := edit.apply(job.Payload, settings.Style, settings.MaxPayload)
	if err != nil {
		return Entry{}, prefix.Errorf("editing %s: %w", job, err)
	}
	queue := cmp.Or(edit.Queue, job.Queue)
	edited := one.entry(job.Place, queue, as)
	edited.Shard, edited.At, edited.Plain, edited.index = job.Shard, job.At, job.Plain, job.index
	if job.Place == InLane || job.Place == Failed {
		edited.Place = Queued
	}
	_, err = counted(one.act(ctx, action{
		name: "Edit", doing: "editing",
		delayed: func(s delayed.Store, c redis.Conn, jobs []delayed.Job) ([]bool, error) {
			there, d, err := s.Swap(c, jobs[0], queue, as, settings.Style)
			edited.delay = d
			return []bool{there}, err
		},
		failed: func(s failures.Store, c redis.Conn, f Failure) error {
			again, err := payload.ForRetry(as, true)
			if err != nil {
				return err
			}
			edited = one.entry(Queued, queue, again)
			edited.Shard = job.Shard
			return s.RetryAs(c, f.record, clock.System.Now(), failures.Again{Queue: queue, Payload: again})
		},
		list: func(Entry) resque.Target {
			return resque.Target{Queue: queue, Head: job.Place == InLane, Here: job.Place == Queued && queue == job.Queue}
		},
		as:       as,
		document: func(e Entry, d *resque.DocumentChange) { d.Queue, d.Due, d.Class = queue, e.At, edited.Class },
	}, []Entry{job}))
	if err != nil {
		return Entry{}, err
	}
	return edited, nil
}

// apply returns the payload with the changes.
func (e Edit) apply(raw []byte, style payload.Style, most int) ([]byte, error) {
	old, err := payload.Parse(raw)
	if err != nil {
		return nil, err
	}
	// What Encode writes is split into the values of class and args.
	encoded, err := payload.Encode(cmp.Or(e.Class, old.Class), e.Args, style)
	if err != nil {
		return nil, err
	}
	var fields []payload.Field
	members := payload.Members(encoded)
	if e.Class != "" {
		fields = append(fields, payload.Field{Name: "class", Value: payload.LastMember(members, `"class"`)})
	}
	if e.Args != nil {
		fields = append(fields, payload.Field{Name: "args", Value: payload.LastMember(members, `"args"`)})
	}
	as, err := payload.SetFields(raw, fields...)
	if err != nil {
		return nil, err
	}
	return as, payload.CheckSize(as, most)
}

// changeable returns an error if the job cannot be changed, because of what it is.
func (e Entry) changeable(doing string) error {
	switch {
	case !e.listed:
		return errNotFound
	case e.Place == Running, e.Place == Leased:
		return fmt.Errorf("goworker: %s %s: it is running, or about to; only its handler ends it", doing, e)
	}
	return nil
}

var errNotFound = errors.New("goworker: this job does not come from Find or List; only a job that was found can be changed")

// counted returns how many jobs were there.
func counted(there []bool, err error) (n int, _ error) {
	for _, was := range there {
		if was {
			n++
		}
	}
	return n, err
}

// at is the Inspector of a shard.
func (i *Inspector) at(shard int) *Inspector {
	if i.several() {
		return i.shards[min(shard, len(i.shards)-1)]
	}
	return i
}

// mostNamed is how many jobs that are gone an error names.
const mostNamed = 20

// act makes a change, on each shard that has some of the jobs. It returns which of the jobs were changed. The error
// joins one for each of the others.
func (i *Inspector) act(ctx context.Context, a action, jobs []Entry) (there []bool, err error) {
	if err := i.usable(); err != nil {
		return nil, err
	}
	there, errs := make([]bool, len(jobs)), make([]error, 0, 4)
	failed := make(map[int]bool) // errors that were joined already
	for _, one := range i.all() {
		var mine []int
		for n, e := range jobs {
			if i.several() && e.shard != one.number {
				continue
			}
			if err := e.changeable(a.doing); err != nil {
				errs, failed[n] = append(errs, err), true
				continue
			}
			mine = append(mine, n)
		}
		if len(mine) == 0 {
			continue
		}
		if a.backwards {
			slices.Reverse(mine)
		}
		err := one.do(ctx, func(s resque.Store, c redis.Conn) error {
			return a.do(s, c, jobs, mine, there, func(n int, err error) {
				if failed[n] = true; len(errs) < mostNamed {
					errs = append(errs, &jobError{a.doing, jobs[n].String(), err})
				}
			})
		})
		if err != nil {
			err = prefix.Errorf("%s jobs: %w", a.doing, err)
			if i.several() {
				err = one.about(err)
			}
			for _, n := range mine { // it is unknown whether these were there
				failed[n] = true
			}
		}
		changed, on := 0, ""
		var documents []resque.DocumentChange
		var removed []gone
		for _, n := range mine {
			if !there[n] {
				continue
			}
			if a.removes && jobs[n].Place != Failed {
				removed = append(removed, gone{jobs[n].Queue, jobs[n].Payload})
			}
			changed++
			on = jobs[n].String()
			if d, ok := resque.DocumentChangeOf(jobs[n].Payload); ok && jobs[n].Place != Failed { // the retry of a failed one writes it
				a.document(jobs[n], &d)
				documents = append(documents, d)
			}
		}
		errs = append(errs, one.document(ctx, documents), one.fail(ctx, removed))
		if changed > 1 {
			on = fmt.Sprintf("%d jobs, the last %s", changed, on)
		}
		errs = append(errs, one.record(ctx, a.name, on, int64(changed), err))
	}
	gone := 0
	for n, e := range jobs {
		if !there[n] && !failed[n] {
			if gone++; gone <= mostNamed {
				errs = append(errs, &jobError{a.doing, e.String(), ErrNoJob})
			}
		}
	}
	if gone > mostNamed {
		errs = append(errs, &jobError{a.doing, fmt.Sprintf("%d more jobs", gone-mostNamed), ErrNoJob})
	}
	return there, errors.Join(errs...)
}

// do changes those jobs that are on one Redis.
func (a action) do(s resque.Store, c redis.Conn, jobs []Entry, mine []int, there []bool, refuse func(n int, err error)) error {
	type list struct {
		queue, shared, own string
		lane               bool
		target             resque.Target
	}
	lists, order := make(map[list][]int), []list(nil)
	var waiting []int
	for _, n := range mine {
		e := jobs[n]
		switch e.Place {
		case Failed:
			err := a.failed(failures.New(s), c, *e.Failure)
			switch there[n] = err == nil; {
			case err == nil, errors.Is(err, failures.ErrNoFailure):
			case c.Err() != nil:
				return err
			default:
				refuse(n, err)
			}
		case Delayed:
			if e.Invalid != nil && a.name != removal.name {
				refuse(n, fmt.Errorf("it is no job: %w", e.Invalid))
				continue
			}
			waiting = append(waiting, n)
		default:
			l := list{queue: e.Queue, lane: e.lane != nil}
			if l.lane {
				l.shared, l.own = e.lane.Shared, e.lane.Own
			}
			l.target = a.list(e)
			if lists[l] == nil {
				order = append(order, l)
			}
			lists[l] = append(lists[l], n)
		}
	}
	if len(waiting) > 0 {
		listed := make([]delayed.Job, len(waiting))
		for at, n := range waiting {
			listed[at] = jobs[n].delay
		}
		done, err := a.delayed(delayed.New(s), c, listed)
		for at, n := range waiting {
			there[n] = at < len(done) && done[at]
		}
		if err != nil {
			return err
		}
	}
	for _, l := range order {
		var moves []resque.Move
		for _, n := range lists[l] {
			m := resque.Move{Element: resque.Element{Index: jobs[n].index, Raw: jobs[n].raw}, As: a.as}
			m.Lock, m.ID = jobs[n].lock()
			moves = append(moves, m)
		}
		done, err := s.MoveJobs(c, resque.Lane{Queue: l.queue, Shared: l.shared, Own: l.own}, l.lane, moves, l.target)
		for at, n := range lists[l] {
			there[n] = done[at]
		}
		if err != nil {
			return err
		}
	}
	return nil
}
