package goworker

import (
	"context"
	"time"

	"github.com/goworker/goworker/internal/conn"
	"github.com/goworker/goworker/internal/payload"
	"github.com/goworker/goworker/internal/resque"
)

// jobLock is what a job's payload says of its lock.
type jobLock struct {
	hold resque.Hold
	name string
	most time.Duration
	id   string // the payload's, whatever an ActiveJob calls itself
}

// newJobLock is nil where the field is not one of ours.
func newJobLock(p payload.Payload) *jobLock {
	hold, name, most := resque.ParseLock(p.Unique)
	if name == "" {
		return nil
	}
	if most == 0 {
		most = DefaultLockAtMost
	}
	return &jobLock{hold, name, most, p.ID}
}

// moved returns the effects that keep a job's lock when the job is enqueued again under a new
// payload, e.g. for a retry.
func (l *jobLock) moved(s resque.Store, now, at time.Time, queue string, payload []byte) []resque.Effect {
	if l == nil || l.hold != resque.HoldDone {
		return nil
	}
	return []resque.Effect{s.LockMoved(l.name, l.id, now, at, l.most, queue, payload)}
}

// unlock gives up the lock of a job that is to be unique only until it starts. Where Redis
// cannot be asked now the job runs all the same, and gives up its lock with its end.
func (w *workers) unlock(d *Delivery, err error) {
	if d.lock != nil && d.lock.hold == resque.HoldStart && err == nil && w.d.unlock(d.lock) == nil {
		d.lock = nil
	}
}

// unlockWithin is how long a job waits at most for a connection to give up its lock by.
const unlockWithin = time.Second

// unlock gives up the lock of a job now.
func (d *Daemon) unlock(l *jobLock) error {
	client, err := d.init(false)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), unlockWithin)
	defer cancel()
	lent, err := client.pool.Get(ctx)
	if err != nil {
		return err
	}
	defer conn.PutBack(lent)
	return client.store.Unlock(lent, l.name, l.id)
}
