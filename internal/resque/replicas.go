package resque

import (
	"fmt"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/goworker/goworker/internal/prefix"
)

// ErrFewReplicas matches every ReplicasError.
var ErrFewReplicas = prefix.New("too few replicas have the jobs")

// ReplicasError says that jobs were pushed, but that fewer replicas than
// wanted confirmed them in time.
type ReplicasError struct {
	To           string // "queue low", or "3 queues"
	Jobs         int
	Wanted, Have int    // replicas
	Reason       string // why it is unknown how many have them; Have is 0 then
}

func (e *ReplicasError) Error() string {
	what := fmt.Sprintf("%s for %s", Plural(e.Jobs, "job"), e.To)
	if e.Reason != "" {
		return fmt.Sprintf("%s: pushed, and workers take them, but how many replicas have them is not known: %s", what, e.Reason)
	}
	return fmt.Sprintf("%s: pushed, and workers take them, but %d of the %s wanted have them; a fail-over now may lose them, and pushing them again doubles them",
		what, e.Have, Plural(e.Wanted, "replica"))
}

// Is makes errors.Is find ErrFewReplicas.
func (e *ReplicasError) Is(target error) bool { return target == ErrFewReplicas }

// Replicated returns a Store whose Push waits until n replicas of the server have
// the jobs, at most for within, which must be less than the connection's
// read timeout. If fewer have them then, Push returns a *ReplicasError.
func (s Store) Replicated(n int, within time.Duration) Store {
	s.replicas, s.within = n, within
	return s
}

// pushReplicated sends the push and its WAIT in one round trip. An error of the push
// itself comes first and means that nothing was done. With few there is a reply too.
func (s Store) pushReplicated(c redis.Conn, command string, args []any, few *ReplicasError) (reply any, err error) {
	if err := c.Send(command, args...); err != nil {
		return nil, err
	}
	if err := c.Send("WAIT", s.replicas, s.within.Milliseconds()); err != nil {
		return nil, err
	}
	if err := c.Flush(); err != nil {
		return nil, err
	}
	reply, err = c.Receive()
	have, waitErr := redis.Int(c.Receive())
	if err != nil {
		return nil, err
	}
	return reply, few.found(have, waitErr)
}

// AwaitReplicas waits until as many replicas as the Store wants have all that the connection has written. It is for writes that do not
// go through Push: few says what they were.
func (s Store) AwaitReplicas(c redis.Conn, few *ReplicasError) error {
	if s.replicas == 0 {
		return nil
	}
	few.Wanted = s.replicas
	return few.found(redis.Int(c.Do("WAIT", s.replicas, s.within.Milliseconds())))
}

// found returns nil if the answer of WAIT says that enough replicas have the jobs, and else e.
func (e *ReplicasError) found(have int, err error) error {
	switch {
	case err != nil:
		e.Reason = err.Error()
		return e
	case have < e.Wanted:
		e.Have = have
		return e
	}
	return nil
}
