package resque

import (
	"fmt"

	"github.com/gomodule/redigo/redis"
)

var regainScript = script("regain")

// backToLane has a job that was taken from a lane go back there, in front of the others,
// and gives back what it holds.
func (r recovery) backToLane(j Reserved, d Deaths, running bool) Settled {
	effects := r.BackToLane(r.dead.ID, j)
	if running {
		effects = append([]Effect{effect("HSET", r.recovered(), d.digest, d.raw)}, effects...)
	}
	return Settled{Ticket: j.Ticket, Effects: effects}
}

// fail files a job as failed that was found in dead processes too often. As with any other
// end of it, it gives back what it holds.
func (r recovery) fail(j Reserved, d Deaths) Settled {
	r.over[d.digest] = true
	effects := append(r.Free(r.dead.ID, j), effect("HSET", r.recovered(), d.digest, d.raw))
	if p, err := ParsePayload(j.Payload); err == nil {
		if _, lock, _ := ParseLock(p.Unique); lock != "" {
			effects = append(effects, r.Unlocked(lock, p.ID))
		}
	}
	return Settled{Ticket: j.Ticket, Counts: CountsFailed, Effects: append(effects, r.FileFailure(j.Queue, r.failure(j, d.Count).Encode(), r.multiQueue)...)}
}

func (r recovery) regain(c redis.Conn, settled []Settled, total *Recovered) error {
	if len(settled) == 0 {
		return nil
	}
	var a call
	a.key(r.inflight(r.dead.ID))
	a.key(r.processes())
	a.arg(r.dead.ID)
	seen := make(map[string]int)
	for _, j := range settled {
		a.settled(j, seen)
	}
	reply, err := redis.Values(a.do(c, regainScript))
	if err == nil && len(reply) < 2 {
		err = errAnswer
	}
	if err != nil {
		return fmt.Errorf("recovering the jobs of process %s: %w", r.dead.ID, err)
	}
	moved, err := redis.Ints(reply[:2], nil)
	if err != nil {
		return err
	}
	total.Requeued += moved[0]
	total.Failed += moved[1]
	r.refused(reply[2:], total)
	return nil
}
