package playtest

import (
	"context"
	"errors"
	"slices"
	"strconv"

	"github.com/gomodule/redigo/redis"

	"github.com/goworker/goworker/internal/clock"
	"github.com/goworker/goworker/internal/fleet"
	"github.com/goworker/goworker/internal/inflight"
	"github.com/goworker/goworker/internal/outcome"
	"github.com/goworker/goworker/internal/resque"
)

// Process is a process of the fleet, without its goroutines: the steps of a history are its turns.
type Process struct {
	w *World
	resque.Process
	Set  *outcome.Set
	Busy []*Run // in the order of their starts
	rec  *inflight.Record
	ends map[int64]any // by ticket: what Rules.Ended has made of the job's end

	Killed   bool // or it found out that it was reaped
	Reaped   bool // nothing of it is left
	Stopping bool
	Fenced   bool
}

// End is how the record asks what becomes of a job that goes back.
func (p *Process) End(j *outcome.Job, state outcome.State, err error) outcome.Outcome {
	o := p.Set.End(j, state, err)
	p.ends[j.Ticket] = p.w.Ended(j.Payload, &o, j)
	return o
}

// Run is a job with a worker, whose handler waits to be told how it ends.
type Run struct {
	*inflight.Task
	Process *Process
	out     chan outcome.Outcome
	stop    chan outcome.Handler
}

// Start has a worker take the next job. It returns false if none waits, or no worker is free.
func (p *Process) Start() bool {
	t := p.rec.Next()
	if t == nil || len(p.Busy) == Slots {
		return false
	}
	p.rec.Dispatched()
	n := 0
	for slices.ContainsFunc(p.Busy, func(r *Run) bool { return r.Slot == n }) {
		n++
	}
	t.Worker, t.Slot, t.StartedAt = p.WorkerID(n), n, clock.System.Now()
	r := &Run{Task: t, Process: p, stop: make(chan outcome.Handler), out: make(chan outcome.Outcome, 1)}
	p.Busy = append(p.Busy, r)
	began := make(chan struct{})
	go func() {
		var o outcome.Outcome
		p.Set.Run(context.Background(), &t.Job, func(ctx context.Context, j *outcome.Job) error {
			t.Admitted()
			close(began)
			return (<-r.stop)(ctx, j)
		}, &o)
		r.out <- o
	}()
	select {
	case <-began:
	case o := <-r.out: // it was not run
		p.ended(r, o)
	}
	return true
}

// Finish ends a handler, and hands in what became of its job.
func (r *Run) Finish(how outcome.Handler) {
	r.stop <- how
	r.Process.ended(r, <-r.out)
}

func (p *Process) ended(r *Run, o outcome.Outcome) {
	p.Busy = slices.DeleteFunc(p.Busy, func(other *Run) bool { return other == r })
	if p.Killed {
		return
	}
	e := inflight.NewEnd(r.Task, &o)
	if p.rec.Ended(&e) {
		p.ends[r.Ticket] = p.w.Ended(r.Payload, &o, &r.Job)
	}
}

// Kill ends the process. What its handlers return is lost.
func (p *Process) Kill() {
	p.Killed = true
	for len(p.Busy) > 0 {
		p.Busy[0].Finish(func(context.Context, *outcome.Job) error { return nil })
	}
}

// Way is what becomes of a request and its answer.
type Way int

// The ways.
const (
	Answered Way = iota
	AnswerLost
	RequestLost
	ways
)

// Exchange is one turn of the process's poller. It returns false if nothing came of it.
func (p *Process) Exchange(how Way) bool {
	w := p.w
	p.rec.Retry(w.Now)
	p.rec.Regroup()
	x := new(resque.Exchange)
	p.rec.HandIn(x)
	idle := Slots - len(p.Busy)
	if !p.Stopping && !p.Fenced {
		x.Want = max(0, p.rec.Room(Slots, idle, true))
	}
	for _, queue := range w.Queues {
		x.Asks = append(x.Asks, resque.Ask{Queue: queue, Quota: x.Want})
	}
	p.rec.Advance(x, idle > 0, w.Now)
	if how == RequestLost {
		p.rec.Unanswered()
		p.resync()
		return true
	}
	out, err := p.send(x)
	switch {
	case errors.Is(err, resque.ErrReaped):
		p.rec.Unanswered()
		p.Kill()
	case errors.Is(err, resque.ErrStale), err == nil && how == AnswerLost:
		p.rec.Unanswered()
		p.resync()
	case err != nil:
		Fatalf("an exchange of %s: %v", p.ID, err)
	default:
		p.rec.Confirm(out.Refused, w.Now, func(*inflight.End) {})
		p.rec.Recorded(x, w.Now)
		p.Fenced = p.Fenced || out.Fenced
		p.receive(out.Jobs, out.Suspects)
		if out.Removed && !out.Fenced {
			p.resync()
		}
		return len(x.Ended)+len(x.Done)+len(out.Jobs) > 0
	}
	return true
}

// send does an exchange, and has the model learn which ends were committed.
func (p *Process) send(x *resque.Exchange) (resque.Exchanged, error) {
	w := p.w
	held := w.List("HKEYS", p.Inflight())
	strict := w.Number("EXISTS", "resque:go:reaped:"+p.ID) == 1
	w.Must(w.Store.Send(w.Conn, x))
	out, err := w.Store.Receive(w.Conn, x)
	if err != nil {
		return out, err
	}
	refused := make(map[int64]bool)
	for _, r := range out.Refused {
		refused[r.Ticket] = true
		w.Refused++
		if len(w.Spoiled) == 0 && !r.NoBytes() {
			Fatalf("Redis refuses %+v", r)
		}
	}
	committed := func(ticket int64) bool {
		return !refused[ticket] && (!strict || slices.Contains(held, strconv.FormatInt(ticket, 10)))
	}
	for _, e := range x.Ended {
		if committed(e.Ticket) {
			w.Committed(p.ends[e.Ticket], false)
		}
	}
	for _, ticket := range x.Done {
		if committed(ticket) {
			w.Committed(p.ends[ticket], true)
		}
	}
	return out, err
}

func (p *Process) receive(jobs []resque.Reserved, suspects bool) {
	var deaths []resque.Deaths
	if suspects && len(jobs) > 0 {
		var err error
		deaths, err = p.w.Store.DeathsOf(p.w.Conn, jobs, p.w.Now)
		p.w.Must(err)
	}
	p.rec.Received(jobs, deaths, false, p.w.Now)
}

// resync reads the record back, as a poller does after a lost answer.
func (p *Process) resync() {
	w := p.w
	epoch, tickets, whole, err := w.Store.Resync(w.Conn, p.ID)
	if errors.Is(err, resque.ErrReaped) {
		p.Kill()
		return
	}
	w.Must(err)
	unknown, unreadable, err := w.Store.ReadReserved(w.Conn, p.ID, p.rec.Unknown(tickets))
	w.Must(errors.Join(append(unreadable, err)...))
	if !whole {
		jobs, handed := p.rec.Missing(tickets)
		w.Must(w.Store.Restore(w.Conn, p.ID, epoch, jobs, handed))
	}
	p.rec.Resynced(epoch, tickets, whole)
	if fresh := p.rec.Adopt(unknown); len(fresh) > 0 {
		p.receive(fresh, true)
	}
}

// Hear has the process read the keys that its features watch.
func (p *Process) Hear() {
	for _, watched := range p.Set.Watched() {
		if err := watched.Read(p.w.Conn); len(p.w.Spoiled) == 0 {
			p.w.Must(err)
		}
	}
}

// reaper ends the jobs of a dead process by the seam of another one, and has the model learn which it has filed.
type reaper struct {
	*Process
	filed map[int64][]byte // what it said last of each ticket; nil: the job runs again
}

func (r *reaper) Bury(d resque.DeadJob) []resque.Effect {
	r.filed[d.Ticket] = nil
	if d.Poison > 0 {
		r.filed[d.Ticket] = d.Payload
	}
	return r.Set.Bury(d)
}

// End is of fleet.Ends.
func (r *reaper) End(j *outcome.Job, state outcome.State, err error) outcome.Outcome {
	return r.Set.End(j, state, err)
}

// Reap has a process take the jobs of another one, which may be alive.
func (p *Process) Reap(dead *Process) {
	w := p.w
	r := &reaper{p, make(map[int64][]byte)}
	out, err := fleet.Reaping{
		Store: w.Store, Limit: mostDeaths, Ends: r,
		Died: func(redis.Conn, string) error { return nil },
	}.Reap(w.Conn, resque.Lease{Process: dead.ID, Value: dead.Lease()}, w.Now)
	w.Must(err)
	if len(out.Refused) > 0 && len(w.Spoiled) == 0 {
		Fatalf("Redis refuses %v", out.Refused)
	}
	dead.Reaped = out.Left == 0
	left := w.List("HKEYS", dead.Inflight())
	tickets := make([]int64, 0, len(r.filed))
	for ticket := range r.filed {
		tickets = append(tickets, ticket)
	}
	slices.Sort(tickets)
	slices.Reverse(tickets)
	for _, ticket := range tickets {
		if payload := r.filed[ticket]; payload != nil && !slices.Contains(left, strconv.FormatInt(ticket, 10)) {
			w.Poison(payload)
		}
	}
}

// Lease is what the process's lease is seen to be.
func (p *Process) Lease() string {
	lease, err := redis.String(p.w.Conn.Do("ZSCORE", "resque:go:processes", p.ID))
	if err == redis.ErrNil {
		return ""
	}
	p.w.Must(err)
	return lease
}

// Reserved returns the jobs in the process's record, as they are in a record that has prefix and payload together.
func (p *Process) Reserved() (all []string) {
	tickets, err := p.w.Store.Tickets(p.w.Conn, p.ID)
	p.w.Must(err)
	jobs, _, err := p.w.Store.ReadReserved(p.w.Conn, p.ID, tickets)
	p.w.Must(err)
	for _, j := range jobs {
		all = append(all, resque.JobPrefix(j.Queue)+string(j.Payload))
	}
	return all
}

// Inflight is the key of the process's record of its jobs.
func (p *Process) Inflight() string { return "resque:go:inflight:" + p.ID }
