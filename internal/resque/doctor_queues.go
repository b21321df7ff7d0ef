package resque

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/goworker/goworker/internal/payload"
)

var condemnScript = script("condemn")

// ListLength returns how many elements a list has.
func (s Store) ListLength(c redis.Conn, key string) (int64, error) {
	n, err := redis.Int64(c.Do("LLEN", key))
	if err != nil {
		err = fmt.Errorf("reading the length of %s: %w", key, Explain(err))
	}
	return n, err
}

// ListWindow returns count elements of a list from a position on, without regard to their sizes. A negative position counts
// from the tail.
func (s Store) ListWindow(c redis.Conn, key string, from, count int64) ([][]byte, error) {
	to := from + count - 1
	if from < 0 && to >= 0 {
		to = -1
	}
	raws, err := redis.ByteSlices(c.Do("LRANGE", key, from, to))
	if err != nil {
		err = fmt.Errorf("reading %s: %w", key, Explain(err))
	}
	return raws, err
}

// Condemn moves a payload that is no job from its queue to the failures, where workers do not decode it. It returns false if
// the payload is not in the queue any more.
func (s Store) Condemn(c redis.Conn, queue string, raw []byte, f payload.Failure, multiQueue bool) (bool, error) {
	if len(raw) > payload.MaxInvalid {
		return false, fmt.Errorf("a payload of %d bytes in queue %s is too large for a failure: look at it there and remove it", len(raw), queue)
	}
	list, member := s.FailureListFor(queue, multiQueue)
	var a Call
	a.Key(s.KeyOfQueue(queue))
	a.Key(list)
	a.Key(s.KeyOfFailureLists())
	a.Arg(raw, f.Encode(), member)
	moved, err := redis.Bool(a.Do(c, condemnScript))
	if err != nil {
		err = fmt.Errorf("moving a payload that is no job from queue %s to the failures: %w", queue, Explain(err))
	}
	return moved, err
}

// NotNamed returns which of these queues of Ruby's have jobs in their lists and are not in the set of queues, with the numbers
// of their jobs.
func (s Store) NotNamed(c redis.Conn, queues []string) (jobs map[string]int64, err error) {
	b := Batch{Conn: c}
	for _, q := range queues {
		b.Send("SISMEMBER", s.KeyOfQueues(), q)
		b.Send("LLEN", s.KeyOfRubys(q))
	}
	replies, err := b.Receive()
	jobs = make(map[string]int64)
	for i, q := range queues {
		var named bool
		var length int64
		if err == nil {
			named, err = redis.Bool(Answer(replies[2*i]))
		}
		if err == nil {
			length, err = redis.Int64(Answer(replies[2*i+1]))
			if IsWrongType(err) {
				length, err = 0, nil
			}
		}
		if err == nil && !named && length > 0 {
			jobs[q] = length
		}
	}
	if err != nil {
		err = fmt.Errorf("comparing the set of queues with their lists: %w", Explain(err))
	}
	return jobs, err
}

// NameQueue puts a queue of Ruby's into the set of queues, if jobs wait in its list.
func (s Store) NameQueue(c redis.Conn, queue string) (bool, error) {
	lost, err := s.NotNamed(c, []string{queue})
	if err != nil || lost[queue] == 0 {
		return false, err
	}
	added, err := redis.Bool(c.Do("SADD", s.KeyOfQueues(), queue))
	if err != nil {
		err = fmt.Errorf("putting queue %s into the set of queues: %w", queue, Explain(err))
	}
	return added, err
}

// PauseAll returns the key by which all workers are paused, and whether they are.
func (s Store) PauseAll(c redis.Conn) (key string, paused bool, err error) {
	text, err := redis.String(c.Do("GET", s.pauseAll()))
	if err != nil && !errors.Is(err, redis.ErrNil) {
		return s.pauseAll(), false, fmt.Errorf("reading whether all workers are paused: %w", Explain(err))
	}
	return s.pauseAll(), strings.ToLower(strings.TrimSpace(text)) == "true", nil
}

// Late is how many delayed jobs are late, and by how much the first of them.
type Late struct {
	Jobs  int64
	Exact bool // there are no more than Jobs
	First time.Duration
}

// mostBuckets is how many of Ruby's seconds are counted.
const mostBuckets = 1000

// LateJobs returns which delayed jobs should have been in their queues for longer than a time.
func (s Store) LateJobs(c redis.Conn, now time.Time, longer time.Duration) (l Late, err error) {
	bound := now.Add(-longer)
	b := Batch{Conn: c}
	b.Send("ZCOUNT", s.KeyOfSchedule(), "-inf", bound.UnixMilli())
	b.Send("ZRANGE", s.KeyOfSchedule(), 0, 0, "WITHSCORES")
	b.Send("ZRANGEBYSCORE", s.KeyOfSeconds(), "-inf", bound.Unix(), "WITHSCORES", "LIMIT", 0, mostBuckets)
	replies, err := b.Receive()
	var first, seconds []string
	if err == nil {
		l.Jobs, err = redis.Int64(Answer(replies[0]))
	}
	if err == nil {
		first, err = redis.Strings(Answer(replies[1]))
	}
	if err == nil {
		seconds, err = redis.Strings(Answer(replies[2]))
	}
	if err != nil {
		return l, fmt.Errorf("reading which delayed jobs are due: %w", Explain(err))
	}
	if l.Jobs > 0 && len(first) == 2 {
		ms, _ := redis.Float64([]byte(first[1]), nil)
		l.First = now.Sub(time.UnixMilli(int64(max(ms, 0))))
	}
	l.Exact = len(seconds) < 2*mostBuckets
	b = Batch{Conn: c}
	for i := 0; i+1 < len(seconds); i += 2 {
		b.Send("LLEN", s.KeyOfSecond(seconds[i]))
	}
	if replies, err = b.Receive(); err != nil {
		return l, fmt.Errorf("counting the delayed jobs that are due: %w", err)
	}
	for i, reply := range replies {
		n, err := redis.Int64(Answer(reply))
		if err != nil && !IsWrongType(err) {
			return l, fmt.Errorf("counting the delayed jobs that are due: %w", Explain(err))
		}
		if l.Jobs += n; n > 0 {
			at, _ := redis.Float64([]byte(seconds[2*i+1]), nil)
			l.First = max(l.First, now.Sub(time.Unix(int64(max(at, 0)), 0)))
		}
	}
	return l, nil
}

// LostSeconds returns which of the seconds have delayed jobs and are not in the set of seconds, with the numbers of their jobs.
func (s Store) LostSeconds(c redis.Conn, seconds []string) (jobs map[string]int64, err error) {
	b := Batch{Conn: c}
	for _, second := range seconds {
		b.Send("ZSCORE", s.KeyOfSeconds(), second)
		b.Send("LLEN", s.KeyOfSecond(second))
	}
	replies, err := b.Receive()
	jobs = make(map[string]int64)
	for i, second := range seconds {
		var length int64
		if err == nil {
			_, err = Answer(replies[2*i])
		}
		if err == nil {
			length, err = redis.Int64(Answer(replies[2*i+1]))
			if IsWrongType(err) {
				length, err = 0, nil
			}
		}
		if err == nil && replies[2*i] == nil && length > 0 {
			jobs[second] = length
		}
	}
	if err != nil {
		err = fmt.Errorf("comparing the set of seconds with their lists: %w", Explain(err))
	}
	return jobs, err
}

// NameSecond puts a second into the set of those that have delayed jobs, if it has some. If its last job leaves at the same
// moment, the schedulers remove the second: they look for empty ones.
func (s Store) NameSecond(c redis.Conn, second string) (bool, error) {
	lost, err := s.LostSeconds(c, []string{second})
	if err != nil || lost[second] == 0 {
		return false, err
	}
	added, err := redis.Bool(c.Do("ZADD", s.KeyOfSeconds(), "NX", second, second))
	if err != nil {
		err = fmt.Errorf("putting second %s into the set of seconds: %w", second, Explain(err))
	}
	return added, err
}
