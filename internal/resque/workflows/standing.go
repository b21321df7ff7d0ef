package workflows

import (
	"fmt"

	"github.com/gomodule/redigo/redis"

	"github.com/goworker/goworker/internal/resque"
)

// Again returns the template that sends a step once more, with these bytes.
func Again(letter byte, queue string, payload []byte) string {
	return string(letter) + " n - 0 0 0 0 " + resque.JobPrefix(queue) + string(payload)
}

// ReadHalted returns the workflows that were halted last: at most so many. more says that there are others.
func (s Store) ReadHalted(c redis.Conn, most int) (ids []string, more bool, err error) {
	key := s.HaltedKey().String()
	ids, err = redis.Strings(c.Do("ZRANGE", key, -most-1, -1))
	if err != nil {
		if resque.IsWrongType(err) {
			err = &resque.KeyTypeError{Key: key, Want: "sorted set", Err: err}
		}
		return nil, false, fmt.Errorf("reading which workflows are halted: %w", resque.Explain(err))
	}
	if more = len(ids) > most; more {
		ids = ids[1:]
	}
	return ids, more, nil
}

// AskedStep names a step.
type AskedStep struct {
	Workflow string
	Step     int
}

// StepStanding is how a step and its workflow stand.
type StepStanding struct {
	State   string // of the workflow; "": it is gone
	Rest    bool   // what does not need a failed step runs
	Cancels bool   // a failure ends running steps, too
	Letter  byte   // of the step; 0: it has none
}

// sent reports whether the step waits for its run or runs for the first time: one that failed and is retried runs on.
func (s *StepStanding) sent() bool { return s.Letter == Sent || s.Letter == Outside }

// Drops reports whether the step is not to run.
func (s *StepStanding) Drops() bool {
	switch s.State {
	case StateCancelled, StateExpired:
		return s.sent()
	case StateFailed:
		return s.sent() && !s.Rest
	}
	return false
}

// Stops reports whether the step is to end although it runs.
func (s *StepStanding) Stops() bool { return s.Drops() && (s.State != StateFailed || s.Cancels) }

// Standing returns how steps stand. Of each step the workflow's state is read before its letter: a workflow that goes
// on between both seems to be halted, which its end finds out.
func (s Store) Standing(c redis.Conn, steps []AskedStep) ([]StepStanding, error) {
	b := resque.Batch{Conn: c}
	for _, of := range steps {
		b.Send("HMGET", s.WorkflowKey(of.Workflow).String(), "state", "rest", "cancels")
		b.Send("GETRANGE", s.LettersKey(of.Workflow).String(), of.Step, of.Step)
	}
	answers, err := b.Receive()
	if err != nil {
		return nil, fmt.Errorf("asking how workflows stand: %w", resque.Explain(err))
	}
	all := make([]StepStanding, len(steps))
	for i := range all {
		hash, err := redis.Strings(resque.Answer(answers[2*i]))
		letter, other := redis.String(resque.Answer(answers[2*i+1]))
		if err == nil {
			err = other
		}
		if err != nil {
			return nil, fmt.Errorf("asking how workflow %s stands: %w", steps[i].Workflow, resque.Explain(err))
		}
		all[i] = StepStanding{State: hash[0], Rest: hash[1] == "1", Cancels: hash[2] == "1"}
		if letter != "" {
			all[i].Letter = letter[0]
		}
	}
	return all, nil
}
