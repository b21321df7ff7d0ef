package resque

import (
	"errors"
	"slices"

	"github.com/gomodule/redigo/redis"

	"github.com/goworker/goworker/internal/queues"
)

// Together is calls of one job each, of callers who do not know each other, that go to Redis as one call. The zero value is
// ready. It is for one goroutine.
type Together struct {
	bulk Bulk
	of   []*Bulk
	errs []error
}

// Reset makes t as good as new, with Types as that of a Bulk, and keeps its memory.
func (t *Together) Reset(types *Types) {
	t.bulk.Reset()
	t.bulk.Types = types
	clear(t.of)
	clear(t.errs)
	t.of, t.errs = t.of[:0], t.errs[:0]
}

// Single reports whether there is one job, as Together wants.
func (b *Bulk) Single() bool { return len(b.jobs) == 1 }

// Add adds a call, which it reads until Push has returned. It reports false for one that does not go with those before: pushed
// together both would take another way.
func (t *Together) Add(b *Bulk) bool {
	if len(t.of) > 0 && !t.bulk.goesWith(b) {
		return false
	}
	t.of = append(t.of, b)
	t.bulk.join(b)
	return true
}

// Len returns how many calls there are.
func (t *Together) Len() int { return len(t.of) }

// goesWith reports whether the job of another call can be pushed by the script that pushes those of b.
func (b *Bulk) goesWith(other *Bulk) bool {
	return b.rows == other.rows && isOwn(&b.queues[0]) == isOwn(&other.queues[0])
}

func isOwn(q *bulkQueue) bool { return queues.IsOwn(q.name) }

// join adds the only job of another call.
func (b *Bulk) join(other *Bulk) {
	b.buf = append(b.buf[:b.end], other.buf[:other.end]...)
	if other.hashes != nil {
		for i := range other.hashes.groups {
			g := &other.hashes.groups[i]
			for keys := range slices.Chunk(g.Keys, g.each) {
				b.Begin(NewHash{keys, g.TTL, g.Fields})
			}
		}
	}
	u := other.units[0]
	u.queue, u.at = b.queue(other.queues[0].name), other.jobs[0].at
	if len(u.lifts) > 0 {
		b.Lift(other.cancelled, u.lifts[0].id)
	}
	b.take(u)
}

// Push pushes the jobs. Each call is then as if PushBulk had pushed it alone, and errs has what that would have returned; it is valid until Reset. A call
// that is neither Done nor InDoubt, but has an error, was not pushed, perhaps because of another one: it may be made again. soft are
// the soft effects that Redis refused.
func (s Store) PushTogether(c redis.Conn, t *Together) (errs []error, soft []KeyError) {
	b := &t.bulk
	err := s.pushBulk(c, b)
	errs = slices.Grow(t.errs, len(t.of))[:len(t.of)]
	t.errs = errs
	for i, one := range t.of {
		u := &b.units[b.jobs[i].unit]
		to := &one.units[0]
		to.by = u.by
		switch {
		case !u.over:
			one.doubt = b.doubt
			errs[i] = one.wrap(err)
			continue
		case u.err == nil:
			one.pushed = 1
			errs[i] = one.ownOf(err)
		}
		to.over, to.err = true, u.err
	}
	return errs, b.soft
}

// ownOf returns what an error of all calls, whose jobs were pushed, says of this one.
func (b *Bulk) ownOf(err error) error {
	if err == nil {
		return nil
	}
	var few *ReplicasError
	if errors.As(err, &few) {
		one := *few
		one.To, one.Jobs = b.to(), len(b.jobs)
		return &one
	}
	var unnamed *unnamedError
	if errors.As(err, &unnamed) {
		one := *unnamed
		one.jobs = len(b.jobs)
		return b.wrap(&one)
	}
	return nil
}
