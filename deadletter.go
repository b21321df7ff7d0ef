package goworker

import (
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/goworker/goworker/internal/resque"
	"github.com/goworker/goworker/internal/resque/failures"
)

const (
	// trimEvery is how often the failure lists are held against FailedMaxSize and
	// FailedMaxAge.
	trimEvery = time.Minute
	// trimPieces is how many pieces of at most a thousand failures the leader removes
	// before it looks after the dead again, two seconds later.
	trimPieces = 50
)

// trimming is one pass over the failure lists, which may take several ticks.
type trimming struct {
	begun   time.Time
	lists   []string // those to do, the first of them under way
	start   int64    // where in it to look for old failures
	tooMany int      // removed from it since they were too many …
	tooOld  int      // … or too old
}

// trim removes the oldest failures where there are more, or older ones, than the
// settings allow. Each piece is a command of its own, so that Redis serves others in
// between.
func (r *reaper) trim(c redis.Conn) error {
	store, config, t := r.d.store, r.d.config, &r.trimming
	if config.FailedMaxSize == 0 && config.FailedMaxAge == 0 {
		return nil
	}
	if len(t.lists) == 0 {
		if time.Since(t.begun) < trimEvery {
			return nil
		}
		lists := []string{resque.FailedList}
		if config.multiQueueFailures {
			var err error
			if lists, err = failures.New(store).Lists(c); err != nil {
				return err
			}
		}
		*t = trimming{begun: time.Now(), lists: lists}
	}
	now, err := store.Now(c)
	if err != nil {
		return err
	}
	for range trimPieces {
		if len(t.lists) == 0 {
			return nil
		}
		done, err := r.trimPiece(c, now)
		if err != nil {
			t.next(r) // the other lists are not to wait for it
			return err
		}
		if done {
			t.next(r)
		}
	}
	return nil
}

// trimPiece removes a piece of what is too much in the list under way, and reports
// whether that was all.
func (r *reaper) trimPiece(c redis.Conn, now time.Time) (done bool, err error) {
	config, t := r.d.config, &r.trimming
	list := t.lists[0]
	if config.FailedMaxSize > 0 && t.start == 0 && t.tooOld == 0 {
		n, err := failures.New(r.d.store).Trim(c, list, int64(config.FailedMaxSize))
		t.tooMany += n
		if n > 0 || err != nil {
			return false, err
		}
	}
	if config.FailedMaxAge == 0 {
		return true, nil
	}
	n, next, err := failures.New(r.d.store).Expire(c, list, now.Add(-config.FailedMaxAge), t.start)
	t.tooOld += n
	t.start = next
	return next < 0, err
}

// next goes on with the list after the one under way.
func (t *trimming) next(r *reaper) {
	if t.tooMany+t.tooOld > 0 {
		r.d.log.Info("the oldest failures were removed",
			"list", t.lists[0], "removed", t.tooMany+t.tooOld, "too_many", t.tooMany, "too_old", t.tooOld)
	}
	*t = trimming{begun: t.begun, lists: t.lists[1:]}
}
