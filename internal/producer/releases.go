package producer

import (
	"context"
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

// Releases says which processes of the fleet are of a release that does not know workflows. Such a process runs a step as a
// plain job, and its workflow stands still. It is safe for concurrent use.
type Releases struct {
	mu   sync.Mutex
	read time.Time // zero: never
	old  []oldProcess
}

type oldProcess struct {
	id, version string
	works       queues.Spec
}

// Check returns an error if a live process of an older release works one of the queues. Where the client may not read the records
// of processes it returns nil.
func (r *Releases) Check(ctx context.Context, c *Client, names map[string]bool) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := clock.System.Now()
	if r.read.IsZero() || now.Sub(r.read) > releasesFor {
		old, err := c.oldProcesses(ctx)
		if err != nil {
			return err
		}
		r.read, r.old = now, old
	}
	for _, p := range r.old {
		for queue := range names {
			if p.works.Works(queue) {
				r.read = time.Time{} // it may be stopped at once
				return fmt.Errorf("process %s of goworker %s works queue %s and does not know workflows: it would run the steps and not "+
					"count them; update it, give the workflow queues of its own, or start it with AllowOld", p.id, p.version, queue)
			}
		}
	}
	return nil
}

func (c *Client) oldProcesses(ctx context.Context) (old []oldProcess, err error) {
	err = c.Pool.Do(ctx, func(on redis.Conn) error {
		live, _, err := c.Store.LiveProcesses(on)
		if err != nil {
			return err
		}
		for _, p := range live {
			if p.Dead || p.KnowsOf(resque.KnowsWorkflows) {
				continue
			}
			spec, err := queues.Parse([]string{p.Queues})
			if err != nil { // no release of goworker has written it
				continue
			}
			old = append(old, oldProcess{p.ID, p.Version, spec})
		}
		return nil
	})
	if conn.Classify(err) == conn.KindNoPerm {
		return nil, nil
	}
	return old, err
}
