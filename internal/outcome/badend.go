package outcome

import "errors"

// BadEnd names how a job ended badly, in the word of the events: failed, retried, expired, discarded or cancelled; recovered, of a
// dead process's job that goes back to its queue, and poison, of one that has failed because its processes died too often. It is ""
// for any other end.
func (o *Outcome) BadEnd(j *Job) string {
	var poison *Poison
	switch o.State {
	case Failed:
		if errors.As(o.Err, &poison) {
			return "poison"
		}
		return o.State.String()
	case Retried, Expired, Discarded, Cancelled:
		return o.State.String()
	case Returned:
		if j.Dead {
			return "recovered"
		}
	}
	return ""
}
