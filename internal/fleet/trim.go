package fleet

import (
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/goworker/goworker/internal/clock"
	"github.com/goworker/goworker/internal/part"
	"github.com/goworker/goworker/internal/resque"
	"github.com/goworker/goworker/internal/resque/failures"
)

const (
	// trimEvery is how often the leader trims the failure lists.
	trimEvery = time.Minute

	// trimPieces is how many pieces of at most a thousand failures the leader removes before it
	// looks for dead processes again, two seconds later.
	trimPieces = 50
)

// trimmer removes the oldest failures of lists that are too long or hold too old ones. It is for
// the reaper's goroutine.
type trimmer struct {
	base       part.Base
	failures   failures.Store
	most       int           // of a list; 0: no limit
	age        time.Duration // of a failure; 0: no limit
	multiQueue bool
	pass       pass
}

// pass is one pass over the failure lists, which may take several turns of the reaper.
type pass struct {
	begun   time.Time
	lists   []string // those to do, the first of them under way
	start   int64    // where in it to look for old failures
	tooMany int      // how many were removed because the list was too long …
	tooOld  int      // … and because they were too old
}

// trim goes on with the pass under way, or begins one when it is time. Each piece is a command of
// its own, so that Redis serves other clients in between.
func (t *trimmer) trim(c redis.Conn) error {
	if t.most == 0 && t.age == 0 {
		return nil
	}
	if len(t.pass.lists) == 0 {
		if clock.Since(t.base.Clock, t.pass.begun) < trimEvery {
			return nil
		}
		lists := []string{resque.FailedList}
		if t.multiQueue {
			var err error
			if lists, err = t.failures.Lists(c); err != nil {
				return err
			}
		}
		t.pass = pass{begun: t.base.Clock.Now(), lists: lists}
	}
	now, err := t.base.Store.Now(c)
	if err != nil {
		return err
	}
	for range trimPieces {
		if len(t.pass.lists) == 0 {
			return nil
		}
		done, err := t.piece(c, now)
		if err != nil {
			t.next() // the other lists must not wait for this one
			return err
		}
		if done {
			t.next()
		}
	}
	return nil
}

// piece removes a piece of what is too much in the list under way. It reports whether the list is
// done.
func (t *trimmer) piece(c redis.Conn, now time.Time) (done bool, err error) {
	p := &t.pass
	list := p.lists[0]
	if t.most > 0 && p.start == 0 && p.tooOld == 0 {
		n, err := t.failures.Trim(c, list, int64(t.most))
		p.tooMany += n
		if n > 0 || err != nil {
			return false, err
		}
	}
	if t.age == 0 {
		return true, nil
	}
	n, next, err := t.failures.Expire(c, list, now.Add(-t.age), p.start)
	p.tooOld += n
	p.start = next
	return next < 0, err
}

// next ends the list under way and goes on with the one after it.
func (t *trimmer) next() {
	p := t.pass
	if p.tooMany+p.tooOld > 0 {
		t.base.Log.Info("the oldest failures were removed",
			"list", p.lists[0], "removed", p.tooMany+p.tooOld, "too_many", p.tooMany, "too_old", p.tooOld)
	}
	t.pass = pass{begun: p.begun, lists: p.lists[1:]}
}
