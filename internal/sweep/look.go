package sweep

import (
	"errors"
	"fmt"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/goworker/goworker/internal/resque/workflows"
)

// looks looks at workflows that are due. Those that need nothing are put off in one call.
func (s *Sweep) looks(c redis.Conn, now time.Time, due []workflows.Entry) error {
	began := s.base.Clock.Now()
	all, err := s.store.ReadStandings(c, due)
	if err != nil {
		return err
	}
	var urgent time.Duration
	var off []workflows.PutOff
	for i := range all {
		w := &all[i]
		start := s.base.Clock.Now()
		rest, err := s.look(c, now, w)
		switch {
		case err == nil:
			s.said.Over(w.ID)
		case c.Err() != nil:
			return err
		case errors.Is(err, workflows.ErrNoWorkflow):
			continue
		default:
			if s.said.News(w.ID, err.Error()) {
				s.base.Log.Warn("a workflow cannot go on until this is repaired", "workflow", w.ID, "error", err)
			}
			rest = &workflows.PutOff{Standing: *w, Next: now.Add(s.config.Every)}
		}
		if rest != nil {
			off = append(off, *rest)
		} else {
			urgent += s.base.Clock.Now().Sub(start)
		}
	}
	err = s.store.PutOff(c, off)
	s.paused(began.Add(urgent))
	return err
}

// look looks at one workflow. If that needs no call of its own, it returns when to look again.
func (s *Sweep) look(c redis.Conn, now time.Time, w *workflows.Standing) (*workflows.PutOff, error) {
	switch {
	case w.Err != nil:
		return nil, w.Err
	case w.State == "":
		s.base.Log.Warn("the hash of a workflow is gone: another program removed it, or Redis lost it", "workflow", w.ID)
		return nil, s.store.RemoveLost(c, w.ID)
	case w.Goes() && !w.Until.IsZero() && !w.Until.After(now):
		return nil, s.expire(c, w)
	case w.Again && w.State == workflows.StateRetrying: // its caller may have died
		_, err := s.store.Retry(c, w.ID, false)
		return nil, err
	case w.Over() && !w.Removal(now).After(now):
		return nil, s.store.RemoveOld(c, *w)
	}
	l := workflows.Look{Next: now.Add(s.config.Every), More: w.More && w.State != workflows.StateDone}
	if w.Bits != w.Was {
		l.Moved, w.Since = fmt.Sprintf("%d %d", now.UnixMilli(), w.Bits), now
	}
	if w.Stalled != "" && l.Moved != "" && w.Was >= 0 {
		if _, err := s.store.Stall(c, w.ID, nil, "", w.Bits); err != nil {
			return nil, err
		}
	}
	if w.Goes() && !w.Until.IsZero() {
		l.Next = earlier(l.Next, w.Until)
	}
	if w.Over() {
		l.Next = w.Removal(now)
	}
	if err := s.outside(c, now, w, &l); err != nil {
		return nil, err
	}
	if err := s.pending(c, now, w, &l); err != nil {
		return nil, err
	}
	// Joins that were held when the workflow was halted are settled too: their handlers are called. It may have been
	// halted in the same state before, so the field over does not say whether that was done.
	joins := w.Held != "" && (w.Halted || w.Sends() && !w.Paused)
	if w.Sends() || w.Goes() || w.Pending {
		again, damaged, err := s.still(c, now, w)
		if err != nil {
			return nil, err
		}
		l.Next, joins = earlier(l.Next, again), joins || damaged
	}
	if joins {
		if err := s.joins(c, w, &l); err != nil {
			return nil, err
		}
	}
	if l.More || joins || l.Quiet != "" || !w.Written() {
		return nil, s.store.Look(c, w.Entry, l)
	}
	return &workflows.PutOff{Standing: *w, Next: l.Next, Moved: l.Moved}, nil
}

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

// expire ends a workflow at its deadline.
func (s *Sweep) expire(c redis.Conn, w *workflows.Standing) error {
	failure := workflows.StepFailure{ID: w.ID, State: "expired", Exception: "Expired", Error: "the deadline of the workflow has passed"}
	return s.store.Expire(c, w.ID, failure.JSON())
}

// joins settles the joins whose members have all ended. It reads all joins: only a workflow that was paused, retried or
// halted has any that wait, and one that is damaged.
func (s *Sweep) joins(c redis.Conn, w *workflows.Standing, l *workflows.Look) error {
	for cursor := "0"; ; {
		joins, next, err := s.store.Joins(c, w.ID, cursor)
		if err != nil {
			return err
		}
		if cursor = next; cursor == "0" {
			l.Joins, l.Held = joins, w.Held
			return nil
		}
		if len(joins) > 0 {
			if err := s.store.Look(c, w.Entry, workflows.Look{Joins: joins}); err != nil {
				return err
			}
		}
	}
}

// outside ends the steps of a workflow for which no reply came in time.
func (s *Sweep) outside(c redis.Conn, now time.Time, w *workflows.Standing, l *workflows.Look) error {
	if w.Outside == 0 || w.State == workflows.StateDone {
		return nil
	}
	letters, err := s.store.ReadLetters(c, w.ID)
	if err != nil {
		return err
	}
	waits, err := s.store.Outside(c, w.ID, letters)
	if err != nil {
		return err
	}
	var late []workflows.Waiting
	for _, step := range waits {
		switch {
		case step.Until.IsZero():
		case step.Until.After(now):
			l.Next = earlier(l.Next, step.Until)
		default:
			late = append(late, step)
		}
	}
	if len(late) == 0 {
		return nil
	}
	_, err = s.store.EndOutside(c, w.ID, late)
	return err
}

// pending looks whether sent steps of a halted workflow are left.
func (s *Sweep) pending(c redis.Conn, now time.Time, w *workflows.Standing, l *workflows.Look) error {
	if !w.Halted || !w.Pending {
		return nil
	}
	letters, err := s.store.ReadLetters(c, w.ID)
	if err != nil {
		return err
	}
	for _, letter := range letters {
		if letter == workflows.Sent || letter == workflows.Outside {
			l.Next = earlier(l.Next, now.Add(s.config.Every))
			return nil
		}
	}
	l.Quiet = w.Round
	return nil
}

// still has the sent steps of a workflow looked for whose letters do not move, and returns when to look at it again.
// damaged says that no step of it is sent, and nothing says why.
func (s *Sweep) still(c redis.Conn, now time.Time, w *workflows.Standing) (next time.Time, damaged bool, err error) {
	after := s.config.StallAfter - s.config.Again // the second pass comes when the time is over
	if w.Stalled != "" {
		after = 6 * s.config.StallAfter
	}
	if since := now.Sub(w.Since); since < after {
		return w.Since.Add(after), false, nil
	}
	next = now.Add(3 * s.config.Again)
	letters, err := s.store.ReadLetters(c, w.ID)
	if err != nil {
		return next, false, err
	}
	if s.search.add(w, letters) {
		return next, false, nil
	}
	next = now.Add(s.config.StallAfter)
	switch {
	case w.Over():
		next = w.Removal(now)
	case w.Outside > 0 || w.Paused || w.State != workflows.StateRunning:
	case w.Open:
		if now.Sub(w.Since) >= s.config.Idle && s.said.News("open "+w.ID, "") {
			s.base.Log.Warn("a batch is open, and nothing was added to it for long: if its producer has died, let another one go on with the same id, or close it",
				"workflow", w.ID, "name", w.Name, "since", w.Since)
		}
	default:
		damaged = true
		if news, err := s.store.Stall(c, w.ID, nil, "none of its steps is sent", w.Bits); err != nil || !news {
			return next, damaged, err
		}
		s.base.Log.Warn("a workflow stands still although none of its steps is sent: another program removed keys or fields of it, or Redis lost them; Client.Workflows().Retry runs failed steps again, and Cancel ends it",
			"workflow", w.ID, "name", w.Name, "letters", w.Letters)
	}
	return next, damaged, nil
}
