package workflows

import (
	"fmt"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/goworker/goworker/internal/resque"
)

var removeScript = load("remove")

// How long a workflow is kept once it has ended, without another wish.
const (
	KeepDone  = time.Hour
	KeepOther = 7 * 24 * time.Hour
)

func (w *Standing) retention() time.Duration {
	switch {
	case w.Keep > 0:
		return w.Keep
	case w.State == StateDone:
		return KeepDone
	}
	return KeepOther
}

// RemoveOld removes a workflow whose time is over. If it has moved since it was read, it stays.
func (s Store) RemoveOld(c redis.Conn, w Standing) error {
	_, err := s.remove(c, w.ID, w.Lock, "over", w.over)
	return err
}

// RemoveLost removes what is left of a workflow whose hash is gone. Its document ends as failed, so that programs that
// wait for it return.
func (s Store) RemoveLost(c redis.Conn, id string) error {
	failure := StepFailure{ID: id, State: "lost", Exception: "Lost", Error: "the workflow's hash is gone: another program removed it, or Redis lost it"}
	_, err := s.remove(c, id, "", "lost", string(failure.JSON()))
	return err
}

// ForgetWorkflow removes a workflow that has ended, with its document, and returns its state; "": there is none. One that
// is running or retrying stays: cancel it before.
func (s Store) ForgetWorkflow(c redis.Conn, id string) (state string, err error) {
	got, err := redis.Strings(c.Do("HMGET", s.WorkflowKey(id).String(), "state", "lock"))
	if err == nil && len(got) != 2 {
		err = resque.ErrAnswer
	}
	if err != nil {
		return "", fmt.Errorf("reading workflow %s: %w", id, resque.Explain(err))
	}
	answer, err := s.remove(c, id, got[1], "forget", "")
	if answer == StateRunning || answer == StateRetrying {
		return answer, err
	}
	return got[0], err
}

func (s Store) remove(c redis.Conn, id, lock, mode, text string) (string, error) {
	var a resque.Call
	for _, key := range []resque.Key{s.LettersKey(id), s.WorkflowKey(id), s.IndexKey()} {
		a.Key(key.String())
	}
	a.Key(s.KeyOfResult(id))
	for _, key := range []resque.Key{s.HaltedKey(), s.StalledKey(), s.LockKey(lock)} {
		a.Key(key.String())
	}
	a.Arg(id, mode, text, KeepDone.Milliseconds())
	answer, err := redis.String(a.Do(c, removeScript))
	if err != nil {
		return "", fmt.Errorf("removing workflow %s: %w", id, resque.Explain(err))
	}
	return answer, nil
}
