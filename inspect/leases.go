package inspect

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/goworker/goworker/internal/payload"
	"github.com/goworker/goworker/internal/prefix"
	"github.com/goworker/goworker/internal/resque"
	"github.com/goworker/goworker/internal/resque/leases"
)

// ErrNoLease is returned by ReleaseLease for a job that no client holds, or that has another lease by now.
var ErrNoLease = prefix.New("no client holds the job under this lease")

// HeldJob is a job that a client holds over HTTP. Redis knows until when, and neither since when nor how long the lease was at first.
type HeldJob struct {
	Entry
	LeaseID string        // names the lease for ReleaseLease; each extension gives it another name
	Left    time.Duration // until the lease ends; not positive: it has ended, and the job waits for a process that puts it back
	Try     int           // which try this is, from 1
	Tries   int           // how many it has; where Try has reached it, a lease that ends files the job as failed
}

// LeasePage is a page of the jobs that clients hold.
type LeasePage struct {
	Jobs  []HeldJob // the lease that ends first first
	Next  string    // where the next page goes on; "" at the end
	Total int64     // leases that there are, of the shard that the page is of
}

// MaxLeases is how many jobs a page of Leases has at most.
const MaxLeases = 1000

// Leases returns a page of the jobs that clients hold over HTTP, the lease that ends first first, at most count. after is "" at first
// and then the Next of the page before. It reads about 1 MiB of payloads at most. A job whose lease is extended meanwhile may be on two
// pages. Over shards it goes from one to the next.
func (i *Inspector) Leases(ctx context.Context, after string, count int) (LeasePage, error) {
	if count < 1 || count > MaxLeases {
		return LeasePage{}, fmt.Errorf("goworker: ask for 1 to %d leases, not for %d", MaxLeases, count)
	}
	if !i.several() {
		return i.leases(ctx, after, count)
	}
	at, after, err := i.shardOf(after)
	if err != nil {
		return LeasePage{}, err
	}
	page, err := i.shards[at].leases(ctx, after, count)
	switch {
	case page.Next != "":
		page.Next = i.onShard(at, page.Next)
	case at+1 < len(i.shards):
		page.Next = i.onShard(at+1, "")
	}
	return page, i.shards[at].about(err)
}

func (i *Inspector) leases(ctx context.Context, after string, count int) (page LeasePage, err error) {
	read, err := query(ctx, i, func(s resque.Store, c redis.Conn) (leases.EndPage, error) {
		return leases.New(s).ByEnd(c, after, count)
	})
	if errors.Is(err, leases.ErrPage) {
		err = fmt.Errorf("goworker: %q is not where a list of leases goes on: %w", after, ErrCursor)
	}
	page.Next, page.Total = read.Next, read.Total
	for _, j := range read.Jobs {
		h := HeldJob{Entry: i.entry(Leased, j.Queue, j.Payload), LeaseID: j.Lease, Try: 1, Tries: 1}
		h.Entry.ID, h.Shard = j.ID, i.shard()
		if ms, ok := leases.LeaseEnds(j.Lease); ok {
			h.Lease = time.UnixMilli(ms)
			h.Left = h.Lease.Sub(read.Now)
		}
		if p, err := payload.Parse(j.Payload); err == nil {
			h.Try, h.Tries = p.Attempt, p.Tries()
		}
		page.Jobs = append(page.Jobs, h)
	}
	return page, err
}

// ReleaseLease ends the lease of a job that a client holds over HTTP, by the queue and id of the job and the LeaseID of the lease, or
// "" for whichever it has. The job goes on as if the lease had run out by itself: it goes back to its queue for its next try, or if that
// was its last one it is filed as failed. A server of HTTP or a goworker process does that within five seconds; where none runs the
// job waits for one. A client that acknowledges the job later finds no lease, or ends it if its acknowledgement comes first.
//
// The error is ErrNoLease if the job has no such lease.
func (i *Inspector) ReleaseLease(ctx context.Context, queue, id, lease string) error {
	if queue == "" || id == "" {
		return errNoLeaseNamed
	}
	there := false
	err := i.each(func(one *Inspector) error {
		released, err := query(ctx, one, func(s resque.Store, c redis.Conn) (bool, error) { return leases.New(s).Release(c, queue, id, lease) })
		there = there || released
		return one.record(ctx, "ReleaseLease", fmt.Sprintf("job %s of queue %s", id, queue), once(released), err)
	})
	if err == nil && !there {
		err = prefix.Errorf("%w: job %s of queue %s", ErrNoLease, id, queue)
	}
	return err
}

var errNoLeaseNamed = errors.New("goworker: name the queue and the id of the job whose lease is to be released")
