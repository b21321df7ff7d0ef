package goworker

import (
	"context"
	"time"

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
func newJobLock(p resque.Payload) *jobLock {
	hold, name, most := resque.ParseLock(p.Unique)
	if name == "" {
		return nil
	}
	if most == 0 {
		most = DefaultLockAtMost
	}
	return &jobLock{hold, name, most, p.ID}
}

// unlocked gives up the lock of a job with the commit of its end.
func (l *jobLock) unlocked(s resque.Store) []resque.Effect {
	if l == nil {
		return nil
	}
	return []resque.Effect{s.Unlocked(l.name, l.id)}
}

// moved tells the lock of a job that it goes on as another payload, at a time, as when it
// is to be retried: with the commit of that.
func (l *jobLock) moved(s resque.Store, now, at time.Time, queue string, payload []byte) []resque.Effect {
	if l == nil || l.hold != resque.HoldDone {
		return nil
	}
	return []resque.Effect{s.LockMoved(l.name, l.id, now, at, l.most, queue, payload)}
}

// unlock sees to the lock of a job that is about to run, or to fail where err keeps it
// from running: it is given up now, or with the commit of the job's end. Where Redis
// cannot be asked now the job runs all the same.
func (w *workers) unlock(d *Delivery, err error) {
	if d.lock == nil {
		return
	}
	if d.lock.hold == resque.HoldStart && err == nil && w.d.unlock(d.lock) == nil {
		return
	}
	d.after = append(d.after, d.lock.unlocked(w.d.store)...)
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
	conn, err := client.pool.get(ctx)
	if err != nil {
		return err
	}
	defer putBack(conn)
	return client.store.Unlock(conn.Conn, l.name, l.id)
}
