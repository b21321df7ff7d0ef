//go:build unix

package isolate

import (
	"bytes"
	"slices"
	"sync"
	"time"
)

// idleFor is how long a child waits for another job.
const idleFor = 10 * time.Second

// Keeper has the children of one run of a daemon that wait for another job. A nil Keeper keeps none. It is safe for
// concurrent use.
type Keeper struct {
	mu     sync.Mutex
	closed bool
	idle   map[string][]*childRun // by class; the one that waits the shortest is the last
	ending sync.WaitGroup         // those that are asked to end
}

// NewKeeper returns a Keeper.
func NewKeeper() *Keeper { return &Keeper{idle: make(map[string][]*childRun)} }

// keeps reports whether a child may wait for another job.
func (k *Keeper) keeps() bool {
	if k == nil {
		return false
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	return !k.closed
}

// take returns a child that waits for a job of a class, knows the daemon's configuration and is as old as the lease that the job
// is under at most; nil: there is none.
func (k *Keeper) take(class string, r Request) *childRun {
	if k == nil {
		return nil
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	for waiting := k.idle[class]; len(waiting) > 0; waiting = k.idle[class] {
		last := len(waiting) - 1
		c := waiting[last]
		waiting[last] = nil
		k.idle[class] = waiting[:last]
		c.expires.Stop()
		if bytes.Equal(c.config, r.Config) && c.process == r.Process && c.waits() {
			return c
		}
		k.retire(c)
	}
	return nil
}

// keep has a child wait for another job. If it may not, the child ends.
func (k *Keeper) keep(c *childRun) {
	k.mu.Lock()
	if k.closed {
		k.mu.Unlock()
		c.retire()
		return
	}
	defer k.mu.Unlock()
	k.idle[c.class] = append(k.idle[c.class], c)
	if c.expires == nil {
		c.expires = time.AfterFunc(idleFor, func() { k.expire(c) })
	} else {
		c.expires.Reset(idleFor)
	}
}

// expire ends a child that still waits.
func (k *Keeper) expire(c *childRun) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if i := slices.Index(k.idle[c.class], c); i >= 0 {
		k.idle[c.class] = slices.Delete(k.idle[c.class], i, i+1)
		k.retire(c)
	}
}

// retire ends a child that is no longer in the list. The caller holds the lock.
func (k *Keeper) retire(c *childRun) { k.ending.Go(c.retire) }

// Close ends the children that wait for a job, and waits for their end. Those that have a job end with it.
func (k *Keeper) Close() {
	if k == nil {
		return
	}
	k.mu.Lock()
	k.closed = true
	for _, waiting := range k.idle {
		for _, c := range waiting {
			c.expires.Stop()
			k.retire(c)
		}
	}
	clear(k.idle)
	k.mu.Unlock()
	k.ending.Wait()
}
