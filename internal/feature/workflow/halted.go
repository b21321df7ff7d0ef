package workflow

import (
	"context"
	"errors"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/goworker/goworker/internal/failure"
	"github.com/goworker/goworker/internal/outcome"
	"github.com/goworker/goworker/internal/part"
	"github.com/goworker/goworker/internal/resque/workflows"
)

// Most is how many halted workflows a process keeps in memory. While there are more it asks Redis about each step.
const Most = 1000

// askWithin is how long a step waits at most for Redis to say how its workflow stands. A machine under load, or a server
// that fails over, takes longer than a second.
const askWithin = 5 * time.Second

// halted is the set of halted workflows as it was read. It does not change.
type halted struct {
	workflows map[string]struct{}
	more      bool // Redis has more
}

// mayHave reports whether a workflow may be halted. The set only says of which workflows it is worth asking: a step
// that failed and is retried runs although its workflow is halted.
func (h *halted) mayHave(workflow string) bool {
	if h == nil {
		return false
	}
	_, has := h.workflows[workflow]
	return has || h.more
}

// read reads the set, and then ends the contexts of the steps that run and are to stop. A job whose bytes are not read
// yet is left to Admit, which will find the set: it is stored before.
func (f *feature) read(c redis.Conn) error {
	ids, more, err := f.store.ReadHalted(c, Most)
	if err != nil && c.Err() != nil {
		return err
	}
	if len(ids) == 0 {
		f.halted.Store(nil)
		return err
	}
	h := &halted{workflows: make(map[string]struct{}, len(ids)), more: more}
	for _, id := range ids {
		h.workflows[id] = struct{}{}
	}
	f.halted.Store(h)
	if f.deps.Running == nil {
		return nil
	}
	var jobs []*outcome.Job
	var steps []workflows.AskedStep
	for j := range f.deps.Running {
		if !j.Opened() {
			continue
		}
		if at, ok := placeOf(j); ok && !at.handler() && h.mayHave(at.workflow) {
			jobs, steps = append(jobs, j), append(steps, workflows.AskedStep{Workflow: at.workflow, Step: at.number})
		}
	}
	if len(jobs) == 0 {
		return nil
	}
	all, err := f.store.Standing(c, steps)
	for i := range all {
		if all[i].Stops() {
			jobs[i].Cancel(failure.ErrHalted)
		}
	}
	return err
}

// asks asks Redis whether the step is to be dropped. A connection may have broken since it was last used, so it asks again.
// Where Redis does not answer all the time, or refuses, the step runs.
func (s *step) asks(of context.Context) bool {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(of), askWithin)
	defer cancel()
	var retry part.Backoff
	for {
		var all []workflows.StepStanding
		err := s.deps.Do(ctx, func(c redis.Conn) (err error) {
			all, err = s.store.Standing(c, []workflows.AskedStep{{Workflow: s.at.workflow, Step: s.at.number}})
			return err
		})
		if refused := redis.Error(""); err == nil || errors.As(err, &refused) || of.Err() != nil {
			return len(all) == 1 && all[0].Drops()
		}
		wait := s.deps.Clock.NewTimer(retry.Next())
		select {
		case <-wait.C():
		case <-ctx.Done():
			wait.Stop()
			return false
		}
	}
}
