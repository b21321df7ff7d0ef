package resque

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/gomodule/redigo/redis"
)

var pushGuardedScript = newRowScript("pushguarded")

// ErrWithheld is why a job was not pushed: Redis refused another job of the same call.
var ErrWithheld = errors.New("the job was not pushed, because Redis refused another one that was to be pushed with it")

// GuardedJob is a job to push together with guards and effects.
type GuardedJob struct {
	Queue   string
	Payload []byte
	At      time.Time // zero: into its queue, now. Else into our own schedule; the payload needs an id
	Effects []Effect  // guards too, in any order; not Head or Tail, which push a reserved job
}

// GuardedPush is the answer to PushGuarded.
type GuardedPush struct {
	Jobs []error    // by job: nil if it was pushed, ErrGuard, a KeyError, or ErrWithheld
	Soft []KeyError // soft effects that Redis refused; their jobs were pushed
}

// PushGuarded pushes each job together with its guards and effects. A job whose guards do not hold is
// not pushed, and nothing of it is written; the others are pushed. If Redis would refuse an effect of
// one job, nothing is written for any of them.
//
// The error is that of the call: nothing was pushed. Only when the connection broke is that unknown.
// With a *ReplicasError there is an answer too; see Replicated.
func (s Store) PushGuarded(c redis.Conn, jobs []GuardedJob) (GuardedPush, error) {
	if len(jobs) == 0 {
		return GuardedPush{}, nil
	}
	call, err := s.guardedCall(jobs)
	if err != nil {
		return GuardedPush{}, err
	}
	var verbs []*Verb
	queues := make(map[string]bool)
	for _, j := range jobs {
		verbs, queues[j.Queue] = addVerbs(verbs, j.Effects), true
	}
	script := pushGuardedScript.with(verbs)
	reply, err := s.evalGuarded(c, "EVALSHA", call.scriptArgs(script.hash), len(jobs), len(queues))
	if isNoScript(err) {
		reply, err = s.evalGuarded(c, "EVAL", call.scriptArgs(script.text), len(jobs), len(queues))
	}
	if err != nil && !errors.Is(err, ErrFewReplicas) {
		return GuardedPush{}, fmt.Errorf("pushing %s: %w", Plural(len(jobs), "job"), Explain(err))
	}
	out, wrong := s.guardedPush(reply, len(jobs))
	if wrong != nil {
		return GuardedPush{}, wrong
	}
	if !slices.Contains(out.Jobs, nil) {
		err = nil // about replicas, which have nothing to wait for
	}
	return out, err
}

// guardedCall collects the arguments of pushguarded.lua.
func (s Store) guardedCall(jobs []GuardedJob) (c rowCall, err error) {
	c = newRowCall()
	c.fixed(s.ScheduleKey())
	c.Arg("")
	size := 0
	for _, j := range jobs {
		if j.Queue == "" {
			return c, errNoQueue
		}
		size += len(j.Payload)
		c.rows(j.Effects, nil, s.pushRows(j)...)
	}
	if len(jobs) > MaxPushJobs || size > MaxPushBytes {
		return c, tooMuch(len(jobs), size)
	}
	c.argv[0] = string(c.kinds)
	return c, nil
}

// pushRows put the job into its place. They follow what may be refused, so that a job which is refused
// is not pushed.
func (s Store) pushRows(j GuardedJob) []Effect {
	if !j.At.IsZero() {
		return []Effect{s.ScheduleAt(StampOf(j.At).MS, j.Queue, j.Payload)}
	}
	return []Effect{effect("SADD", s.QueuesKey(), j.Queue), effect("RPUSH", s.QueueKey(j.Queue), j.Payload)}
}

// evalGuarded runs the script, and waits for the replicas as Push does.
func (s Store) evalGuarded(c redis.Conn, command string, args []any, jobs, queues int) (any, error) {
	if s.replicas == 0 {
		return c.Do(command, args...)
	}
	few := &ReplicasError{To: Plural(queues, "queue"), Jobs: jobs, Wanted: s.replicas}
	return s.pushReplicated(c, command, args, few)
}

// guardedPush reads the script's answer.
func (s Store) guardedPush(reply any, jobs int) (out GuardedPush, err error) {
	answer, err := s.committed(reply)
	if err != nil {
		return out, fmt.Errorf("pushing %s: %w", Plural(jobs, "job"), err)
	}
	out.Jobs = make([]error, jobs)
	failed := 0
	fail := func(job int64, why error) {
		if job >= 1 && int(job) <= jobs && out.Jobs[job-1] == nil {
			out.Jobs[job-1] = why
			failed++
		}
	}
	for _, r := range answer.refused {
		if r.Ticket == 0 {
			out.Soft = append(out.Soft, r.KeyError)
		}
		fail(r.Ticket, r.KeyError)
	}
	for _, job := range answer.tickets() {
		fail(job, ErrGuard)
	}
	if pushed := answer.missing; pushed == 0 && failed < jobs {
		for job := range jobs {
			fail(int64(job+1), ErrWithheld)
		}
	}
	return out, nil
}
