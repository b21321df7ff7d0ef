package resque

import (
	"fmt"
	"slices"

	"github.com/gomodule/redigo/redis"
)

var settleScript, settleText = script("settle"), scriptText("settle")

// Counts is what an outcome adds to Resque's totals.
type Counts string

const (
	CountsNothing Counts = ""       // the job was not run
	CountsDone    Counts = "done"   // stat:processed
	CountsFailed  Counts = "failed" // stat:processed and stat:failed
)

// Settled is an outcome that takes more than an acknowledgement or a failure record.
// Its effects happen and its ticket is removed as one. If the ticket is not in the
// record any more because the process was found dead, nothing happens.
//
// Where Redis refuses an effect, those after it do not happen, the ticket stays, and
// all is tried again later. So each effect but the last must be one that can be
// repeated.
type Settled struct {
	Ticket  int64
	Counts  Counts
	Effects []Effect
	Unrun   *Lane // the lane it was taken from, where its handler was not called: rates get back its start
}

// Effect is one command on one key that happens with a commit: of Redis, or lock, which is
// settle.lua's own. The methods of Store make them.
type Effect struct {
	command string
	key     string
	args    []any
}

func effect(command, key string, args ...any) Effect { return Effect{command, key, args} }

// Size is about how many bytes the effect brings to Redis.
func (e Effect) Size() int {
	n := len(e.command) + len(e.key)
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

// ScheduleAt puts a job into our own schedule, to be pushed to its queue at a time in
// milliseconds. The payload needs an id: two members that are equal are one job.
func (s Store) ScheduleAt(at int64, queue string, payload []byte) Effect {
	return effect("ZADD", s.schedule(), at, recordPrefix(queue)+string(payload))
}

// PushTail puts a job behind all others in a queue. The last of these effects is not
// one that can be repeated.
func (s Store) PushTail(queue string, payload []byte) []Effect {
	return []Effect{effect("SADD", s.queues(), queue), effect("RPUSH", s.queue(queue), payload)}
}

// Keep keeps the payload of a job that its failure record holds but an excerpt of.
func (s Store) Keep(j Reserved) Effect { return effect("RPUSH", s.kept(j.Queue), j.Payload) }

// FileFailure writes an encoded Failure where the failures of a queue go. The last of
// these effects is not one that can be repeated.
func (s Store) FileFailure(queue string, record []byte, multi bool) []Effect {
	list, name := s.failureList(queue, multi)
	file := effect("RPUSH", list, record)
	if name == "" {
		return []Effect{file}
	}
	return []Effect{effect("SADD", s.failedQueues(), name), file}
}

func (s Store) settleArgs(x *Exchange, script string) []any {
	c := call{keys: make([]any, 2, 16), before: 2}
	c.key(s.inflight(x.Process))
	c.key(s.process(x.Process))
	c.key(s.reaped(x.Process))
	c.key(s.stat("processed"))
	c.key(s.stat("failed"))
	c.key(s.limits())
	c.arg(x.Epoch)
	seen := make(map[string]int)
	for _, j := range x.Settled {
		c.settled(j, seen)
		s.startsBack(&c, x.Process, j.Unrun, seen)
	}
	c.keys[0], c.keys[1] = script, len(c.keys)-c.before
	return append(c.keys, c.argv...)
}

// settled appends an outcome with its effects.
func (c *call) settled(j Settled, seen map[string]int) {
	c.arg(j.Ticket, string(j.Counts), len(j.Effects))
	for _, e := range j.Effects {
		c.arg(len(e.args), e.command, c.keyOnce(e.key, seen))
		c.arg(e.args...)
	}
}

// startsBack appends which rates get back the start that a job of this lane took.
func (s Store) startsBack(c *call, process string, from *Lane, seen map[string]int) {
	var rates []Limit
	if from != nil {
		rates = slices.DeleteFunc(from.Limits(), Limit.running)
	}
	c.arg(len(rates))
	for _, l := range rates {
		turns := 0
		if l.putsOff() {
			turns = c.keyOnce(s.turns(from.Lanes()), seen)
		}
		c.arg(c.keyOnce(s.limitKey(l, process), seen), l.Spec(), turns, from.Own)
	}
}

func (c *call) keyOnce(key string, seen map[string]int) int {
	if seen[key] == 0 {
		seen[key] = c.key(key)
	}
	return seen[key]
}

// settled reads the script's answer into what the exchange comes to.
func (s Store) settled(reply any, out *Exchanged) error {
	r, err := redis.Values(reply, nil)
	if err != nil || len(r) == 0 {
		return fmt.Errorf("settle: unexpected answer %v", reply)
	}
	status, _ := redis.String(r[0], nil)
	if err := statusError(status); err != nil {
		return err
	}
	if len(r) != 3 {
		return fmt.Errorf("settle: unexpected answer %v", reply)
	}
	missing, _ := redis.Int(r[1], nil)
	out.Missing += missing
	broken, _ := redis.Strings(r[2], nil)
	for i := 0; i+1 < len(broken); i += 2 {
		out.Broken = append(out.Broken, KeyError{Key: broken[i], Reason: broken[i+1]})
	}
	return nil
}
