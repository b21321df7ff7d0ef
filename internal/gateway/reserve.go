package gateway

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/goworker/goworker/internal/httpjob"
	"github.com/goworker/goworker/internal/leased"
	"github.com/goworker/goworker/internal/payload"
	"github.com/goworker/goworker/internal/resque/leases"
)

// Limits of one Ask.
const (
	MostAsked  = 500 // jobs
	MostQueues = 100
	MinTTR     = time.Second
	MaxTTR     = 12 * time.Hour
)

// mostReleases is how often one server puts a job back whose answer it could not write. After that the
// client's lease runs out, which uses up a try: else a client that never reads gets the same jobs for ever.
const mostReleases = 3

// Check returns what is wrong with an ask.
func (a *Ask) Check() error {
	switch {
	case len(a.Queues) == 0:
		return errors.New("the request names no queue; name one at least")
	case len(a.Queues) > MostQueues:
		return fmt.Errorf("the request names %d queues, and %d is the most; ask for fewer at a time", len(a.Queues), MostQueues)
	case slices.Contains(a.Queues, ""):
		return errors.New("the request names a queue without a name; leave it out")
	case a.Count < 0 || a.Count > MostAsked:
		return fmt.Errorf("the request asks for %d jobs; ask for 1 to %d", a.Count, MostAsked)
	case a.TTR < MinTTR || a.TTR > MaxTTR:
		return fmt.Errorf("the request has %s for a job; give it %s to %s", a.TTR, MinTTR, MaxTTR)
	}
	return nil
}

// Reserve reserves jobs for a consumer. If there is none until the ask's Wait is over, or the server stops, it
// returns nil, nil. If the context ends while jobs are on their way, they go to the next waiter.
func (g *Gateway) Reserve(ctx context.Context, a Ask) ([]Job, error) {
	if err := a.Check(); err != nil {
		return nil, err
	}
	if len(a.Queues) > 1 {
		a.Queues = distinct(a.Queues)
	}
	if err := g.begin(); err != nil {
		return nil, nil //nolint:nilerr // a consumer asks another server, as if there were no job
	}
	defer g.end()
	x, err := g.desk.ask(&a)
	if errors.Is(err, ErrStopping) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	g.desk.lead()
	r, err := g.wait(ctx, x, &a)
	if err != nil || len(r.jobs) == 0 {
		return nil, err
	}
	jobs := make([]Job, len(r.jobs))
	for i, j := range r.jobs {
		jobs[i] = jobOf(j, r.now)
	}
	g.classes.gave(jobs)
	g.sayGiven(jobs)
	return jobs, nil
}

// distinct returns names without those that are there before.
func distinct(names []string) []string {
	var out []string
	for i, name := range names {
		if !slices.Contains(names[:i], name) {
			out = append(out, name)
		}
	}
	return out
}

// wait waits for the answer to an ask.
func (g *Gateway) wait(ctx context.Context, x *ask, a *Ask) (reply, error) {
	var over <-chan time.Time
	if a.Wait > 0 {
		timer := g.n.Clock.NewTimer(a.Wait)
		defer timer.Stop()
		over = timer.C()
	}
	for {
		select {
		case r := <-x.answer:
			return r, r.err
		case <-over:
			over = nil
			g.desk.hurry(x)
		case <-ctx.Done():
			return reply{}, g.leave(x, ctx.Err())
		case <-a.Over:
			return reply{}, g.leave(x, context.DeadlineExceeded)
		}
	}
}

// leave ends an ask whose client has gone.
func (g *Gateway) leave(x *ask, why error) error {
	if !g.desk.withdraw(x) {
		r := <-x.answer
		g.handBack(r.jobs)
	}
	return why
}

// handBack puts jobs to the heads of their queues that no client has seen.
func (g *Gateway) handBack(jobs []leases.Job) {
	ends := make([]leased.End, 0, len(jobs))
	for _, j := range slices.Backward(jobs) {
		ends = append(ends, endOf(j, leased.Unseen))
	}
	g.closer.end(ends...)
}

// jobOf reads a reserved job. One that cannot be read has no arguments.
func jobOf(j leases.Job, now int64) Job {
	out := Job{Queue: j.Queue, ID: j.ID, Lease: j.Lease, Payload: j.Payload, Now: now, Attempt: 1, Tries: 1}
	if p, err := payload.Parse(j.Payload); err == nil {
		out.Parsed = p
		out.Tries, out.Attempt = httpjob.Tries(&p)
	}
	return out
}

// Release gives jobs back whose answer could not be written: to the heads of their queues, where the next waiter gets
// them. It uses up no try, and does not wait.
func (g *Gateway) Release(jobs ...Job) {
	var ends []leased.End
	for _, j := range slices.Backward(jobs) {
		if g.releases.may(leases.Place(j.Queue, j.ID)) {
			ends = append(ends, leased.End{Queue: j.Queue, ID: j.ID, Lease: j.Lease, Payload: j.Payload, Kind: leased.Returned})
		}
	}
	g.closer.end(ends...)
}

// releases count how often jobs were released.
type releases struct {
	mu sync.Mutex
	of map[string]int
}

// mostCounted is how many jobs are remembered that were released.
const mostCounted = 10_000

// may counts a release, and reports whether the job may go back.
func (r *releases) may(place string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.of == nil || len(r.of) >= mostCounted {
		r.of = make(map[string]int)
	}
	r.of[place]++
	if r.of[place] <= mostReleases {
		return true
	}
	delete(r.of, place)
	return false
}
