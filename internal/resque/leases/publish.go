package leases

import (
	"errors"
	"fmt"

	"github.com/gomodule/redigo/redis"

	"github.com/goworker/goworker/internal/httpjob"
	"github.com/goworker/goworker/internal/resque"
)

var publishScript = resque.LoadScript(scriptFiles, "publish")

// Publish is jobs for a queue: all of them or none are pushed.
type Publish struct {
	Queue    string
	Payloads [][]byte
	At       int64 // when they are due, in ms; 0: now
	Most     int   // how many jobs the queue may have then; 0: any number. Delayed jobs are not counted
}

// FullError says that a queue has too many jobs.
type FullError struct {
	Queue        string
	Length, Most int
}

func (e *FullError) Error() string {
	return fmt.Sprintf("queue %s has %s and may have %d; take some before more are published", e.Queue, resque.Plural(e.Length, "job"), e.Most)
}

// Published says what became of jobs.
type Published struct {
	Now    int64   // of Redis's clock, in ms
	Errors []error // of each Publish; nil: its jobs are in Redis. A *FullError, or what Redis refused
}

// Publish pushes jobs, each Publish for itself. Jobs of one queue keep their order. With an error none was pushed, unless
// the connection broke, which leaves that open, or the error is a *resque.ReplicasError, with which they were pushed.
func (s Store) Publish(c redis.Conn, all []Publish) (Published, error) {
	p := s.publishCall(all)
	r, err := redis.Values(p.Do(c, publishScript))
	out := Published{Errors: make([]error, len(all))}
	if err == nil && len(r)%3 != 1 {
		err = resque.ErrAnswer
	}
	if err == nil {
		out.Now, err = redis.Int64(r[0], nil)
	}
	for i := 1; err == nil && i < len(r); i += 3 {
		err = p.refused(&out, r[i:i+3])
	}
	if err != nil {
		return Published{}, fmt.Errorf("publishing jobs for %s: %w", resque.Plural(len(all), "request"), resque.Explain(err))
	}
	pushed := 0
	for i := range all {
		if out.Errors[i] == nil {
			pushed += len(all[i].Payloads)
		}
	}
	if pushed == 0 {
		return out, nil
	}
	return out, s.AwaitReplicas(c, &resque.ReplicasError{To: resque.Plural(len(p.lists), "queue"), Jobs: pushed})
}

// publishCall is the arguments of publish.lua, and which rows have which jobs.
type publishCall struct {
	resque.Call
	all   []Publish
	lists map[string]int // the number of a queue's list in KEYS
	rows  [][]int        // the jobs of each row
}

// publishCall gives each limited Publish a row of its own, since it is for itself. What has no limit is one row for each
// queue, and what is delayed is one: Redis refuses all of it or nothing.
func (s Store) publishCall(all []Publish) *publishCall {
	p := &publishCall{all: all, lists: make(map[string]int)}
	p.Key(s.KeyOfSchedule())
	merged := make(map[string]int) // a queue to its row, from 1, while that can get more
	values := [][]int{}
	later := 0
	for i, publish := range all {
		switch {
		case len(publish.Payloads) == 0:
			continue
		case publish.At != 0 && later == 0:
			values = append(values, nil)
			later = len(values)
		}
		row := later
		if publish.At == 0 {
			if p.lists[publish.Queue] == 0 {
				p.lists[publish.Queue] = p.Key(s.KeyOfQueue(publish.Queue))
				p.Key(s.KeyOfNames(publish.Queue))
			}
			if row = merged[publish.Queue]; row == 0 || publish.Most > 0 {
				values = append(values, nil)
				row = len(values)
			}
			merged[publish.Queue] = row
			if publish.Most > 0 {
				merged[publish.Queue] = 0
			}
		}
		values[row-1] = append(values[row-1], i)
	}
	for _, row := range values {
		first, n := all[row[0]], 0
		for _, i := range row {
			n += len(all[i].Payloads)
		}
		if first.At != 0 {
			p.Arg(0, "", 0, 0, 2*n)
		} else if httpjob.IsReply(first.Queue) {
			p.Arg(p.lists[first.Queue], "", first.Most, httpjob.ReplyTTL.Milliseconds(), n)
		} else {
			p.Arg(p.lists[first.Queue], first.Queue, first.Most, 0, n)
		}
		for _, i := range row {
			for _, payload := range all[i].Payloads {
				if first.At != 0 {
					p.Arg(all[i].At, resque.JobPrefix(all[i].Queue)+string(payload))
				} else {
					p.Arg(payload)
				}
			}
		}
	}
	p.rows = values
	return p
}

// refused notes why a row was refused.
func (p *publishCall) refused(out *Published, r []any) error {
	row, err := redis.Int(r[0], nil)
	key, err2 := redis.String(r[1], nil)
	if err = errors.Join(err, err2); err != nil || row < 1 || row > len(p.rows) {
		return resque.ErrAnswer
	}
	for _, i := range p.rows[row-1] {
		if key == "" {
			length, err := redis.Int(r[2], nil)
			if err != nil {
				return resque.ErrAnswer
			}
			out.Errors[i] = &FullError{Queue: p.all[i].Queue, Length: length, Most: p.all[i].Most}
			continue
		}
		why, err := redis.String(r[2], nil)
		if err != nil {
			return resque.ErrAnswer
		}
		out.Errors[i] = fmt.Errorf("publishing to queue %s: %w", p.all[i].Queue, refusal(key, why))
	}
	return nil
}

// refusal is an error of Redis that a script returned.
func refusal(key, why string) error {
	err := redis.Error(why)
	if resque.IsWrongType(err) {
		return fmt.Errorf("key %s: %w", key, resque.Explain(err))
	}
	return resque.Explain(err)
}
