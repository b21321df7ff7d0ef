package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/goworker/goworker"
	"github.com/goworker/goworker/inspect"
)

// producers is how many goroutines enqueue.
const producers = 4

// backlog is how many jobs wait at most, for each worker. The producers could fill
// the queues as fast as Redis can. But then the table would show how long they
// did so, not how soon a busy worker gets to a job.
const backlog = 10

// malformedEvery is how often a queue gets text that is no job.
const malformedEvery = 1000

// job returns the n-th job. Its last argument is the time it was enqueued, which
// is for tally.measure; handlers do not see it.
func job(n int) *goworker.Job {
	queue, class, args := webQueue, "Ping", []any{n}
	switch {
	case n%250 == 11:
		class, args = "ImportRow", []any{"cat;grey"}
		if n%500 == 11 {
			args = []any{"cat;grey;7"}
		}
	case n%200 == 3:
		class, args = "Audit", []any{"login", n}
	case n%100 == 2:
		class, args = "ChargeCard", []any{"South Bank", 100 * n}
	case n%20 == 2:
		class, args = "ChargeCard", []any{"North Bank", 100 * n}
	case n%25 == 1:
		queue, class, args = imageQueue, "Thumbnail", []any{Picture{fmt.Sprintf("cat%d.png", n), 320, 240}}
	case n%5 == 4:
		queue, class, args = mailQueue, "SendMail", []any{fmt.Sprintf("ann%d@example.com", n), Mail{"Welcome", "Hello <Ann>", []string{"bob@example.com"}}}
	}
	return goworker.NewJob(queue, class, append(args, time.Now().UnixMicro())...)
}

// malformed returns how many of the first n are no jobs.
func malformed(n int) int { return n / malformedEvery }

// clean removes the jobs and failures that an interrupted earlier run may have left in the
// queues.
func (d *demo) clean(ctx context.Context) error {
	in := d.Client().Inspect()
	for _, queue := range []string{mailQueue, webQueue, imageQueue} {
		if err := in.RemoveQueue(ctx, queue); err != nil && !errors.Is(err, inspect.ErrUnknownQueue) {
			return err
		}
	}
	failures, err := d.ownFailures(ctx)
	if err != nil {
		return err
	}
	for _, f := range failures {
		if err := in.Failures().Remove(ctx, f); err != nil {
			return err
		}
	}
	return nil
}

// ownFailures lists the failures of the demo's queues.
func (d *demo) ownFailures(ctx context.Context) ([]goworker.Failure, error) {
	failures, err := d.Client().Inspect().Failures().List(ctx, 0, -1)
	return slices.DeleteFunc(failures, func(f goworker.Failure) bool {
		return f.Queue != mailQueue && f.Queue != webQueue && f.Queue != imageQueue
	}), err
}

// work enqueues the jobs and, when the worker has ended them all, returns
// the failures. failuresBefore were in the list already.
func (d *demo) work(ctx context.Context, failuresBefore int64) ([]goworker.Failure, error) {
	bad := malformed(d.jobs)
	if err := d.watch(ctx, d.jobs-bad, failuresBefore+int64(bad), d.enqueue); err != nil {
		return nil, err
	}
	return d.ownFailures(ctx)
}

// enqueue enqueues all jobs.
func (d *demo) enqueue(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var next atomic.Int64
	var all sync.WaitGroup
	for range producers {
		all.Go(func() {
			for ctx.Err() == nil {
				n := int(next.Add(1)) - 1
				if n >= d.jobs {
					return
				}
				if err := d.enqueueOne(ctx, n); err != nil {
					cancel(err)
				}
				d.holdBack(ctx, n)
			}
		})
	}
	all.Wait()
	return context.Cause(ctx)
}

// holdBack waits while too many of the first n jobs are still waiting.
func (d *demo) holdBack(ctx context.Context, n int) {
	for ctx.Err() == nil {
		if processed, _ := d.tally.counts(); n-malformed(n)-processed < backlog*d.workers {
			return
		}
		time.Sleep(time.Millisecond)
	}
}

func (d *demo) enqueueOne(ctx context.Context, n int) error {
	if malformed(n+1) > malformed(n) {
		return d.pushRubbish()
	}
	_, err := d.Client().Enqueue(ctx, job(n))
	return err
}

// pushRubbish puts half a payload into a queue, as only a broken producer would.
func (d *demo) pushRubbish() error {
	conn, err := d.GetConn()
	if err != nil {
		return err
	}
	defer d.PutConn(conn)
	_, err = conn.Do("RPUSH", d.Namespace()+"queue:"+webQueue, `{"class":"Ping","args":[`)
	return err
}
