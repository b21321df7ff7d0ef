// Package lmstfy moves jobs from lmstfy to goworker, and delayed ones back.
package lmstfy

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"math"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/goworker/goworker/internal/httpjob"
	"github.com/goworker/goworker/internal/payload"
	"github.com/goworker/goworker/internal/resque"
	"github.com/goworker/goworker/internal/resque/lmstfywire"
)

// Do runs f on a connection to one Redis.
type Do func(ctx context.Context, f func(s resque.Store, c redis.Conn) error) error

// Import moves the jobs of lmstfy's Redis. Each job arrives once, also where an import is killed and run again, and where several
// run. Servers and consumers of lmstfy may go on meanwhile.
type Import struct {
	From, To Do

	// Queue returns the name of a queue in Resque and the class of its jobs. It reports false for a queue that is not to be moved.
	Queue func(q lmstfywire.Queue) (name, class string, ok bool)

	// Wait goes on until nothing is left, also the jobs that consumers of lmstfy hold now. Otherwise the import takes what it
	// finds and leaves those.
	Wait bool

	// Moved is called after each page. It may be nil.
	Moved func(Moved)
}

// Moved counts jobs.
type Moved struct {
	Ready, Delayed, Dead int

	Gone    int       // entries whose jobs were acknowledged or have expired
	Held    int       // jobs that consumers of lmstfy hold now
	Until   time.Time // when the first of these comes back
	Replies int       // queues of answers to synchronous calls, which are not moved
}

// Jobs returns how many were moved.
func (m Moved) Jobs() int { return m.Ready + m.Delayed + m.Dead }

// The bounds of waiting for the jobs that consumers hold.
const (
	leastWait = 100 * time.Millisecond
	mostWait  = 5 * time.Second
)

// Run moves jobs until none is left that it may move. With an error it says what was moved before; run it again to go on.
func (i *Import) Run(ctx context.Context) (m Moved, err error) {
	for {
		before := m.Jobs() + m.Gone
		m.Held, m.Replies, m.Until = 0, 0, time.Time{}
		if err := i.pass(ctx, &m); err != nil {
			return m, err
		}
		if !i.Wait {
			return m, nil
		}
		if m.Jobs()+m.Gone > before {
			continue
		}
		if m.Held == 0 {
			return m, nil
		}
		select {
		case <-ctx.Done():
			return m, context.Cause(ctx)
		case <-time.After(min(max(time.Until(m.Until), leastWait), mostWait)):
		}
	}
}

// pass goes once through all queues and the timer.
func (i *Import) pass(ctx context.Context, m *Moved) error {
	if err := i.finish(ctx, m); err != nil { // the page of an import that was killed
		return err
	}
	var queues []lmstfywire.Queue
	err := i.From(ctx, func(_ resque.Store, c redis.Conn) (err error) {
		queues, err = lmstfywire.Queues(c)
		return err
	})
	if err != nil {
		return err
	}
	for _, q := range queues {
		if _, _, ok := i.Queue(q); !ok {
			continue
		}
		if isReply(q) {
			m.Replies++
			continue
		}
		for _, state := range []lmstfywire.State{lmstfywire.Dead, lmstfywire.Ready} {
			if err := i.list(ctx, m, q, state); err != nil {
				return err
			}
		}
	}
	return i.timer(ctx, m)
}

// isReply reports whether a queue is named like a job: the answer to a synchronous call.
func isReply(q lmstfywire.Queue) bool {
	_, _, ok := httpjob.ParseID(q.Name)
	return ok
}

// list moves as many jobs of a list as it has now.
func (i *Import) list(ctx context.Context, m *Moved, q lmstfywire.Queue, state lmstfywire.State) error {
	for left := math.MaxInt; left > 0; {
		var got lmstfywire.Got
		var all int
		err := i.claim(ctx, func(c redis.Conn, after lmstfywire.Claimed) (err error) {
			var entries []lmstfywire.Entry
			if entries, all, err = lmstfywire.Head(c, q, state, lmstfywire.PageJobs); err == nil && len(entries) > 0 {
				got, err = lmstfywire.ClaimListed(c, after, q, state, entries)
			}
			return err
		})
		if err != nil {
			return err
		}
		left = min(left, all)
		m.Gone += got.Gone
		left -= max(got.Sum(), 1) // none: lmstfy or another import was quicker
		if err := i.finish(ctx, m); err != nil {
			return err
		}
	}
	return nil
}

// timer moves the jobs of the timer that are delayed, and those that no consumer holds any more.
func (i *Import) timer(ctx context.Context, m *Moved) error {
	for skip := 0; ; {
		var got lmstfywire.Got
		read, stay := 0, 0
		err := i.claim(ctx, func(c redis.Conn, after lmstfywire.Claimed) error {
			entries, now, err := lmstfywire.Timed(c, skip, lmstfywire.PageJobs)
			if err != nil {
				return err
			}
			read, stay = len(entries), 0
			take := entries[:0]
			for _, e := range entries {
				_, _, wanted := i.Queue(e.Queue)
				if held := held(e, now); wanted && !isReply(e.Queue) && !held {
					take = append(take, e)
					continue
				} else if wanted && held {
					m.hold(e)
				}
				stay++
			}
			got, err = lmstfywire.ClaimTimed(c, after, take, func(e lmstfywire.Entry) lmstfywire.State { return stateOf(e) })
			return err
		})
		if err != nil {
			return err
		}
		if read == 0 {
			return nil
		}
		m.Gone += got.Gone
		skip += stay // what is taken leaves the timer, and the rest moves up
		if err := i.finish(ctx, m); err != nil {
			return err
		}
		if got.Sum() == 0 && stay == 0 { // another import took them, or lmstfy did
			skip += read
		}
	}
}

func (m *Moved) hold(e lmstfywire.Entry) {
	m.Held++
	if until := time.Unix(e.Due, 0); m.Until.IsZero() || until.Before(m.Until) {
		m.Until = until
	}
}

// isDelayed reports whether an entry of the timer waits for its first delivery. The id says when that is due; lmstfy's server notes
// the job up to a second later. A job that a consumer has stands there with the end of its TTR, which is later.
func isDelayed(e lmstfywire.Entry) bool {
	ms, delay, ok := httpjob.ParseID(e.ID)
	return ok && delay > 0 && e.Due <= ms/1000+int64(delay)+1
}

// held reports whether a consumer of lmstfy has the job.
func held(e lmstfywire.Entry, now int64) bool { return !isDelayed(e) && e.Due > now }

// stateOf says what a job of the timer is that no consumer holds. One without tries is what lmstfy would file next.
func stateOf(e lmstfywire.Entry) lmstfywire.State {
	switch {
	case isDelayed(e):
		return lmstfywire.Delayed
	case e.Tries == 0:
		return lmstfywire.Dead
	}
	return lmstfywire.Ready
}

// claim calls f with the last page, which must have been dropped.
func (i *Import) claim(ctx context.Context, f func(c redis.Conn, after lmstfywire.Claimed) error) error {
	return i.From(ctx, func(_ resque.Store, c redis.Conn) error {
		page, err := lmstfywire.Page(c)
		if err != nil {
			return err
		}
		if page.Source == "" {
			page.Source = rand.Text()
		}
		return f(c, page)
	})
}

// finish puts the page that was claimed into its queues, and drops it.
func (i *Import) finish(ctx context.Context, m *Moved) error {
	var page lmstfywire.Claimed
	err := i.From(ctx, func(_ resque.Store, c redis.Conn) (err error) {
		page, err = lmstfywire.Page(c)
		return err
	})
	if err != nil || len(page.Jobs) == 0 {
		return err
	}
	jobs := make([]lmstfywire.Adopted, len(page.Jobs))
	for n, j := range page.Jobs {
		jobs[n] = i.adopted(j)
	}
	var here bool
	err = i.To(ctx, func(s resque.Store, c redis.Conn) (err error) {
		here, err = lmstfywire.Store{Store: s}.Adopt(c, page, jobs)
		return err
	})
	if err != nil {
		return fmt.Errorf("page %d of the import, with %s, could not be written; it is kept in lmstfy's Redis, run the import again: %w",
			page.Number, resque.Plural(len(jobs), "job"), err)
	}
	if here {
		for _, j := range page.Jobs {
			switch j.State {
			case lmstfywire.Dead:
				m.Dead++
			case lmstfywire.Delayed:
				m.Delayed++
			default:
				m.Ready++
			}
		}
		if i.Moved != nil {
			i.Moved(*m)
		}
	}
	return i.From(ctx, func(_ resque.Store, c redis.Conn) error { return lmstfywire.Drop(c, page) })
}

// adopted is a job as its new queue has it.
func (i *Import) adopted(j lmstfywire.Job) lmstfywire.Adopted {
	queue, class, ok := i.Queue(j.Queue)
	if !ok { // another import has claimed it, with other namespaces
		queue, class = j.Queue.Namespace+"."+j.Queue.Name, ""
	}
	body, meta := decode(j)
	args := append(httpjob.AppendBytes([]byte{'['}, body), ']')
	job := httpjob.Job{Class: class, Args: args, Meta: meta, Tries: j.Tries, Expires: j.Expires, ID: j.ID}
	to := lmstfywire.Adopted{Queue: queue, Payload: job.Append(nil)}
	switch j.State {
	case lmstfywire.Delayed:
		to.At = time.Unix(j.Due, 0)
		if ms, ok := httpjob.FirstDue(j.ID); ok { // a server finds a delayed job by this time
			to.At = time.UnixMilli(ms)
		}
	case lmstfywire.Dead:
		to.Record = payload.Failure{
			FailedAt: payload.FailedAt(time.Now()), Payload: to.Payload, Exception: "Goworker::TriesExhausted",
			Error: "lmstfy had delivered the job as often as its tries allowed: it was a dead letter of " + j.Queue.String(), Worker: "lmstfy:0:" + queue, Queue: queue,
		}.Encode()
	}
	return to
}

// decode returns the body of a job and its attributes. Where the id begins with a version, lmstfy keeps both as JSON.
func decode(j lmstfywire.Job) (body []byte, meta map[string]string) {
	var v struct {
		Body       *[]byte           `json:"body"`
		Attributes map[string]string `json:"attributes"`
	}
	if len(j.ID) > 0 && j.ID[0] == httpjob.Version && len(j.ID) == 27 && json.Unmarshal(j.Body, &v) == nil && v.Body != nil {
		return *v.Body, v.Attributes
	}
	return j.Body, nil
}
