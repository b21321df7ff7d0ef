package resque

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/gomodule/redigo/redis"
	"github.com/goworker/goworker/internal/payload"
)

var commitScript = newRowScript("commit")

// Counts is what an outcome adds to Resque's totals.
type Counts string

const (
	CountsNothing Counts = ""       // the job was not run
	CountsDone    Counts = "done"   // stat:processed
	CountsFailed  Counts = "failed" // stat:processed and stat:failed
)

// Ended is a job that ended with effects. Redis writes all of them and removes the ticket, or
// it writes none of them and the ticket stays. A job that is done and has no effects is
// acknowledged by its ticket in Exchange.Done instead.
type Ended struct {
	Ticket  int64
	Place   string // of a leased job, instead of the ticket
	Counts  Counts
	Effects []Effect // in any order

	// Bytes is the payload. It is needed only where Redis answered that the in-flight record
	// has lost the bytes which Head and Tail push.
	Bytes []byte
}

// Size is about how many bytes the end brings to Redis.
func (e Ended) Size() (n int) {
	for _, effect := range e.Effects {
		n += effect.Size()
	}
	return n + len(e.Bytes)
}

// ResetDeaths forgets in how many dead processes a job was found.
func (s Store) ResetDeaths(j Reserved) Effect {
	return effect("HDEL", hashKey(s.recovered()), Digest(j.Payload)).Soft()
}

// ScheduleAt puts a job into our own schedule, to be pushed to its queue at a time in
// milliseconds. The payload needs an id: two members that are equal are one job.
func (s Store) ScheduleAt(at int64, queue string, payload []byte) Effect {
	return ToSchedule(s.ScheduleKey(), at, queue, payload)[0]
}

// ToSchedule is ScheduleAt with the key of the schedule, as a list of one, which is one piece of memory.
func ToSchedule(schedule Key, at int64, queue string, payload []byte) []Effect {
	member := make([]byte, 0, len("100:")+len(queue)+len(payload))
	member = append(append(strconv.AppendInt(member, int64(len(queue)), 10), ':'), queue...) // as JobPrefix
	return oneRow("ZADD", schedule, at, append(member, payload...))
}

// PushTail puts a payload behind all others in a queue.
func (s Store) PushTail(queue string, payload []byte) []Effect {
	return []Effect{effect("RPUSH", listKey(s.KeyOfQueue(queue)), payload), s.named(queue)}
}

// Head puts a job in front of all others of its queue, byte for byte.
func (s Store) Head(j Reserved) []Effect { return s.requeue("head", j) }

// Tail puts a job behind all others of its queue, byte for byte.
func (s Store) Tail(j Reserved) []Effect { return s.requeue("tail", j) }

func (s Store) requeue(verb string, j Reserved) []Effect {
	return []Effect{effect(verb, listKey(s.KeyOfQueue(j.Queue)), len(j.prefix())), s.named(j.Queue)}
}

// named puts a queue's name into its set, from which it is removed with the queue.
func (s Store) named(queue string) Effect {
	return effect("SADD", s.NamesKey(queue), queue).Soft()
}

// Keep keeps the payload of a job whose failure record holds only an excerpt of it.
func (s Store) Keep(j Reserved) Effect {
	return effect("tail", listKey(s.kept(j.Queue)), len(j.prefix()))
}

// FileFailure writes an encoded Failure into the failure list of a queue.
func (s Store) FileFailure(queue string, record []byte, multi bool) []Effect {
	list, name := s.FailureListFor(queue, multi)
	file := effect("RPUSH", listKey(list), record)
	if name == "" {
		return []Effect{file}
	}
	return []Effect{file, effect("SADD", setKey(s.KeyOfFailureLists()), name).Soft()}
}

// FailureListFor returns the key of the list that a queue's failures go to, and its member in
// failed_queues, which only the multi-queue backend has.
func (s Store) FailureListFor(queue string, multi bool) (key, member string) {
	if !multi {
		return s.failed(), ""
	}
	member = queue + "_failed"
	return s.KeyOfFailures(member), member
}

func (s Store) stats() string { return s.ns + "go:stats" }

// ExpiredCount counts a job that was dropped because its time was over.
func (s Store) ExpiredCount() Effect {
	return effect("HINCRBY", hashKey(s.stats()), expiredField, 1)
}

// expiredField of the hash of our own counts.
const expiredField = "expired"

// ExpiresAt is the field of a payload that says until when the job may be run.
func ExpiresAt(ms int64) payload.Field { return payload.NumberField("expires_at", ms) }

// Refusal is an effect that Redis refused, or a guard that did not hold. Its job keeps its ticket.
// A Refusal without ticket and place belongs to a soft effect; its job has ended.
type Refusal struct {
	Ticket int64
	Place  string // of a leased job, instead of the ticket
	KeyError
}

// NoBytes reports whether the in-flight record has lost the payload that the job's end pushes.
func (r Refusal) NoBytes() bool { return strings.HasPrefix(r.Reason, "NOBYTES ") }

// ErrGuard is the reason of a Refusal whose job was not committed because of a guard.
var ErrGuard = errors.New("a guard of the job does not hold")

// Left reports whether a guard of the job did not hold.
func (r Refusal) Left() bool { return r.Reason == ErrGuard.Error() }

// committed is the answer of commit.lua.
type committed struct {
	missing int // tickets that were not in the record
	refused []Refusal
	left    []string // tickets of jobs whose guards did not hold
	filled  []string // the keys of lists that were pushed to
}

// tickets returns those of the jobs whose guards did not hold.
func (c committed) tickets() []int64 {
	tickets := make([]int64, len(c.left))
	for i, text := range c.left {
		tickets[i], _ = strconv.ParseInt(text, 10, 64)
	}
	return tickets
}

// refusals returns those of commands and of guards.
func (c committed) refusals() []Refusal {
	all := c.refused
	for _, ticket := range c.left {
		all = append(all, refusal(ticket, "", ErrGuard.Error()))
	}
	return all
}

func refusal(ticket, key, reason string) Refusal {
	r := Refusal{KeyError: KeyError{Key: key, Reason: reason}}
	var err error
	if r.Ticket, err = strconv.ParseInt(ticket, 10, 64); err != nil {
		r.Place = ticket
	}
	return r
}

// guard is the proof that the caller may end the jobs, and the record in which they are.
type guard struct {
	name          string
	value         any
	record        Key
	second, third Key // of commit.lua's KEYS
}

// byProcess is the guard of a process that ends its own jobs.
func (s Store) byProcess(process string, epoch int64) guard {
	return guard{"process", epoch, hashKey(s.inflight(process)), hashKey(s.process(process)), anyKey(s.reaped(process))}
}

// byReaper is the guard of a reaper that ends a dead process's jobs.
func (s Store) byReaper(process string) guard {
	return guard{"dead", process, hashKey(s.inflight(process)), zsetKey(s.processes()), anyKey(s.reaped(process))}
}

// byLease is the guard of a server that ends jobs which it has leased.
func (s Store) byLease() guard {
	return guard{"lease", "", hashKey(s.KeyOfLeased()), zsetKey(s.KeyOfLeases()), zsetKey(s.KeyOfLeases())}
}

// commitArgs are the arguments of EVALSHA or EVAL, led by the script.
func (s Store) commitArgs(script string, g guard, ended []Ended) []any {
	keys, args := 5, 3
	for i := range ended {
		args += 3
		for j := range ended[i].Effects {
			e := &ended[i].Effects[j]
			keys, args = keys+len(e.keys), args+3+len(e.keys)+len(e.args)
		}
	}
	c := newRowCall(keys, args)
	c.fixed(g.record)
	c.fixed(g.second)
	c.fixed(g.third)
	c.fixed(anyKey(s.stat("processed")))
	c.fixed(anyKey(s.stat("failed")))
	c.Arg(g.name, g.value, "")
	for _, e := range ended {
		if e.Place != "" {
			c.Arg(e.Place, string(e.Counts))
		} else {
			c.Arg(e.Ticket, string(e.Counts))
		}
		c.ticket = e.Ticket
		c.rows(e.Effects, e.Bytes)
	}
	c.argv[2] = string(c.kinds)
	return c.scriptArgs(script)
}

// commitFor returns commit.lua with the verbs of some ends.
func commitFor(ended []Ended) *Script {
	var verbs []*Verb
	for i := range ended {
		verbs = addVerbs(verbs, ended[i].Effects)
	}
	return commitScript.with(verbs)
}

// commit ends jobs in a call of its own.
func (s Store) commit(c redis.Conn, g guard, ended []Ended) (committed, error) {
	script := commitFor(ended)
	reply, err := c.Do("EVALSHA", s.commitArgs(script.Hash(), g, ended)...)
	if isNoScript(err) {
		reply, err = c.Do("EVAL", s.commitArgs(script.Text(), g, ended)...)
	}
	if err != nil {
		return committed{}, err
	}
	return s.committed(reply)
}

// committed reads the script's answer.
func (s Store) committed(reply any) (out committed, err error) {
	r, err := redis.Values(reply, nil)
	if err != nil || len(r) == 0 {
		return out, fmt.Errorf("commit: unexpected answer %v", reply)
	}
	status, _ := redis.String(r[0], nil)
	if err := statusError(status); err != nil {
		return out, err
	}
	var counts [3]int
	for i := range counts {
		if len(r) > i+1 {
			counts[i], err = redis.Int(r[i+1], err)
		}
	}
	refused, left := counts[1], counts[2]
	if err != nil || len(r) < 4 || refused < 0 || left < 0 || len(r) < 4+3*refused+left {
		return out, fmt.Errorf("commit: unexpected answer %v", reply)
	}
	texts, err := redis.Strings(r[4:], nil)
	if err != nil {
		return out, fmt.Errorf("commit: unexpected answer %v", reply)
	}
	out.missing = counts[0]
	for row := range slices.Chunk(texts[:3*refused], 3) {
		out.refused = append(out.refused, refusal(row[0], row[1], row[2]))
	}
	out.left = texts[3*refused : 3*refused+left]
	out.filled = texts[3*refused+left:]
	return out, nil
}
