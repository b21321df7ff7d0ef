package resque

import "strconv"

// This file is what the ends of jobs from lanes give back.

// holder names the job that holds a slot.
func holder(process string, ticket int64) string { return holderPrefix(process).of(ticket) }

func holderPrefix(process string) ownSlot { return ownSlot(process + "/") }

// ownSlot is an argument of an end: the name under which its job holds a slot, which is this text and the job's ticket. So all jobs that
// hold a slot of the same limit end with the same effects, which take memory once.
type ownSlot string

// of returns the name for a ticket.
func (o ownSlot) of(ticket int64) string {
	return string(strconv.AppendInt(append(make([]byte, 0, 96), o...), ticket, 10))
}

// leaving is what a job gives back of a limit when it ends. LeaveLane keeps it for the limits that it was asked for last. It is one piece of
// memory, because a limit with many keys has another one for each job.
type leaving struct {
	limit, process string
	slot           []Effect // frees its slot; nil: the limit is a rate
	effects        [1]Effect
	keys           [1]Key
	args           [1]any
}

// leavingMost is how many limits are kept.
const leavingMost = 64

// leaving returns what a job gives back of a limit.
func (s Store) leaving(limit, process string) *leaving {
	place := uint(len(limit))
	for i := max(0, len(limit)-4); i < len(limit); i++ { // keys differ at their ends
		place = 31*place + uint(limit[i])
	}
	at := &s.ofLimits[place%leavingMost]
	last := at.Load()
	if last != nil && last.limit == limit && last.process == process {
		return last
	}
	l := &leaving{limit: limit, process: process}
	if kind, key, _ := s.countedAt(limit, process); kind == "slots" {
		l.keys[0] = setKey(key)
		if last != nil && last.slot != nil && last.process == process {
			l.args = last.args
		} else {
			l.args[0] = holderPrefix(process)
		}
		l.effects[0] = Effect{verb: "SREM", keys: l.keys[:], args: l.args[:]}
		l.slot = l.effects[:1:1]
	}
	at.Store(l)
	return l
}

// LeaveLane appends what frees the slots of a job from a lane. If its handler was not called, it also gives
// back the starts that rates counted for it. The effects belong to the end of this job, and are not to be changed.
func (s Store) LeaveLane(effects []Effect, process string, j Reserved, started bool) []Effect {
	for _, limit := range j.Lane.LimitTexts() {
		switch slot := s.leaving(limit, process).slot; {
		case slot != nil && effects == nil:
			effects = slot
		case slot != nil:
			effects = append(effects, slot[0])
		case !started:
			kind, key, spec := s.countedAt(limit, process)
			keys, args := []Key{hashKey(s.limits()), textKey(key)}, []any{spec}
			if kind == "wait" {
				keys, args = append(keys, zsetKey(s.turns(j.Lane.Lanes()))), append(args, j.Lane.Own)
			}
			effects = append(effects, refund.Effect(keys, args...).Soft())
		}
	}
	return effects
}
