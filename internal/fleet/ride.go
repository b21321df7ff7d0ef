package fleet

import (
	"time"

	"github.com/goworker/goworker/internal/resque"
)

// mostRidden is how many heartbeats a renewal carries. More go by themselves: a renewal is one step of Redis.
const mostRidden = 1000

// wrongTime is by how much the time of heartbeats that a renewal carried may be wrong. It was written before Redis said its time.
const wrongTime = 5 * time.Second

// beats is a rider that has a renewal carry the heartbeats of this process's workers, when it is time. It is for the lease's goroutine.
type beats struct {
	lease *Lease
	on    bool      // the next renewal carries them, and the registrar sends no worker ids
	at    time.Time // their time, by Redis's clock as this process knows it

	sent  bool // Redis has taken them, and it knew the workers
	added bool // Redis did not know all of the workers: they are among its workers again, and have to be registered
}

// Load adds the heartbeats that are due.
func (b *beats) Load(c *resque.Cargo) {
	l := b.lease
	ids := l.Session().names.Load().registered
	if c.Last || l.beaten.IsZero() || !l.due(l.base.Clock.Now()) || len(ids) == 0 || len(ids) > mostRidden || !l.registrar.sending.TryLock() {
		return
	}
	b.on, b.sent, b.added, b.at = true, false, false, l.Now()
	l.base.Store.WriteHeartbeats(c, ids, b.at, func(unregistered int, err error) {
		b.sent, b.added = err == nil && unregistered == 0, unregistered > 0
	})
}

// Answered is part of a rider.
func (b *beats) Answered(bool, resque.Due) {}

// end is called after each renewal, with the time that Redis answered, and reports whether it has sent the heartbeats. What was not
// answered is not sent again: the ids may not be this process's then.
func (b *beats) end(c *resque.Cargo, now time.Time) (sent bool) {
	if !b.on {
		return false
	}
	for _, key := range b.lease.base.Store.HeartbeatKeys() {
		c.Drop(key)
	}
	if b.added {
		b.lease.beaten = time.Time{} // beat.lua would find all of them
	}
	b.on = false
	b.lease.registrar.sending.Unlock()
	return b.sent && now.Sub(b.at).Abs() < wrongTime
}
