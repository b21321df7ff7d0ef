package httpapi

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/goworker/goworker/internal/gateway"
	"github.com/goworker/goworker/internal/resque/leases"
)

// migrating serves the clients of a pool whose jobs go to another one: they are published there, and taken first here
// and then there. What a client has is asked for here first, and there if it is not known here.
type migrating struct{ old, new jobs }

// here marks the jobs that were taken from the old pool.
const here = "old"

func (m *migrating) Publish(ctx context.Context, jobs ...gateway.Publication) ([]string, error) {
	return m.new.Publish(ctx, jobs...)
}

func (m *migrating) PublishOnce(ctx context.Context, once leases.Once, jobs ...gateway.Publication) ([]string, bool, error) {
	return m.new.PublishOnce(ctx, once, jobs...)
}

func (m *migrating) Made(ctx context.Context, once leases.Once) ([]string, error) {
	return m.new.Made(ctx, once)
}

// Reserve asks the old pool first. If neither has a job the consumer waits for both, since a job whose lease runs out, or that
// was nacked, comes back to the old one.
func (m *migrating) Reserve(ctx context.Context, a gateway.Ask) ([]gateway.Job, error) {
	first := a
	first.Wait = 0
	got, err := m.old.Reserve(ctx, first)
	if err != nil {
		return nil, err
	}
	mark(got)
	if len(got) >= max(a.Count, 1) {
		return got, nil
	}
	if a.Wait > 0 && len(got) == 0 {
		return m.wait(ctx, a)
	}
	a.Count, a.Wait = max(a.Count, 1)-len(got), 0
	more, err := m.new.Reserve(ctx, a)
	if err != nil && len(got) > 0 {
		err = nil // those of the old pool are the client's
	}
	return append(got, more...), err
}

// mark marks jobs of the old pool.
func mark(all []gateway.Job) {
	for i := range all {
		all[i].Pool = here
	}
}

// wait waits for jobs of either pool. What the other one gives in the same moment is the client's too, as far as it asked for so
// many.
func (m *migrating) wait(ctx context.Context, a gateway.Ask) ([]gateway.Job, error) {
	waiting, cancel := context.WithCancel(ctx)
	defer cancel()
	var old []gateway.Job
	var failed error
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		defer cancel()
		old, failed = m.old.Reserve(waiting, a)
		mark(old)
	}()
	got, err := m.new.Reserve(waiting, a)
	if len(got) > 0 || err != nil {
		cancel()
	}
	<-ended
	if got = append(old, got...); len(got) > 0 {
		most := min(max(a.Count, 1), len(got))
		m.Release(got[most:]...)
		return got[:most], nil
	}
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	for _, err := range []error{failed, err} {
		if err != nil && !errors.Is(err, context.Canceled) {
			return nil, err
		}
	}
	return nil, nil
}

func (m *migrating) Release(all ...gateway.Job) {
	var old, fresh []gateway.Job
	for _, j := range all {
		if j.Pool == here {
			old = append(old, j)
		} else {
			fresh = append(fresh, j)
		}
	}
	if len(old) > 0 {
		m.old.Release(old...)
	}
	if len(fresh) > 0 {
		m.new.Release(fresh...)
	}
}

func (m *migrating) Ack(ctx context.Context, acks ...gateway.Ack) ([]gateway.What, error) {
	said, err := m.old.Ack(ctx, acks...)
	if err != nil {
		return said, err
	}
	var rest []gateway.Ack
	for i, w := range said {
		if w == gateway.Unknown {
			rest = append(rest, acks[i])
		}
	}
	if len(rest) == 0 {
		return said, nil
	}
	more, err := m.new.Ack(ctx, rest...)
	for i := range said {
		if said[i] == gateway.Unknown && len(more) > 0 {
			said[i], more = more[0], more[1:]
		}
	}
	return said, err
}

// unknown reports whether a pool has not found a job, so that the other one may have it.
func unknown(err error) bool {
	return errors.Is(err, gateway.ErrNoJob) || errors.Is(err, gateway.ErrNotFoundInTime)
}

// either does something in the old pool, and in the new one if the old one does not know the job. If neither does, one that could
// not look through its queue has the last word.
func (m *migrating) either(f func(jobs) (gateway.What, error)) (gateway.What, error) {
	w, err := f(m.old)
	if err != nil && !unknown(err) || err == nil && w != gateway.Unknown {
		return w, err
	}
	fresh, freshErr := f(m.new)
	if errors.Is(err, gateway.ErrNotFoundInTime) && (errors.Is(freshErr, gateway.ErrNoJob) || freshErr == nil && fresh == gateway.Unknown) {
		return "", err
	}
	return fresh, freshErr
}

func (m *migrating) AckResult(ctx context.Context, ack gateway.Ack, result json.RawMessage) (gateway.What, error) {
	return m.either(func(j jobs) (gateway.What, error) { return j.AckResult(ctx, ack, result) })
}

func (m *migrating) Nack(ctx context.Context, ack gateway.Ack, delay time.Duration, why string) (gateway.What, error) {
	return m.either(func(j jobs) (gateway.What, error) { return j.Nack(ctx, ack, delay, why) })
}

func (m *migrating) Fail(ctx context.Context, ack gateway.Ack, why string) (gateway.What, error) {
	return m.either(func(j jobs) (gateway.What, error) { return j.Fail(ctx, ack, why) })
}

func (m *migrating) GiveBack(ctx context.Context, ack gateway.Ack) (gateway.What, error) {
	return m.either(func(j jobs) (gateway.What, error) { return j.GiveBack(ctx, ack) })
}

func (m *migrating) Cancel(ctx context.Context, queue, id string, force bool) (gateway.What, error) {
	return m.either(func(j jobs) (gateway.What, error) { return j.Cancel(ctx, queue, id, force) })
}

func (m *migrating) Touch(ctx context.Context, ack gateway.Ack, ttr time.Duration) (lease string, w gateway.What, err error) {
	w, err = m.either(func(j jobs) (w gateway.What, err error) {
		lease, w, err = j.Touch(ctx, ack, ttr)
		return w, err
	})
	return lease, w, err
}

// Republish is two steps if the job is in the old pool: the new one is published, then the old one is ended.
func (m *migrating) Republish(ctx context.Context, once leases.Once, queue, id string, p gateway.Publication) (string, bool, error) {
	found, err := m.old.Find(ctx, queue, id)
	if err != nil && !unknown(err) {
		return "", false, err
	}
	if found.State == "" {
		return m.new.Republish(ctx, once, queue, id, p)
	}
	ids, replayed, err := m.new.PublishOnce(ctx, once, p)
	if err != nil {
		return "", false, err
	}
	if found.State == gateway.Reserved {
		_, err = m.old.Ack(ctx, gateway.Ack{Queue: queue, ID: id})
	} else {
		_, err = m.old.Cancel(ctx, queue, id, true)
	}
	return ids[0], replayed, err
}

func (m *migrating) Find(ctx context.Context, queue, id string) (gateway.Found, error) {
	found, err := m.old.Find(ctx, queue, id)
	if err != nil && !unknown(err) || err == nil && found.State != "" {
		return found, err
	}
	fresh, freshErr := m.new.Find(ctx, queue, id)
	if errors.Is(err, gateway.ErrNotFoundInTime) && errors.Is(freshErr, gateway.ErrNoJob) {
		return found, err
	}
	return fresh, freshErr
}

func (m *migrating) Peek(ctx context.Context, queue string) (gateway.Job, bool, error) {
	if j, there, err := m.old.Peek(ctx, queue); err != nil || there {
		return j, there, err
	}
	return m.new.Peek(ctx, queue)
}

func (m *migrating) Sizes(ctx context.Context, queues ...string) ([]gateway.Sizes, error) {
	old, err := m.old.Sizes(ctx, queues...)
	if err != nil {
		return nil, err
	}
	sum, err := m.new.Sizes(ctx, queues...)
	if err != nil {
		return nil, err
	}
	for i := range sum {
		s, o := &sum[i], old[i]
		s.Ready += o.Ready
		s.Reserved += o.Reserved
		s.Dead += o.Dead
		s.Paused, s.Limited = s.Paused || o.Paused, s.Limited || o.Limited
		s.OldestReadyMs = earlier(s.OldestReadyMs, o.OldestReadyMs)
	}
	return sum, nil
}

// earlier returns the earlier of two times; 0 is none.
func earlier(a, b int64) int64 {
	if a == 0 || b == 0 {
		return max(a, b)
	}
	return min(a, b)
}

// of is one of the two.
func (m *migrating) of(isNew bool) jobs {
	if isNew {
		return m.new
	}
	return m.old
}

// inTurn reads a page of the old pool, and behind the last one of the new one. The place of a page of the new pool has a mark.
func inTurn(after string, read func(isNew bool, after string) (next string, err error)) (next string, err error) {
	const mark = "new:"
	if rest, found := strings.CutPrefix(after, mark); found {
		if next, err = read(true, rest); next != "" {
			next = mark + next
		}
		return next, err
	}
	if next, err = read(false, after); err == nil && next == "" {
		next = mark
	}
	return next, err
}

// both does something in both pools. The old one comes first, so that nothing that moves from there is missed.
func (m *migrating) both(f func(jobs) error) error { return cmp.Or(f(m.old), f(m.new)) }

func (m *migrating) Destroy(ctx context.Context, queue string) error {
	return m.both(func(j jobs) error { return j.Destroy(ctx, queue) })
}

func (m *migrating) Pause(ctx context.Context, queue string) error {
	return m.both(func(j jobs) error { return j.Pause(ctx, queue) })
}

func (m *migrating) Resume(ctx context.Context, queue string) error {
	return m.both(func(j jobs) error { return j.Resume(ctx, queue) })
}

func (m *migrating) Queues(ctx context.Context) (all []string, err error) {
	err = m.both(func(j jobs) error {
		names, err := j.Queues(ctx)
		all = append(all, names...)
		return err
	})
	slices.Sort(all)
	return slices.Compact(all), err
}

// Jobs returns pages of the old pool and then of the new one.
func (m *migrating) Jobs(ctx context.Context, queue string, state gateway.State, limit int, after string) (gateway.Page, error) {
	page, err := gateway.Page{}, error(nil)
	next, err := inTurn(after, func(isNew bool, after string) (string, error) {
		page, err = m.of(isNew).Jobs(ctx, queue, state, limit, after)
		return page.Next, err
	})
	page.Next = next
	return page, err
}

func (m *migrating) DeadPeek(ctx context.Context, queue string) (gateway.FailureRecord, int, error) {
	old, n, err := m.old.DeadPeek(ctx, queue)
	if err != nil {
		return old, n, err
	}
	fresh, more, err := m.new.DeadPeek(ctx, queue)
	if n == 0 {
		old = fresh
	}
	return old, n + more, err
}

// some does something to so many dead letters, of the old pool first.
func (m *migrating) some(limit int, f func(jobs, int) (int, error)) (int, error) {
	n, err := f(m.old, limit)
	if err != nil || n >= limit {
		return n, err
	}
	more, err := f(m.new, limit-n)
	return n + more, err
}

func (m *migrating) Respawn(ctx context.Context, queue string, limit int, ttl time.Duration) (int, error) {
	return m.some(limit, func(j jobs, most int) (int, error) { return j.Respawn(ctx, queue, most, ttl) })
}

func (m *migrating) DeleteDead(ctx context.Context, queue string, limit int) (int, error) {
	return m.some(limit, func(j jobs, most int) (int, error) { return j.DeleteDead(ctx, queue, most) })
}

func (m *migrating) Now() int64 { return m.new.Now() }
