package outcome

import (
	"time"

	"github.com/goworker/goworker/internal/payload"
	"github.com/goworker/goworker/internal/resque"
)

// next decides where a job goes that goes on, and with which payload, unless a policy has said so.
func (s *Set) next(j *Job, o *Outcome) {
	n := &o.Next
	switch o.State {
	case Returned:
		if n.Place == Nowhere {
			n.Place, n.Lane = Head, j.Lane
			if j.Lane != nil {
				n.Place = Lane
			}
		}
	case Passed:
		if n.Place == Nowhere {
			n.Place = Tail
		}
	case Retried, Snoozed:
		if n.Place == Nowhere {
			n.Place = Tail
			if o.At.After(s.time.Now()) {
				n.Place = Schedule
			}
		}
		n.At = o.At
		if n.Place == Schedule || n.Place == Tail && n.Payload == nil {
			n.Payload = nextRun(j, o)
		}
		if n.Place == RubySchedule {
			_, plain := s.store.DelayPlain(second(n.At), j.Queue, j.Payload)
			if n.Payload = j.Payload; !plain || len(o.Fields)+len(j.Fields) > 0 {
				n.Place, n.Payload = Schedule, nextRun(j, o)
			}
		}
	}
}

// place adds the rows that put the job where it goes.
func (s *Set) place(j *Job, o *Outcome) {
	n := o.Next
	switch n.Place {
	case Head:
		o.Effects = append(o.Effects, s.store.Head(j.Reserved)...)
	case Tail:
		if n.Payload == nil {
			o.Effects = append(o.Effects, s.store.Tail(j.Reserved)...)
		} else {
			o.Effects = append(o.Effects, s.store.PushTail(j.Queue, n.Payload)...)
		}
	case Lane:
		o.Effects = append(o.Effects, s.store.ToLane(j.Reserved, *n.Lane)...)
	case Schedule:
		o.Add(resque.ToSchedule(s.schedule, millis(n.At), j.Queue, n.Payload))
	case RubySchedule:
		rows, _ := s.store.DelayPlain(second(n.At), j.Queue, n.Payload)
		o.Effects = append(o.Effects, rows...)
	}
}

// millis rounds up: nothing runs before its time.
func millis(t time.Time) int64 { return t.Add(time.Millisecond - 1).UnixMilli() }

// second rounds up as well.
func second(t time.Time) int64 { return (millis(t) + 999) / 1000 }

// nextRun returns the payload of a job's next run. It counts the attempt, if one was used up, and adds
// the fields of the policies. It also makes the payload unlike any other, because the schedule takes
// equal ones for one. An id does not suffice where the producer gave it: nothing keeps the producer from
// pushing a job twice.
func nextRun(j *Job, o *Outcome) []byte {
	fields := make([]payload.Field, 0, len(j.Fields)+len(o.Fields)+2)
	again := j.Parsed.Attempt > 1
	if o.State == Retried {
		fields = append(fields, payload.NumberField("attempt", int64(j.Parsed.Attempt)+1))
	}
	fields = append(append(fields, j.Fields...), o.Fields...)
	switch {
	case j.Parsed.ID == "":
		id := ""
		if j.Place != "" { // the job keeps the id under which a client knows it
			_, id, _ = resque.ParsePlace(j.Place)
		}
		if id == "" {
			id = payload.NewID()
		}
		fields = append(fields, payload.TextField("id", id))
	case !again || o.State == Snoozed:
		fields = append(fields, payload.TextField("retry_id", payload.NewID()))
	}
	next, err := payload.SetFields(j.Payload, fields...)
	if err != nil {
		return j.Payload // it was read before it ran
	}
	return next
}
