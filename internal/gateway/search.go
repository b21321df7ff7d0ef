package gateway

import (
	"context"
	"errors"
	"hash/maphash"
	"sync"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/goworker/goworker/internal/failure"
	"github.com/goworker/goworker/internal/httpjob"
	"github.com/goworker/goworker/internal/leased"
	"github.com/goworker/goworker/internal/resque"
	"github.com/goworker/goworker/internal/resque/leases"
)

const (
	// mostLooked is how many jobs of a queue a search looks at.
	mostLooked = 10_000

	// mostDelayedPages is how many pages of the delayed jobs of all queues a search looks at.
	mostDelayedPages = 3

	// restTimes is how many times as long as a search took its queue is not searched again. So a client with a
	// loop gets a twentieth of Redis.
	restTimes = 20

	// A page of a queue, each of its jobs, and a page of the delayed jobs take Redis no longer than this. What the search
	// itself took is more on a machine that is busy.
	pageTakes    = time.Millisecond
	jobTakes     = 2 * time.Microsecond
	delayedTakes = 10 * time.Millisecond

	// searchTakes is how long other servers do not search the queue whose search was not ended, because its server died.
	searchTakes = 10 * time.Second

	// endedFor is how long it is known which jobs were ended here, so that they are not searched.
	endedFor = time.Minute

	// mostEnded is how many of them are known.
	mostEnded = 100_000
)

// searches are those of this server, and why a job is not searched for. Redis knows which queues rest for all servers; what is known
// here spares the question.
type searches struct {
	mu    sync.Mutex
	under map[string]bool          // queues with a search under way
	rest  map[string]time.Time     // until when a queue is not searched
	ended [2]map[endedJob]struct{} // that ended here in this minute, and in the one before
	since time.Time                // when this minute began
}

// begin reports whether a queue may be searched now. The caller ends the search.
func (s *searches) begin(queue string, now time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.under[queue] || now.Before(s.rest[queue]) {
		return false
	}
	if s.under == nil {
		s.under, s.rest = make(map[string]bool), make(map[string]time.Time)
	}
	s.under[queue] = true
	return true
}

// end ends a search that took so long, and returns for how long the queue rests.
func (s *searches) end(queue string, now time.Time, took time.Duration) (rest time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.under, queue)
	for q, until := range s.rest {
		if now.After(until) {
			delete(s.rest, q)
		}
	}
	rest = restTimes * took
	s.rest[queue] = now.Add(rest)
	return rest
}

// endedJob is the hash of a queue and an id. A busy server knows many of them, and the garbage collector passes them over.
type endedJob [2]uint64

var endedSeed = maphash.MakeSeed()

func endedOf(queue, id string) endedJob {
	return endedJob{maphash.String(endedSeed, queue), maphash.String(endedSeed, id)}
}

// note notes that a job has ended.
func (s *searches) note(queue, id string, now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if now.Sub(s.since) > endedFor || len(s.ended[0]) >= mostEnded {
		s.ended[1], s.ended[0], s.since = s.ended[0], make(map[endedJob]struct{}), now
	}
	s.ended[0][endedOf(queue, id)] = struct{}{}
}

// has reports whether a job has ended here lately.
func (s *searches) has(queue, id string, now time.Time) bool {
	job := endedOf(queue, id)
	s.mu.Lock()
	defer s.mu.Unlock()
	_, lately := s.ended[0][job]
	_, before := s.ended[1][job]
	return now.Sub(s.since) <= 2*endedFor && (lately || before)
}

// forget forgets that a job has ended, since one of its id is published.
func (s *searches) forget(queue, id string) {
	job := endedOf(queue, id)
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.ended[0], job)
	delete(s.ended[1], job)
}

// Find looks for a job: among those that consumers have or that are delayed, then in its queue, then among the newest of its
// dead letters. It returns ErrNoJob if there is none, and ErrNotFoundInTime if that is unknown.
func (g *Gateway) Find(ctx context.Context, queue, id string) (f Found, err error) {
	err = g.do(ctx, func(c redis.Conn) (err error) {
		f, err = g.find(c, queue, id)
		return err
	})
	if err != nil {
		return Found{}, err
	}
	return f, nil
}

func (g *Gateway) find(c redis.Conn, queue, id string) (Found, error) {
	place := leases.Place(queue, id)
	raw, lease, err := g.store.Leased(c, place)
	if err != nil || raw != nil {
		return g.found(Reserved, queue, id, lease, raw, 0), err
	}
	if g.search.has(queue, id, g.n.Clock.Now()) {
		return Found{}, ErrNoJob
	}
	if due, ok := httpjob.FirstDue(id); ok && due > g.Now() {
		if raw, err = g.store.FindDelayed(c, queue, id, due); err != nil || raw != nil {
			return g.found(Delayed, queue, id, "", raw, due), err
		}
	}
	if !g.search.begin(queue, g.n.Clock.Now()) {
		return Found{}, ErrResting
	}
	most, shared := time.Duration(0), false
	var began time.Time
	defer func() {
		now := g.n.Clock.Now()
		rest := g.search.end(queue, now, min(now.Sub(began), most))
		if shared && c.Err() == nil {
			_ = g.store.EndSearch(c, queue, rest) // else other servers wait for as long as a search may take
		}
	}()
	shared, err = g.store.BeginSearch(c, queue, searchTakes)
	if began = g.n.Clock.Now(); err != nil {
		return Found{}, err
	}
	if !shared {
		return Found{}, ErrResting
	}
	g.count.searches.Add(1)
	f, err := g.findReady(c, queue, id, &most)
	if errors.Is(err, ErrNoJob) {
		var pages int
		f, pages, err = g.findDelayed(c, queue, id)
		most += time.Duration(pages) * delayedTakes
	}
	if errors.Is(err, ErrNoJob) || errors.Is(err, ErrNotFoundInTime) {
		return g.findDead(c, queue, id, &most, err)
	}
	return f, err
}

// findReady looks for a job in its queue, and adds to most how long that takes Redis at most.
func (g *Gateway) findReady(c redis.Conn, queue, id string, most *time.Duration) (Found, error) {
	looked := 0
	for from := (*resque.ListPlace)(nil); ; {
		raw, n, next, err := g.store.FindReady(c, queue, id, from)
		looked += n
		*most += pageTakes + time.Duration(n)*jobTakes
		if err != nil || raw != nil {
			return g.found(Ready, queue, id, "", raw, 0), err
		}
		if from = next; from == nil {
			return Found{}, ErrNoJob
		}
		if looked >= mostLooked {
			return Found{}, ErrNotFoundInTime
		}
	}
}

// findDead looks for a job among the newest dead letters of its queue, as findReady. otherwise is the error if it is not
// there. A dead letter that was retried may be a job that was not found in time.
func (g *Gateway) findDead(c redis.Conn, queue, id string, most *time.Duration, otherwise error) (Found, error) {
	record, failed, looked, err := g.store.FindDead(c, queue, id)
	*most += pageTakes + time.Duration(looked)*jobTakes
	switch {
	case err != nil:
		return Found{}, err
	case record == nil, failed.RetriedAt != "" && errors.Is(otherwise, ErrNotFoundInTime):
		return Found{}, otherwise
	}
	f := g.found(Filed, queue, id, "", failed.Payload, 0)
	f.Record = record
	return f, nil
}

// findDelayed looks for a delayed job whose id does not tell when it is due: it was retried, or its producer chose the
// id or the time.
func (g *Gateway) findDelayed(c redis.Conn, queue, id string) (f Found, pages int, err error) {
	for from := ""; pages < mostDelayedPages; {
		jobs, next, err := g.store.Delayed(c, queue, from, mostLooked)
		if pages++; err != nil {
			return Found{}, pages, err
		}
		for _, j := range jobs {
			if f := g.found(Delayed, queue, id, "", j.Payload, j.Due); f.Parsed.ID == id {
				return f, pages, nil
			}
		}
		if from = next; from == "" {
			return Found{}, pages, ErrNoJob
		}
	}
	return Found{}, pages, ErrNotFoundInTime
}

// found returns a job that was found.
func (g *Gateway) found(state State, queue, id, lease string, raw []byte, due int64) Found {
	if raw == nil {
		return Found{}
	}
	f := Found{Job: jobOf(leases.Job{Queue: queue, ID: id, Lease: lease, Payload: raw}, g.Now()), State: state, DueMs: due}
	if id == "" {
		f.ID = f.Parsed.ID
	}
	return f
}

// Cancel ends a job that is not wanted any more where it is found. Of one that a consumer has it returns ErrReserved,
// unless it is forced. A forced cancel of a job that was not found ends the job when it is taken. What is Acked if the job
// has ended, and Unknown if there is none.
func (g *Gateway) Cancel(ctx context.Context, queue, id string, force bool) (w What, err error) {
	err = g.do(ctx, func(c redis.Conn) (err error) {
		w, err = g.cancelOn(ctx, c, queue, id, force)
		return err
	})
	if err != nil {
		return "", err
	}
	return w, nil
}

func (g *Gateway) cancelOn(ctx context.Context, c redis.Conn, queue, id string, force bool) (What, error) {
	for range mostAttempts {
		f, err := g.find(c, queue, id)
		if err == nil && f.State == Filed { // it has ended
			err = ErrNoJob
		}
		switch {
		case err == nil && f.State == Reserved && !force:
			return "", ErrReserved
		case err == nil && f.State == Reserved:
			w, err := g.close(ctx, c, Ack{Queue: queue, ID: id, Lease: f.Lease}, leased.End{Kind: leased.Cancelled, Err: failure.ErrUnwanted})
			if err != nil || w == Acked {
				return w, err
			}
			continue
		case errors.Is(err, ErrNoJob) && !force:
			return Unknown, nil
		case (errors.Is(err, ErrNoJob) || errors.Is(err, ErrNotFoundInTime)) && force:
			_, err := g.n.Store.CancelPlace(c, queue, id)
			return Unknown, err
		case err != nil:
			return "", err
		}
		job, there, err := g.store.Seize(c, queue, f.Payload, f.State == Delayed, seed(g.Now()))
		if err != nil {
			return "", err
		}
		if !there { // it was taken in this moment
			continue
		}
		end := endOf(job, leased.Cancelled)
		end.Err = failure.ErrUnwanted
		results, err := g.ender.End(ctx, c, []leased.End{end})
		switch {
		case err != nil:
			return "", err
		case results[0].Err != nil:
			return "", results[0].Err
		case results[0].Ended:
			g.search.note(queue, id, g.n.Clock.Now())
			return Acked, nil
		}
	}
	return "", ErrNotFoundInTime
}
