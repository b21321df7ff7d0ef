package resque

import (
	"bytes"
	"fmt"

	"github.com/gomodule/redigo/redis"
)

var (
	sortScript      = script("sort")
	sortLaneScript  = script("sortlane")
	sortClassScript = script("sortclass")
)

// Sorting is jobs of a queue that an exchange moves into their lanes before its Take: as many of them as are still at the queue's head.
type Sorting struct {
	Queue string
	Jobs  [][]byte // as they were read from the head
	Lanes []Lane   // of each
}

func (s Store) sendSorting(c redis.Conn, of *Sorting) error {
	if of == nil {
		return nil
	}
	return sortScript.SendHash(c, s.sortArgs(of.Queue, of.Jobs, of.Lanes).Args()...)
}

// receiveSorting returns how many jobs were moved: none where Redis refuses that or does not know the script. Sort says why.
func receiveSorting(c redis.Conn, of *Sorting) (moved int, err error) {
	if of == nil {
		return 0, nil
	}
	moved, err = redis.Int(c.Receive())
	if _, refused := err.(redis.Error); refused {
		return 0, nil
	}
	return moved, err
}

// Next asks for jobs that are to be sorted later: at most so many, behind those that were read before. Meanwhile is called while Redis works.
type Next struct {
	Skip, Most int
	Meanwhile  func()
}

// Sort moves jobs that were read from the head of a queue into their lanes, as many
// of them as are still there. It returns how many, and with the same round trip the next jobs.
func (s Store) Sort(c redis.Conn, queue string, payloads [][]byte, lanes []Lane, then Next) (moved int, next [][]byte, err error) {
	script, a := sortScript, (*Call)(nil)
	if text := ofOneLane(payloads, lanes); text != nil {
		script, a = sortLaneScript, s.sortLaneArgs(queue, len(payloads), text, lanes[0])
	} else {
		a = s.sortArgs(queue, payloads, lanes)
	}
	if err = script.SendHash(c, a.Args()...); err == nil && then.Most > 0 {
		err = c.Send("LRANGE", s.KeyOfQueue(queue), then.Skip, then.Skip+then.Most-1)
	}
	if err == nil {
		err = c.Flush()
	}
	if err != nil {
		return 0, nil, err
	}
	if then.Meanwhile != nil {
		then.Meanwhile()
	}
	moved, err = redis.Int(c.Receive())
	if then.Most > 0 && (err == nil || isRefusal(err)) {
		var read error
		if next, read = redis.ByteSlices(c.Receive()); err == nil {
			err = read
		}
	}
	if isNoScript(err) {
		next = nil
		moved, err = redis.Int(a.Do(c, script))
	}
	if err != nil {
		return 0, nil, fmt.Errorf("sorting the jobs of queue %s by their limits: %w", queue, Explain(err))
	}
	return moved, next, nil
}

// ofOneLane returns the text of jobs for sortlane.lua; nil: they are for sort.lua.
func ofOneLane(payloads [][]byte, lanes []Lane) []byte {
	if len(payloads) < 2 {
		return nil
	}
	size := len(payloads)
	for i, raw := range payloads {
		if lanes[i] != lanes[0] || bytes.IndexByte(raw, '\n') >= 0 || len(raw) > 2 && raw[2] == 'p' { // as with a priority
			return nil
		}
		size += len(raw)
	}
	text := make([]byte, 0, size)
	for _, raw := range payloads {
		text = append(append(text, raw...), '\n')
	}
	return text[:size-1]
}

func (s Store) sortLaneArgs(queue string, n int, text []byte, lane Lane) *Call {
	var a Call
	a.Key(s.KeyOfQueue(queue))
	a.Key(s.lanes())
	a.Key(s.clock())
	a.Key(s.lane(lane))
	a.Key(s.turns(lane.Lanes()))
	a.Arg(n, text, lane.Own, lane.Lanes().member())
	return &a
}

// Alike are the jobs of a queue whose payloads begin with a text and name no other class and escape nothing behind it: they are of one class,
// and whatever their arguments are, they wait in this lane.
type Alike struct {
	Begin []byte // up to the quotation mark behind the class
	Lane  Lane
}

// SortAlike moves such jobs from the head of their queue into their lane, as many as stand there up to another job, and at most so many.
// It returns how many, and how many bytes they have.
func (s Store) SortAlike(c redis.Conn, of Alike, most int) (moved, size int, err error) {
	var a Call
	a.Key(s.KeyOfQueue(of.Lane.Queue))
	a.Key(s.lanes())
	a.Key(s.clock())
	a.Key(s.lane(of.Lane))
	a.Key(s.turns(of.Lane.Lanes()))
	a.Arg(most, of.Begin, of.Lane.Own, of.Lane.Lanes().member())
	r, err := redis.Ints(a.Do(c, sortClassScript))
	if err == nil && len(r) != 2 {
		err = ErrAnswer
	}
	if err != nil {
		return 0, 0, fmt.Errorf("sorting the jobs of queue %s by their class: %w", of.Lane.Queue, Explain(err))
	}
	return r[0], r[1], nil
}
