package inspect

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/goworker/goworker/internal/clock"
	"github.com/goworker/goworker/internal/payload"
	"github.com/goworker/goworker/internal/prefix"
	"github.com/goworker/goworker/internal/resque"
)

var (
	// ErrNoLock is returned for a lock that no job holds any more.
	ErrNoLock = prefix.New("no job holds this lock")
	// ErrLockHeld is returned by ReleaseLock for a lock whose job is still there, or that holds for a time. The error says
	// where the job is.
	ErrLockHeld = prefix.New("the lock is in use")
)

// Lock is a lock of a unique job, and the job that holds it.
type Lock struct {
	Name string // 32 hexadecimal digits, which name what is unique: a class with its arguments, or a key

	ID      string // the job's
	Queue   string
	Class   string
	Payload json.RawMessage // as the lock names it; nil where its value has no form that goworker knows

	Hold  string        // until when the job holds it: done, start or time
	Since time.Time     // by Redis's clock
	Seen  time.Time     // when a producer or an operator last looked for the job and found it; at first Since
	Left  time.Duration // until the lock falls by itself; 0 where Redis did not say

	// Refused is how many jobs were refused because this job holds the lock. It begins at 0 again where none was refused for as long as a
	// lock lasts. Producers of older releases, and those whose Redis user may not write it, count none.
	Refused int64

	Shard string // of several Redises, the one where it is

	held  resque.HeldLock
	shard int
}

// Locks returns the locks of unique jobs, in no order. Locks of workflows are not among them. It walks through all keys of
// Redis, a thousand at a time; its context may end it. Over shards it goes shard by shard.
func (i *Inspector) Locks(ctx context.Context) iter.Seq2[Lock, error] {
	return func(yield func(Lock, error) bool) {
		if err := i.usable(); err != nil {
			yield(Lock{}, err)
			return
		}
		for _, one := range i.all() {
			if err := one.eachLock(ctx, func(l Lock) bool { return yield(i.onIts(one, l), nil) }); err != nil {
				if err != errEnough {
					if i.several() {
						err = one.about(err)
					}
					if yield(Lock{}, err) {
						continue // a shard that is away hides no other
					}
				}
				return
			}
		}
	}
}

// errEnough ends a walk whose reader has seen enough.
var errEnough = fmt.Errorf("enough")

// onIts names the shard of a lock.
func (i *Inspector) onIts(one *Inspector, l Lock) Lock {
	if l.shard = one.number; i.several() {
		l.Shard = one.name()
	}
	return l
}

// eachLock calls f for the locks of one Redis, each once, until f returns false.
func (i *Inspector) eachLock(ctx context.Context, f func(Lock) bool) error {
	seen := make(map[string]bool)
	for cursor := "0"; ; {
		var locks []resque.HeldLock
		err := i.do(ctx, func(s resque.Store, c redis.Conn) (err error) {
			locks, cursor, err = s.ScanLocks(c, cursor)
			return err
		})
		if err != nil {
			return err
		}
		for _, l := range locks {
			if seen[l.Name] {
				continue
			}
			seen[l.Name] = true
			if !f(lockOf(l)) {
				return errEnough
			}
		}
		if cursor == "0" {
			return nil
		}
	}
}

func lockOf(held resque.HeldLock) Lock {
	l := Lock{
		Name: held.Name, ID: held.ID, Queue: held.Queue, Payload: held.Payload, Hold: string(held.Hold),
		Since: held.Since, Seen: held.Seen, Left: held.Left, Refused: held.Refused, held: held,
	}
	if p, err := payload.Parse(held.Payload); err == nil {
		l.Class = p.Class
	}
	return l
}

// Lock returns the lock of a name. Over shards it is the first that has it. The error is ErrNoLock if no job holds it.
func (i *Inspector) Lock(ctx context.Context, name string) (Lock, error) {
	if err := i.usable(); err != nil {
		return Lock{}, err
	}
	var found *Lock
	err := i.each(func(one *Inspector) error {
		if found != nil {
			return nil
		}
		var held resque.HeldLock
		there, err := query(ctx, one, func(s resque.Store, c redis.Conn) (there bool, err error) {
			held, there, err = s.ReadLock(c, name)
			return there, err
		})
		if there {
			l := i.onIts(one, lockOf(held))
			found = &l
		}
		return err
	})
	switch {
	case found != nil:
		return *found, nil
	case err != nil:
		return Lock{}, err
	}
	return Lock{}, prefix.Errorf("lock %s: %w", name, ErrNoLock)
}

// LockHolder looks for the job that holds a lock, everywhere a job can be, at one instant of Redis. It returns where the job is, or false
// if it is nowhere: a Ruby worker runs it, or it was removed. It changes nothing.
//
// A look costs Redis as much as the queue is long. After a long one of a process or of ReleaseLock none
// looks for twenty times as long, and LockHolder waits for that. Its own look makes no other one wait, because it writes nothing.
func (i *Inspector) LockHolder(ctx context.Context, l Lock) (Place, bool, error) {
	if err := i.usable(); err != nil {
		return "", false, err
	}
	where, err := i.at(l.shard).seekHolder(ctx, l, false)
	switch where {
	case "", resque.HolderNowhere:
		return "", false, err
	case resque.HolderChanged:
		return "", false, prefix.Errorf("lock %s: %w", l.Name, ErrNoLock)
	}
	return placeOfHolder(where), true, nil
}

// restFor is how long ReleaseLock and LockHolder wait before they look again.
const restFor = 50 * time.Millisecond

// seekHolder looks for a holder until it was looked for.
func (i *Inspector) seekHolder(ctx context.Context, l Lock, release bool) (where string, err error) {
	for {
		where, err := query(ctx, i, func(s resque.Store, c redis.Conn) (string, error) { return s.SeekHolder(c, l.held, release) })
		if err != nil || where != resque.HolderResting && where != resque.HolderMoving {
			return where, err
		}
		select {
		case <-ctx.Done():
			return "", prefix.Errorf("lock %s: waiting to look for its job: %w", l.Name, context.Cause(ctx))
		case <-clock.System.NewTimer(restFor).C():
		}
	}
}

func placeOfHolder(where string) Place {
	switch where {
	case resque.HolderDelayed:
		return Delayed
	case resque.HolderQueued:
		return Queued
	case resque.HolderInLane:
		return InLane
	}
	return Running
}

// ReleaseLock takes a lock from a job that is nowhere any more: the look for the job and the release are one step, and
// the next equal job is enqueued. The error is ErrLockHeld if the job is somewhere, or if the lock holds for a time, whatever becomes of
// the job. It is ErrNoLock if the lock has changed hands.
//
// With force it looks for nothing. Then a second equal job may run beside the first.
//
// A job that a Ruby worker runs is nowhere too.
func (i *Inspector) ReleaseLock(ctx context.Context, l Lock, force bool) error {
	if err := i.usable(); err != nil {
		return err
	}
	one := i.at(l.shard)
	err := one.release(ctx, l, force)
	return one.record(ctx, "ReleaseLock", "lock "+l.Name+" of job "+l.ID, once(err == nil), err)
}

func (i *Inspector) release(ctx context.Context, l Lock, force bool) error {
	if force {
		released, err := query(ctx, i, func(s resque.Store, c redis.Conn) (bool, error) { return s.ReleaseLock(c, l.Name, l.ID) })
		if err == nil && !released {
			err = prefix.Errorf("lock %s: %w", l.Name, ErrNoLock)
		}
		return err
	}
	if l.held.Hold == resque.HoldTime {
		return prefix.Errorf("lock %s: %w: it holds for a time, whatever becomes of its job; force releases it", l.Name, ErrLockHeld)
	}
	where, err := i.seekHolder(ctx, l, true)
	switch {
	case err != nil, where == resque.HolderNowhere:
		return err
	case where == resque.HolderChanged:
		return prefix.Errorf("lock %s: %w", l.Name, ErrNoLock)
	}
	return prefix.Errorf("lock %s: %w: job %s is %s; force releases it all the same", l.Name, ErrLockHeld, l.ID, placeOfHolder(where))
}
