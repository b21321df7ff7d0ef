package resque

import (
	"slices"

	"github.com/gomodule/redigo/redis"

	"github.com/goworker/goworker/internal/conn"
	"github.com/goworker/goworker/internal/payload"
)

var liftTailScript = script("lifttail")

// lift is a job whose push removes what has cancelled an earlier job with its id, or the one at its place.
type lift struct {
	id    string
	queue int // its place in Bulk.queues
}

// Lift has the push of the job that Encode began lift a cancel of an earlier job with this id, which is the last field of its payload. It is soft: a
// cancel that stays is of a job that has ended. cancelled is the CancelledKey of the Store that pushes.
func (b *Bulk) Lift(cancelled Key, id string) { b.cancelled, b.lifting = cancelled, id }

// lift adds the job that is being written to those of its unit.
func (b *Bulk) lift(of *unit, queue int) {
	if of.lifts == nil {
		of.lifts, b.lifts = b.lifts, nil
	}
	of.lifts = append(of.lifts, lift{b.lifting, queue})
	b.escaped = b.escaped || payload.Escaped(b.lifting)
	b.lifting = ""
}

// liftArgs appends the entries of jobs.
func (b *Bulk) liftArgs(args []any, lifts []lift) []any {
	for _, l := range lifts {
		byID, byPlace := CancelledBoth(b.queues[l.queue].name, l.id)
		args = append(args, byID, byPlace)
	}
	return args
}

// lifted returns how many values liftArgs appends for all jobs.
func (b *Bulk) lifted() (values int) {
	for i := range b.units {
		values += 2 * len(b.units[i].lifts)
	}
	return values
}

// sendLifts sends what lifts the cancels of many jobs at the tail of a queue: the entries, which are twice as many values as there are jobs, or, with
// byQueue, a script that looks whether anything is cancelled, and only then finds the ids in the payloads.
func (b *Bulk) sendLifts(p *conn.Pipe, key string, byQueue bool) {
	if !byQueue {
		for lifts := range slices.Chunk(b.units[0].lifts, runRow/2) {
			p.Command("ZREM", 1+2*len(lifts))
			p.Text(b.cancelled.name)
			for _, l := range lifts {
				byID, byPlace := CancelledBoth(b.queues[l.queue].name, l.id)
				p.Text(byID)
				p.Text(byPlace)
			}
		}
		return
	}
	p.Command("EVAL", 6) // in a transaction it is too late to hear that Redis does not know a script's hash
	p.Text(liftTailScript.Text())
	p.Int(2)
	p.Text(b.cancelled.name)
	p.Text(key)
	p.Int(len(b.jobs))
	p.Text(CancelledPlace(b.queues[0].name, ""))
}

// liftAfter lifts the cancels of many jobs that were pushed, where the script was refused.
func (b *Bulk) liftAfter(c redis.Conn, key string) {
	p := conn.NewPipe(c)
	b.sendLifts(p, key, false)
	_, _ = p.Do() // the jobs are there, whatever becomes of this
}
