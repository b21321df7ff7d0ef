package resque

import (
	"fmt"

	"github.com/gomodule/redigo/redis"
)

var regainScript = script("regain")

// addSorted is add for a job that was taken from a lane. It goes back there, in front of
// the others, and gives back what it holds.
func (r recovery) addSorted(sorted []Settled, j Reserved, d Deaths) ([]Settled, Deaths) {
	effects, fails := r.BackToLane(r.dead.ID, j), false
	if r.running(j.Ticket) {
		if d, fails = r.count(j, d); fails {
			effects = append(r.Free(r.dead.ID, j), r.FileFailure(j.Queue, r.failure(j, d.Count).Encode(), r.multiQueue)...)
			r.over[d.digest] = true
		}
		effects = append([]Effect{effect("HSET", r.recovered(), d.digest, d.raw)}, effects...)
	}
	return append(sorted, Settled{Ticket: j.Ticket, Effects: effects}), d
}

func (r recovery) regain(c redis.Conn, sorted []Settled, total *Recovered) error {
	if len(sorted) == 0 {
		return nil
	}
	var a call
	a.key(r.inflight(r.dead.ID))
	a.key(r.processes())
	a.arg(r.dead.ID)
	a.settled(sorted)
	reply, err := redis.Values(a.do(c, regainScript))
	if err == nil && len(reply) == 0 {
		err = errAnswer
	}
	if err != nil {
		return fmt.Errorf("recovering the jobs of process %s: %w", r.dead.ID, err)
	}
	moved, _ := redis.Int(reply[0], nil)
	total.Requeued += moved
	for _, e := range reply[1:] {
		text, _ := redis.String(e, nil)
		total.Refused = append(total.Refused, fmt.Errorf("taking a job of process %s back: %s", r.dead.ID, text))
	}
	return nil
}
