package resque

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/gomodule/redigo/redis"
	"github.com/goworker/goworker/internal/payload"
)

var commitScript, commitText = script("commit"), scriptText("commit")

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
	Counts  Counts
	Effects []Effect // guards first, then Head or Tail, soft ones last

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

// Effect is one row of commit.lua: a command of Redis, or one of the script's own verbs, that
// is written as one with a job's end. The methods of Store make effects.
type Effect struct {
	verb string
	keys []typedKey
	args []any
}

// typedKey is a key and the letter of its type, which commit.lua proves before it writes.
type typedKey struct {
	name string
	kind byte
}

func hashKey(name string) typedKey { return typedKey{name, 'h'} }
func listKey(name string) typedKey { return typedKey{name, 'l'} }
func setKey(name string) typedKey  { return typedKey{name, 's'} }
func zsetKey(name string) typedKey { return typedKey{name, 'z'} }
func textKey(name string) typedKey { return typedKey{name, 't'} }
func anyKey(name string) typedKey  { return typedKey{name, '.'} } // for SET and DEL, which take any type

func effect(verb string, key typedKey, args ...any) Effect {
	return Effect{verb, []typedKey{key}, args}
}

// soft makes the effect one whose refusal is reported and does not hold the ticket.
func (e Effect) soft() Effect {
	e.verb = "~" + e.verb
	return e
}

// unless leaves the job for later, unless a command on a key has this answer.
func unless(command string, key typedKey, answer string, args ...any) Effect {
	return effect("?"+command, key, append([]any{answer}, args...)...)
}

// Size is about how many bytes the effect brings to Redis.
func (e Effect) Size() int {
	n := len(e.verb)
	for _, k := range e.keys {
		n += len(k.name)
	}
	for _, a := range e.args {
		switch a := a.(type) {
		case []byte:
			n += len(a)
		case string:
			n += len(a)
		default:
			n += 8
		}
	}
	return n
}

// ResetDeaths forgets in how many dead processes a job was found.
func (s Store) ResetDeaths(j Reserved) Effect {
	return effect("HDEL", hashKey(s.recovered()), Digest(j.Payload)).soft()
}

// ScheduleAt puts a job into our own schedule, to be pushed to its queue at a time in
// milliseconds. The payload needs an id: two members that are equal are one job.
func (s Store) ScheduleAt(at int64, queue string, payload []byte) Effect {
	return effect("ZADD", zsetKey(s.schedule()), at, recordPrefix(queue)+string(payload))
}

// PushTail puts a payload behind all others in a queue.
func (s Store) PushTail(queue string, payload []byte) []Effect {
	return []Effect{effect("RPUSH", listKey(s.queue(queue)), payload), s.named(queue)}
}

// Head puts a job in front of all others of its queue, byte for byte.
func (s Store) Head(j Reserved) []Effect { return s.requeue("head", j) }

// Tail puts a job behind all others of its queue, byte for byte.
func (s Store) Tail(j Reserved) []Effect { return s.requeue("tail", j) }

func (s Store) requeue(verb string, j Reserved) []Effect {
	return []Effect{effect(verb, listKey(s.queue(j.Queue)), len(j.prefix())), s.named(j.Queue)}
}

// named puts a queue's name into the set of queues, from which Ruby removes it with the queue.
func (s Store) named(queue string) Effect { return effect("SADD", setKey(s.queues()), queue).soft() }

// Keep keeps the payload of a job whose failure record holds only an excerpt of it.
func (s Store) Keep(j Reserved) Effect {
	return effect("tail", listKey(s.kept(j.Queue)), len(j.prefix()))
}

// FileFailure writes an encoded Failure into the failure list of a queue.
func (s Store) FileFailure(queue string, record []byte, multi bool) []Effect {
	list, name := s.failureList(queue, multi)
	file := effect("RPUSH", listKey(list), record)
	if name == "" {
		return []Effect{file}
	}
	return []Effect{file, effect("SADD", setKey(s.failedQueues()), name).soft()}
}

// failureList names the list a failure of the queue goes to, and its member in
// failed_queues, which only the multi-queue backend has.
func (s Store) failureList(queue string, multi bool) (key, member string) {
	if !multi {
		return s.failed(), ""
	}
	member = queue + "_failed"
	return s.list(member), member
}

func (s Store) stats() string { return s.ns + "go:stats" }

// ExpiredCount counts a job that was dropped because its time was over.
func (s Store) ExpiredCount() Effect {
	return effect("HINCRBY", hashKey(s.stats()), expiredField, 1)
}

// expiredField of the hash of our own counts.
const expiredField = "expired"

// ExpiresAt is the field of a payload that says when the job is not to be run any more.
func ExpiresAt(ms int64) payload.Field { return payload.NumberField("expires_at", ms) }

// Refusal is an effect that Redis refused. Its job keeps its ticket; Ticket 0 is a soft effect,
// whose job has ended.
type Refusal struct {
	Ticket int64
	KeyError
}

// NoBytes reports whether the in-flight record has lost the payload that the job's end pushes.
func (r Refusal) NoBytes() bool { return strings.HasPrefix(r.Reason, "NOBYTES ") }

// committed is the answer of commit.lua.
type committed struct {
	missing int // tickets that were not in the record
	refused []Refusal
	left    []int64  // tickets of jobs whose guards did not hold
	filled  []string // the keys of lists that were pushed to
}

// commitCall collects the arguments of commit.lua.
type commitCall struct {
	call
	kinds []byte
	place map[string]int
}

// commitArgs are the arguments of EVALSHA or EVAL, led by the script. The guard is "process"
// with an epoch, or "dead" with the process.
func (s Store) commitArgs(script, guard string, value any, process string, ended []Ended) []any {
	c := commitCall{call: call{keys: make([]any, 2, 16), before: 2}, place: make(map[string]int)}
	c.typed(hashKey(s.inflight(process)))
	if guard == "dead" {
		c.typed(zsetKey(s.processes()))
	} else {
		c.typed(hashKey(s.process(process)))
	}
	c.typed(anyKey(s.reaped(process)))
	c.typed(anyKey(s.stat("processed")))
	c.typed(anyKey(s.stat("failed")))
	c.arg(guard, value, "")
	for _, e := range ended {
		c.ended(e)
	}
	c.argv[2] = string(c.kinds)
	c.keys[0], c.keys[1] = script, len(c.keys)-c.before
	return append(c.keys, c.argv...)
}

func (c *commitCall) typed(k typedKey) int {
	at := c.place[k.name]
	switch {
	case at == 0:
		at = c.key(k.name)
		c.place[k.name], c.kinds = at, append(c.kinds, k.kind)
	case c.kinds[at-1] == '.':
		c.kinds[at-1] = k.kind
	}
	return at
}

// ended appends a job with its rows: guards, what pushes its own bytes, the others, soft ones.
func (c *commitCall) ended(e Ended) {
	c.arg(e.Ticket, string(e.Counts), 0)
	first := len(c.argv)
	for order := range 4 {
		for _, row := range e.Effects {
			if row.order() == order {
				c.row(row, e.Bytes)
			}
		}
	}
	c.argv[first-1] = len(c.argv) - first
}

func (e Effect) order() int {
	switch {
	case e.verb[0] == '?':
		return 0
	case e.verb == "head" || e.verb == "tail" || e.verb == "HINCRBY": // what adds to a number is its own proof
		return 1
	case e.verb[0] == '~':
		return 3
	}
	return 2
}

func (c *commitCall) row(e Effect, bytes []byte) {
	if bytes != nil && (e.verb == "head" || e.verb == "tail") {
		e.verb, e.args = map[string]string{"head": "LPUSH", "tail": "RPUSH"}[e.verb], []any{bytes}
	}
	if e.verb == "~refund" {
		c.arg(e.verb, 1+len(e.keys)+len(e.args), len(e.keys))
	} else {
		c.arg(e.verb, len(e.keys)+len(e.args))
	}
	for _, k := range e.keys {
		c.arg(c.typed(k))
	}
	c.arg(e.args...)
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
		ticket, _ := strconv.ParseInt(row[0], 10, 64)
		out.refused = append(out.refused, Refusal{ticket, KeyError{Key: row[1], Reason: row[2]}})
	}
	for _, text := range texts[3*refused : 3*refused+left] {
		ticket, _ := strconv.ParseInt(text, 10, 64)
		out.left = append(out.left, ticket)
	}
	out.filled = texts[3*refused+left:]
	return out, nil
}
