package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/goworker/goworker"
)

// results attacks jobs with results: what is kept of each must be what became of it.
func results(opts options) result {
	return contain(opts, "results", durable, func(a *arena) {
		a.keeps = true
		var fleet []*process
		for range 4 {
			fleet = append(fleet, a.start("-concurrency=8", "-queues=work,lanes"))
		}
		a.produce(load{rate: 300, longest: 20, orders: true})
		for i := range 9 {
			time.Sleep(a.between(300*time.Millisecond, 900*time.Millisecond))
			switch i % 3 {
			case 0: // the first one finds the dead
				k := 1 + a.intn(len(fleet)-1)
				fleet[k].kill()
				a.inject()
				fleet[k] = a.launch("-concurrency=8", "-queues=work,lanes")
			case 1:
				a.outage(a.hangUp)
			default:
				a.crashRedis(a.between(0, time.Second))
			}
		}
	})
}

// wait is a program that waits for a job.
type wait struct {
	id    string
	done  chan struct{}
	state goworker.JobState // valid after done
	err   error
}

// Of jobs with results, one in so many is cancelled, and one in so many is waited for.
const (
	cancelOne = 8
	waitOne   = 8
)

// kept cancels a job that was enqueued with a result, or waits for it, or does neither.
func (a *arena) kept(o order) {
	if o.fails == 0 && o.class != "Drop" && a.intn(cancelOne) == 0 {
		a.cancel(o.id)
		return
	}
	if a.intn(waitOne) == 0 {
		a.wait(o.id)
	}
}

// wait has a goroutine wait for a job.
func (a *arena) wait(id string) {
	w := &wait{id: id, done: make(chan struct{})}
	a.mu.Lock()
	a.waits = append(a.waits, w)
	a.mu.Unlock()
	go func() {
		defer close(w.done)
		ctx, cancel := context.WithTimeout(context.Background(), 3*soon)
		defer cancel()
		for {
			s, err := a.client.Client().Wait(ctx, id)
			w.state, w.err = s.State, err
			if err == nil || errors.Is(err, goworker.ErrNoResult) || ctx.Err() != nil {
				return
			}
			time.Sleep(50 * time.Millisecond) // Redis was away when the wait began
		}
	}()
}

// cancel cancels a job, and notes when that was acknowledged. It asks again while Redis is away.
func (a *arena) cancel(id string) {
	a.mu.Lock()
	a.cancels[id] = time.Time{}
	a.mu.Unlock()
	for deadline := time.Now().Add(soon); time.Now().Before(deadline); time.Sleep(50 * time.Millisecond) {
		switch err := a.client.Client().Cancel(context.Background(), id); {
		case err == nil:
			a.mu.Lock()
			a.cancels[id] = time.Now()
			a.mu.Unlock()
			return
		case errors.Is(err, goworker.ErrJobEnded), errors.Is(err, goworker.ErrUnknownJob):
			return
		}
	}
	a.problem("for %v nobody could say whether job %s is cancelled", soon, id)
}

// mayCancel reports whether the job may be a cancelled one.
func (a *arena) mayCancel(id string) bool {
	_, asked := a.cancels[id]
	return asked
}

// readDocuments reads what is kept of jobs. Of a job that is over no other state may be left.
func (a *arena) readDocuments() {
	a.documents = make(map[string]string)
	for _, key := range a.list("KEYS", "resque:go:result:*") {
		id := strings.TrimPrefix(key, "resque:go:result:")
		state, err := redis.String(a.ask("HGET", key, "state"))
		if err == redis.ErrNil && a.number("EXISTS", key) == 0 {
			continue // its time was over in between; a document that should be there is missed by checkDocument
		}
		if err != nil {
			a.problem("%s: %v", key, err)
		}
		a.documents[id] = state
		switch state {
		case "done", "failed", "discarded", "expired", "cancelled":
		default:
			a.problem("when all is over, job %s is kept as %s", id, state)
		}
	}
}

// checkDocument compares what is kept of a job with what became of it.
func (a *arena) checkDocument(o order, want string) {
	if !o.keeps || want == "" || len(a.losses) > 0 {
		return
	}
	if is := a.documents[o.id]; is != want {
		a.problem("job %s is kept as %q, and it was %s", o.id, is, want)
	}
}

// settles is how long a process may take to hear that a job is cancelled, while Redis serves it.
const settles = 3 * time.Second

// checkResults looks for jobs that began after they were cancelled, and for waits that did not end, or otherwise
// than their jobs.
func (c causes) checkResults(l ledgers) {
	a := c.a
	for id, at := range a.cancels {
		if at.IsZero() || l.jobs[id] == nil {
			continue
		}
		for _, n := range l.jobs[id].runs {
			began := time.Unix(0, n.start)
			if late := began.Sub(at) - shared(a.outages, at, began) - shared(a.silences[n.process], at, began); late > settles {
				a.problem("job %s began in %s %v after it was cancelled", id, n.process, late)
			}
		}
	}
	for _, w := range a.waits {
		select {
		case <-w.done:
		case <-time.After(soon):
			a.problem("a wait for job %s, which is %s, has not ended", w.id, a.documents[w.id])
			continue
		}
		if is := a.documents[w.id]; w.err != nil || string(w.state) != is {
			a.problem("a wait for job %s ended with %q, %v, and it is kept as %q", w.id, w.state, w.err, is)
		}
	}
	if a.keeps {
		a.note("%s", fmt.Sprintf("%d jobs with results, %d cancels, %d waits", len(a.documents), len(a.cancels), len(a.waits)))
	}
}
