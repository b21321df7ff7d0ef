package watch

import "time"

// Backlog returns queues in which jobs may wait that could be taken now: at most so many, of all queues in turn beginning with the
// one of a number. next is the number for the next call. due is since when the first job waits in one of all lanes, by Redis's clock;
// zero: none does, as far as is known.
func (o *Order) Backlog(now time.Time, from, most int) (queues []string, next int, due time.Time) {
	count := len(o.all)
	for i := range count {
		name := o.all[(from+i)%count].Name
		if o.skip.skips(name, now) || o.isClosed(name) {
			continue
		}
		if at := o.lanes.Due(name); !at.IsZero() && (due.IsZero() || at.Before(due)) {
			due = at
		}
		if open, raw := o.lanes.Open(name, false); open && raw && !o.empty[name] && len(queues) < most {
			queues, next = append(queues, name), (from+i+1)%count
		}
	}
	return queues, next, due
}
