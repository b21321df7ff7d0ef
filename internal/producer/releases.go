package producer

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/goworker/goworker/internal/clock"
	"github.com/goworker/goworker/internal/conn"
	"github.com/goworker/goworker/internal/queues"
	"github.com/goworker/goworker/internal/resque"
)

// releasesFor is how long Releases believes what it has read: a start of many workflows must not read the fleet each time, and an
// old process that comes is found soon.
const releasesFor = 5 * time.Second

// Releases says which processes of the fleet are of a release that does not know what a program is about to use: such a process
// runs a step as a plain job, and its workflow stands still; or it puts jobs of MessagePack queues where Ruby's workers read.
// It is safe for concurrent use.
type Releases struct {
	mu   sync.Mutex
	read time.Time // zero: never
	old  []oldProcess
}

type oldProcess struct {
	resque.Process
	works queues.Spec
}

// Check returns an error if a live process of a release that does not know workflows works one of the queues. Where the client
// may not read the records of processes it returns nil.
func (r *Releases) Check(ctx context.Context, c *Client, names map[string]bool) error {
	return r.each(reading(ctx, c), func(p oldProcess) error {
		for queue := range names {
			if !p.KnowsOf(resque.KnowsWorkflows) && p.works.Works(queue) {
				return fmt.Errorf("process %s of goworker %s works queue %s and does not know workflows: it would run the steps and not "+
					"count them; update it, give the workflow queues of its own, or start it with AllowOld", p.ID, p.Version, queue)
			}
		}
		return nil
	})
}

// CheckOwn returns an error if a live process does not know goworker's own queues, of which this is one. Where the client may
// not read the records of processes it returns nil. So it does while Redis does not serve: what the caller does next meets
// the same answer, and waits or fails as it would for any queue.
func (r *Releases) CheckOwn(ctx context.Context, c *Client, queue string) error {
	err := r.checkOwn(reading(ctx, c), queue)
	if kind := conn.Classify(err); kind == conn.KindConn || kind == conn.KindWait {
		return nil
	}
	return err
}

// checkOwn is CheckOwn with the errors of Redis.
func (r *Releases) checkOwn(read func() ([]oldProcess, error), queue string) error {
	return r.each(read, func(p oldProcess) error {
		if p.KnowsOf(resque.KnowsMessagePack) {
			return nil
		}
		return errors.New(resque.UnawareOfMessagePack(p.Process, queue))
	})
}

// each calls f with each old process until it returns an error, which it returns.
func (r *Releases) each(read func() ([]oldProcess, error), f func(oldProcess) error) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := clock.System.Now()
	if r.read.IsZero() || now.Sub(r.read) > releasesFor {
		old, err := read()
		if err != nil {
			return err
		}
		r.read, r.old = now, old
	}
	for _, p := range r.old {
		if err := f(p); err != nil {
			r.read = time.Time{} // it may be stopped at once
			return err
		}
	}
	return nil
}

// reading returns what reads the old processes on a connection of the client's pool.
func reading(ctx context.Context, c *Client) func() ([]oldProcess, error) {
	return func() (old []oldProcess, err error) {
		err = c.Pool.Do(ctx, func(on redis.Conn) (err error) {
			old, err = oldProcesses(on, c.Store)
			return err
		})
		return old, err
	}
}

func oldProcesses(on redis.Conn, s resque.Store) (old []oldProcess, err error) {
	live, _, err := s.LiveProcesses(on)
	if conn.Classify(err) == conn.KindNoPerm {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	for _, p := range live {
		if p.Dead || p.KnowsOf(resque.KnowsWorkflows) && p.KnowsOf(resque.KnowsMessagePack) {
			continue
		}
		spec, err := queues.Parse([]string{p.Queues})
		if err != nil { // no release of goworker has written it
			continue
		}
		old = append(old, oldProcess{p.Process, spec})
	}
	return old, nil
}
