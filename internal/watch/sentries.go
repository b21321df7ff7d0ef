package watch

import (
	"crypto/sha256"
	"encoding/hex"
	"time"

	"github.com/goworker/goworker/internal/queues"
	"github.com/goworker/goworker/internal/resque"
)

// sentries decides whether this process hears of each push. In a fleet of more than four processes those that take the same jobs of the
// same queues are a crew, and at most four of its idle processes are sentries: Redis notifies them, and no others. The others wait
// for their bell. A process that can take no more jobs, or got all that it wanted, gives up its place, and rings for one that waits; and for two while there are more
// jobs, so that a burst wakes twice as many processes with each step.
//
// A process that waits looks at its queues once an interval, as each process does, and at least each ClaimEvery. Then it claims a seat, too: one
// of a dead process is free. Where anything is unknown or refused a process is notified of pushes, which is never wrong.
type sentries struct {
	peers   func() int
	program string // what jobs the process can run

	crew    string
	process string    // as which it is listed
	listed  bool      // Redis may list it, or it was called: it rings when it can take no more
	watched bool      // Redis watches its bell
	claimed time.Time // when it last claimed a seat
	rest    []string  // queues that gave the last look all it wanted
	call    []string  // processes to be called with the next exchange
}

// crewOf names the crew of a list of queues.
func (s *sentries) crewOf(list queues.Spec) {
	sum := sha256.Sum256([]byte(list.String() + "\x00" + s.program))
	s.crew = hex.EncodeToString(sum[:10])
}

// posts reports whether there are sentries: not in a small fleet, nor where Redis does not notify of changes, nor where lanes
// or closed queues have processes take different jobs.
func (o *Order) posts() bool {
	return o.tracking && o.sentries.peers() > resque.MostSentries && o.closed == nil && !o.lanes.Any()
}

// called has the process look at all queues, because a sentry can take no more.
func (o *Order) called() {
	o.sentries.watched, o.sentries.listed, o.sentries.claimed = false, true, time.Time{}
	o.rewatch(false)
	o.recheckPause = true
	o.wakeups.stop()
	o.wakeups.empty = 0 // it is the next to take a job, and lets no other go first
}

// post adds to an exchange what is to be done about sentries. It is called last: the exchange has what it asks for.
func (o *Order) post(x *resque.Exchange, want int, now time.Time) {
	s := &o.sentries
	if x.Process != s.process { // another session: Redis lists the one before until its lease has ended
		s.process, s.listed, s.watched, s.claimed = x.Process, false, false, time.Time{}
	}
	switch asks := len(x.Asks) > 0; {
	case s.listed && (want <= 0 || len(s.rest) > 0): // with jobs left it looks again by itself, and hears of none
		x.Sentry = &resque.Sentry{Rise: true, Filled: s.rest}
		s.listed, s.claimed = false, time.Time{}
		o.rewatch(false)
	case asks && o.posts() && (s.claimed.IsZero() && x.Arm || !s.claimed.IsZero() && now.Sub(s.claimed) >= resque.ClaimEvery):
		x.Sentry = &resque.Sentry{Sit: true, Bell: !s.watched}
		s.listed, s.watched, s.claimed = true, true, now
	case len(s.call) > 0:
		x.Sentry = new(resque.Sentry)
	}
	if x.Sentry != nil {
		x.Sentry.Crew, x.Sentry.Call, s.call = s.crew, s.call, nil
	}
}

// posted takes the answer to post.
func (o *Order) posted(x *resque.Exchange, r resque.Exchanged) {
	s := &o.sentries
	if s.rest = s.rest[:0]; s.listed && len(r.Jobs) > 0 && len(r.Jobs) >= x.Reserves() {
		for queue := range byQueue(r.Jobs) {
			s.rest = append(s.rest, queue)
		}
	}
	if x.Sentry == nil {
		return
	}
	s.call = append(s.call, r.Seat.Call...)
	if !x.Sentry.Sit || s.claimed.IsZero() { // it is known no more: forget was called since
		return
	}
	switch {
	case !r.Seat.Held:
		o.wait(s.claimed)
	case o.waiting:
		o.rewatch(true)
	}
}

// unpost has the process hear of pushes itself, until it has claimed a seat.
func (o *Order) unpost() {
	o.sentries.claimed = time.Time{}
	o.rewatch(true)
}
