package inspect

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/goworker/goworker/internal/clock"
	"github.com/goworker/goworker/internal/payload"
	"github.com/goworker/goworker/internal/queues"
	"github.com/goworker/goworker/internal/resque"
	"github.com/goworker/goworker/internal/resque/delayed"
	"github.com/goworker/goworker/internal/resque/failures"
	"github.com/goworker/goworker/internal/resque/operations"
	"github.com/goworker/goworker/internal/resque/workflows"
)

// share is those jobs of a page that one script changes: they are in one place, and go the same way.
type share struct {
	kind    operations.Kind
	name    string  // of the place in the bin
	jobs    []Entry // in the order of the changes
	changes []operations.Change
	refused int64 // jobs that cannot be changed
	why     string
}

// placeName is the name in the bin of the place where a job is.
func (e Entry) placeName() string {
	switch e.Place {
	case Delayed:
		if e.Plain {
			return operations.PlainPlace
		}
		return operations.OwnPlace
	case InLane:
		return operations.LaneName(*e.lane)
	case Failed:
		return operations.FailedName(e.Failure.record.List)
	case Running:
		return string(Running)
	}
	return operations.QueueName(e.Queue)
}

// shares divides the jobs of a page by their places, in the order in which the places come.
func shares(jobs []Entry, by func(e Entry) string) (all [][]Entry) {
	at := make(map[string]int)
	for _, e := range jobs {
		name := by(e)
		n, ok := at[name]
		if !ok {
			n, at[name] = len(all), len(all)
			all = append(all, nil)
		}
		all[n] = append(all[n], e)
	}
	return all
}

// went says which job went elsewhere, so that it is found there.
type went struct {
	ref     string // where it is then
	time    string // of a delayed job: its time, in ms; of resque-scheduler the second. Of a waiting one that was delayed: when it expired, in ms
	failure string // of a failed job: its id
	id      string
	queue   string // where it is then
	from    string // the queue where it was
}

func (w went) String() string {
	return fmt.Sprintf("%s %s %s %s%s%s", w.ref, cmp.Or(w.time, "-"), cmp.Or(w.failure, "-"), resque.JobPrefix(w.id), resque.JobPrefix(w.queue), w.from)
}

// parseWent reads what String wrote.
func parseWent(text []byte) (w went, ok bool) {
	fields := [3]string{}
	for n := range fields {
		end := slices.Index(text, ' ')
		if end < 0 {
			return w, false
		}
		fields[n], text = string(text[:end]), text[end+1:]
	}
	w.ref, w.time, w.failure = fields[0], fields[1], fields[2]
	if w.time == "-" {
		w.time = ""
	}
	if w.failure == "-" {
		w.failure = ""
	}
	if w.id, text, ok = resque.CutPrefix(text); ok {
		w.queue, text, ok = resque.CutPrefix(text)
	}
	w.from = string(text)
	return w, ok && len(w.ref) == refSize
}

// stamp is the time of a delayed job as the bin has it.
func (e Entry) stamp() string {
	at := resque.StampOf(e.At)
	if e.Plain {
		return at.Second()
	}
	return strconv.FormatInt(at.MS, 10)
}

// goes is how the bin remembers a job that goes to a queue as some bytes.
func (e Entry) goes(queue string, as []byte) string {
	if !queues.IsOwn(queue) {
		as = payload.JSON(as)
	}
	w := went{ref: refOf(queue, as), id: e.ID, queue: queue, from: e.Queue}
	switch {
	case e.Place == Delayed:
		w.time = e.stamp()
	case e.Failure == nil && !bytes.Equal(as, e.Payload):
		if p, err := payload.Parse(e.Payload); err == nil && p.ExpiresAt > 0 {
			w.time = strconv.FormatInt(p.ExpiresAt, 10)
		}
	}
	if e.Failure != nil {
		w.failure = e.Failure.ID
	}
	return operations.Last + w.String()
}

// featured reports whether something waits for the end of the job: a lock, a workflow or a result.
func (e Entry) featured() bool {
	if e.Place == Failed || e.Invalid != nil {
		return false
	}
	if lock, _ := e.lock(); lock != "" {
		return true
	}
	if _, ok := resque.DocumentChangeOf(e.Payload); ok {
		return true
	}
	_, step := workflows.PlaceOf(e.Payload)
	return step
}

// binned is how a removed job lies in the bin.
func (e Entry) binned() string {
	switch {
	case e.featured():
		return operations.Ended + resque.JobPrefix(e.Queue) + string(e.Payload)
	case e.Place == Delayed:
		return operations.Last + operations.DelayedEntry(e.stamp(), e.delay.Raw)
	case e.Place == Failed:
		return operations.First + string(e.Failure.Raw)
	}
	return operations.First + string(e.raw)
}

// does is what the plan does with a job. A job that waits without an id cannot be cancelled: it goes into the bin.
func (p Plan) does(e Entry) Verb {
	if p.Verb == Revoke && e.ID == "" && slices.Contains([]Place{Delayed, Queued, InLane}, e.Place) {
		return Drop
	}
	return p.Verb
}

// shareName is the same for jobs that one step changes.
func (p Plan) shareName(e Entry) string { return string(p.does(e)) + " " + e.placeName() }

// shareOf prepares what a plan does with jobs of one place.
func shareOf(store resque.Store, style payload.Style, p Plan, jobs []Entry) share {
	p.Verb = p.does(jobs[0])
	s := share{name: jobs[0].placeName(), jobs: jobs}
	if p.Verb != Drop {
		s.name = operations.WentName(s.name)
	}
	if p.Verb == Revoke {
		s.cancel(store)
		return s
	}
	switch jobs[0].Place {
	case Failed:
		s.ofFailures(failures.New(store), p)
	case Delayed:
		s.ofDelayed(delayed.New(store), p, style)
	default:
		s.ofList(store, p, style)
	}
	return s
}

// refuse leaves jobs out that cannot be changed.
func (s *share) refuse(why func(e Entry) error) {
	s.jobs = slices.DeleteFunc(slices.Clone(s.jobs), func(e Entry) bool {
		err := why(e)
		if err != nil {
			s.refused, s.why = s.refused+1, fmt.Sprintf("%s: %v", e, err)
		}
		return err != nil
	})
}

func (s *share) cancel(store resque.Store) {
	s.kind, s.name = operations.Cancel, operations.CancelledName
	s.refuse(func(e Entry) error {
		if e.ID == "" && (e.Place != Running || e.Process == "") {
			return errors.New("it has no id to be cancelled by")
		}
		return nil
	})
	for _, e := range s.jobs {
		if e.ID == "" {
			s.changes = append(s.changes, operations.Change{Call: store.TicketCall(e.Process, e.Ticket), Kept: []string{""}})
			continue
		}
		s.changes = append(s.changes, operations.Change{Call: store.CancelCall(e.ID), Kept: []string{operations.Last + e.ID}})
		if e.Place == Delayed {
			s.changes = append(s.changes, operations.Change{Call: store.KeepCall(e.ID, e.At.Add(time.Second))})
		}
	}
}

func (s *share) ofFailures(store failures.Store, p Plan) {
	if p.Verb == Drop {
		s.kind = operations.Remove
		slices.Reverse(s.jobs) // the foremost first
		records, kept := make([]failures.Record, 0, len(s.jobs)), make([]string, 0, len(s.jobs))
		for _, e := range s.jobs {
			records, kept = append(records, e.Failure.record), append(kept, e.binned())
		}
		s.changes = []operations.Change{{Call: store.RemoveCall(records), Kept: kept}}
		return
	}
	s.kind = operations.Retry
	again := failures.Again{Head: p.To == Head}
	if p.Verb == MoveTo {
		again.Queue = p.Queue
	}
	if !again.Head {
		slices.Reverse(s.jobs) // the oldest first
	}
	now := clock.System.Now()
	s.refuse(func(e Entry) error {
		call, err := store.RetryCall(e.Failure.record, now, again)
		if err != nil {
			return err
		}
		as, err := payload.ForRetry(e.Failure.Payload, true)
		if err != nil {
			return err
		}
		s.changes = append(s.changes, operations.Change{Call: call, Kept: []string{e.goes(cmp.Or(again.Queue, e.Failure.Queue), as)}})
		return nil
	})
}

func (s *share) ofDelayed(store delayed.Store, p Plan, style payload.Style) {
	if p.Verb != Drop {
		s.refuse(func(e Entry) error { return e.Invalid })
	}
	to := delayed.To{Nowhere: true}
	queue := func(e Entry) string { return e.Queue }
	switch p.Verb {
	case Run:
		to = delayed.To{Queue: true, Head: p.To == Head}
		if to.Head {
			slices.Reverse(s.jobs)
		}
	case Delay:
		to = delayed.To{Later: true, At: p.At, Now: clock.System.Now()}
	case MoveTo:
		to, queue = delayed.To{Named: p.Queue}, func(Entry) string { return p.Queue }
	}
	kept, jobs := make([]string, len(s.jobs)), make([]delayed.Job, len(s.jobs))
	for n, e := range s.jobs {
		jobs[n] = e.delay
		if kept[n] = e.binned(); p.Verb != Drop {
			kept[n] = e.goes(queue(e), e.delay.PayloadAt(to))
		}
	}
	switch {
	case len(jobs) == 0:
	case !s.jobs[0].Plain:
		s.kind, s.changes = operations.Own, []operations.Change{{Call: store.OwnCall(jobs, to), Kept: kept}}
	case p.Verb == MoveTo:
		s.kind = operations.Swap
		for n, d := range jobs {
			call, _ := store.SwapCall(d, p.Queue, d.Payload, style)
			s.changes = append(s.changes, operations.Change{Call: call, Kept: kept[n : n+1]})
		}
	default:
		s.kind, s.changes = operations.Plain, []operations.Change{{Call: store.PlainCall(jobs, to), Kept: kept}}
	}
}

// ofList prepares what is done with jobs of a queue or lane. Those that are delayed go to the schedule in which the client would
// enqueue them: resque-scheduler's, unless Ruby would lose a field of theirs.
func (s *share) ofList(store resque.Store, p Plan, style payload.Style) {
	s.kind = operations.Move
	target := func(Entry) resque.Target { return resque.Target{} }
	switch p.Verb {
	case MoveTo:
		target = func(Entry) resque.Target { return resque.Target{Queue: p.Queue} }
	case Delay:
		s.refuse(func(e Entry) error {
			if e.Invalid != nil {
				return e.Invalid
			}
			if e.ID == "" && !plainJob(e) {
				return errors.New("it has fields that resque-scheduler would drop, and no id by which goworker's schedule knows it")
			}
			return nil
		})
		target = func(e Entry) resque.Target { return resque.Target{Later: true, Plain: plainJob(e), Style: style} }
	}
	if p.Verb == MoveTo {
		slices.SortStableFunc(s.jobs, func(a, b Entry) int { return cmp.Compare(a.index, b.index) }) // to the tail: the foremost first
	} else {
		slices.SortStableFunc(s.jobs, func(a, b Entry) int { return cmp.Compare(b.index, a.index) })
	}
	at, now := resque.StampOf(p.At), clock.System.Now()
	as := func(e Entry) []byte { // a job that expires does so as long after it is due as it would after now
		if p.Verb != Delay {
			return e.raw
		}
		return delayed.Job{At: now, Payload: e.raw}.PayloadAt(delayed.To{Later: true, At: p.At, Now: now})
	}
	kept := func(e Entry) string {
		switch p.Verb {
		case Drop:
			return e.binned()
		case MoveTo:
			return e.goes(p.Queue, e.raw)
		}
		return e.goes(e.Queue, as(e))
	}
	parts := shares(s.jobs, func(e Entry) string { return fmt.Sprint(target(e).Plain) })
	s.jobs = slices.Concat(parts...)
	for _, some := range parts {
		moves, lies := make([]resque.Move, len(some)), make([]string, len(some))
		for n, e := range some {
			moves[n], lies[n] = e.move(at), kept(e)
			moves[n].As = as(e)
		}
		s.changes = append(s.changes, operations.Change{Call: store.MoveCall(some[0].list(), some[0].lane != nil, moves, target(some[0])), Kept: lies})
	}
}

// plainJob reports whether resque-scheduler's schedule would keep all of the job.
func plainJob(e Entry) bool {
	plain, err := payload.ForRetry(e.raw, false)
	return err == nil && string(plain) == string(e.raw) && !queues.IsOwn(e.Queue)
}

// move is how a job leaves its list.
func (e Entry) move(at resque.Stamp) resque.Move {
	m := resque.Move{Element: resque.Element{Index: e.index, Raw: e.raw}, At: at}
	m.Lock, m.ID = e.lock()
	return m
}

// list is the queue or lane where the job is.
func (e Entry) list() resque.Lane {
	if e.lane != nil {
		return *e.lane
	}
	return resque.Lane{Queue: e.Queue}
}
