package gateway

import (
	"context"
	"slices"
	"time"

	"github.com/goworker/goworker/internal/httpjob"
	"github.com/goworker/goworker/internal/leased"
	"github.com/goworker/goworker/internal/payload"
	"github.com/goworker/goworker/internal/resque"
	"github.com/goworker/goworker/internal/resque/leases"
)

// give gives the clients what a turn has brought.
func (d *desk) give(ctx context.Context, f *flight, answer *leases.Answer) {
	unwanted := d.side.Unwanted(ctx, answer.Jobs)
	over := slices.Clone(unwanted)
	for i := range answer.Jobs {
		j := &answer.Jobs[i]
		d.took(j.Queue, 1)
		if end, moved := misplaced(j); moved {
			over, unwanted = append(over, end), append(unwanted, end)
		}
		if j.Fate == leases.Given {
			f.groups[j.Ask].jobs = append(f.groups[j.Ask].jobs, *j)
		} else {
			over = append(over, endOf(*j, kindOf(j.Fate)))
		}
	}
	full := len(answer.Jobs) >= f.turn.Jobs || bytesOf(answer.Jobs) >= f.turn.Bytes
	refused := d.refusals(answer.Errors)
	d.mu.Lock()
	d.flight = nil
	d.tell(f, answer)
	for i := range f.groups {
		g := &f.groups[i]
		g.without(unwanted)
		over = append(over, d.deal(f, g, answer, full || len(unwanted) > 0, refused)...)
	}
	for _, p := range f.probes {
		d.follow(p)
	}
	d.mu.Unlock()
	if slices.ContainsFunc(f.probes, func(p probe) bool { return p.woken }) {
		d.yielding.took(len(answer.Jobs))
	}
	if len(over) > 0 {
		d.ends(over...)
	}
	if ttr := f.shortest(); ttr > 0 {
		d.given(ttr)
	}
}

// shortest returns the shortest lease that a turn has given; 0: it gave none.
func (f *flight) shortest() (ttr time.Duration) {
	for i := range f.groups {
		if g := &f.groups[i]; len(g.jobs) > 0 && (ttr == 0 || g.ttr < ttr) {
			ttr = g.ttr
		}
	}
	return ttr
}

// tell answers the acknowledgements of a turn. The caller holds mu.
func (d *desk) tell(f *flight, answer *leases.Answer) {
	whats := answer.Acks
	for _, call := range f.calls {
		call.whats, whats = whats[:len(call.acks):len(call.acks)], whats[len(call.acks):]
		for i, w := range call.whats {
			if w == leases.Unknown && call.heard { // it was done by the turn whose answer was lost
				call.whats[i], w = leases.Acked, leases.Acked
			}
			if w == leases.Acked {
				d.count.acked.Add(1)
				if d.finished != nil {
					d.finished(call.acks[i])
				}
			}
		}
		call.done <- nil
	}
}

// deal deals the jobs of a group to its asks in order of arrival. What is for clients that have gone goes to the next
// waiters of the line. deal returns the jobs that are left. again says that there may be more. The caller holds mu.
func (d *desk) deal(f *flight, g *group, answer *leases.Answer, again bool, refused map[string]error) (left []leased.End) {
	jobs := g.jobs
	give := func(a *ask) {
		n := min(a.count, len(jobs))
		d.answer(a, reply{jobs: jobs[:n:n], now: answer.Now})
		d.count.reserved.Add(int64(n))
		jobs = jobs[n:]
	}
	var none []*ask
	for _, a := range g.asks {
		switch {
		case a.stage == ended:
		case len(jobs) > 0:
			give(a)
		default:
			none = append(none, a)
		}
	}
	for a, next := g.line.head, (*ask)(nil); a != nil && len(jobs) > 0; a = next {
		if next = a.next; a.stage == waiting && a.ttr == g.ttr {
			give(a)
		}
	}
	for _, j := range slices.Backward(jobs) { // the last first, so that they keep their order at the head
		left = append(left, endOf(j, leased.Unseen))
	}
	err := d.refusal(g.line, refused)
	for _, a := range none {
		switch {
		case d.drained:
			d.answer(a, reply{})
		case again:
			d.askAgain(a)
		case err != nil:
			d.answer(a, reply{err: err})
		case a.waits:
			a.stage = waiting
			d.lines.list(a)
		default:
			d.answer(a, reply{})
		}
	}
	return left
}

// askAgain has an ask in the next turn. The caller holds mu.
func (d *desk) askAgain(a *ask) {
	if a.listed { // it must not be asked by two
		d.lines.unlist(a)
	}
	a.stage = queued
	d.again = append(d.again, a)
}

// follow goes on with a probe if all its asks got something. The caller holds mu.
func (d *desk) follow(p probe) {
	for _, a := range p.asks {
		if a.stage != ended {
			return
		}
	}
	d.probes.add(p.queue, min(4*p.most, mostProbe))
}

// without takes jobs out of a group.
func (g *group) without(jobs []leased.End) {
	if len(jobs) == 0 {
		return
	}
	left := g.jobs[:0]
	for _, j := range g.jobs {
		if !contains(jobs, j) {
			left = append(left, j)
		}
	}
	g.jobs = left
}

func contains(jobs []leased.End, j leases.Job) bool {
	for i := range jobs {
		if jobs[i].ID == j.ID && jobs[i].Queue == j.Queue {
			return true
		}
	}
	return false
}

// refusals returns by key what Redis refused.
func (d *desk) refusals(errs []resque.KeyError) map[string]error {
	if len(errs) == 0 {
		return nil
	}
	by := make(map[string]error, len(errs))
	for i := range errs {
		by[errs[i].Key] = &errs[i]
	}
	return by
}

// refusal returns what Redis refused of the queues of a line.
func (d *desk) refusal(of *line, refused map[string]error) error {
	if len(refused) == 0 {
		return nil
	}
	for _, q := range of.queues {
		if err := refused[d.keyOf(q)]; err != nil {
			return err
		}
	}
	return nil
}

// misplaced reports whether a job with effects has an id that the turn did not see, because other fields follow it: an
// older release has retried it, or another program wrote it. Then what looks for the holder of its lock, or for its step, does not find it
// by its place. So it goes back with its id as the last field.
func misplaced(j *leases.Job) (end leased.End, yes bool) {
	if j.Fate != leases.Given || !j.Effects {
		return end, false
	}
	if id, _ := httpjob.Tail(j.Payload); id != "" {
		return end, false
	}
	end = endOf(*j, leased.Unseen)
	end.Rewritten, yes = payload.IDLast(j.Payload, httpjob.MaxID)
	return end, yes
}

// kindOf returns how a job ends that was taken and is for no client.
func kindOf(f leases.Fate) leased.Kind {
	if f == leases.Expired {
		return leased.Expired
	}
	return leased.Done
}

func endOf(j leases.Job, k leased.Kind) leased.End {
	return leased.End{Queue: j.Queue, ID: j.ID, Lease: j.Lease, Payload: j.Payload, Kind: k}
}

func bytesOf(jobs []leases.Job) (n int) {
	for i := range jobs {
		n += len(jobs[i].Payload)
	}
	return n
}
