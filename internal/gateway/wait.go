package gateway

import (
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/goworker/goworker/internal/clock"
	"github.com/goworker/goworker/internal/resque/leases"
)

// stage says where an ask is. The desk's mutex guards it.
type stage uint8

const (
	queued   stage = iota // it is for the next turn
	underway              // it is in the turn that is in flight
	waiting               // it waits in its line for a change of its queues
	ended                 // it has its answer, or its client has gone
)

// ask is a consumer that wants jobs.
type ask struct {
	line  *line
	ttr   time.Duration
	count int
	waits bool   // it may wait for a job
	seq   uint64 // the order of arrival

	stage      stage
	prev, next *ask       // in its line while it waits, also while it is asked again meanwhile
	listed     bool       // it is in its line
	answer     chan reply // has room for one
}

// reply is the answer to an ask.
type reply struct {
	jobs []leases.Job
	now  int64
	err  error
}

// line is the asks that wait for the same queues, in order of arrival.
type line struct {
	key        string
	queues     []string
	head, tail *ask
	users      int // asks that are not ended
}

// lines are the lines by their queues. The desk's mutex guards them.
type lines struct {
	byKey   map[string]*line
	byQueue map[string][]*line
	waiting int                  // asks in all lines
	asked   map[string]time.Time // by queue, at most mostAsked: when a client has asked for it, about
	clock   clock.Clock
}

func newLines(c clock.Clock) lines {
	return lines{byKey: make(map[string]*line), byQueue: make(map[string][]*line), asked: make(map[string]time.Time), clock: c}
}

// join returns the line of some queues for one more ask.
func (l *lines) join(queues []string) *line {
	key := queues[0]
	if len(queues) > 1 {
		key = strings.Join(queues, "\x00")
	}
	of := l.byKey[key]
	if of == nil {
		of = &line{key: key, queues: queues}
		l.byKey[key] = of
		now := l.clock.Now()
		for _, q := range queues {
			if len(l.asked) < mostAsked {
				l.asked[q] = now
			}
			l.byQueue[q] = append(l.byQueue[q], of)
		}
	}
	of.users++
	return of
}

// leave takes an ask that has ended out of its line, and the line away with its last ask.
func (l *lines) leave(a *ask) {
	l.unlist(a)
	of := a.line
	if of.users--; of.users > 0 {
		return
	}
	delete(l.byKey, of.key)
	for _, q := range of.queues {
		left := slices.DeleteFunc(l.byQueue[q], func(x *line) bool { return x == of })
		if l.byQueue[q] = left; len(left) == 0 {
			delete(l.byQueue, q)
		}
	}
}

// list puts an ask into its line, in order of arrival.
func (l *lines) list(a *ask) {
	if a.listed {
		return
	}
	of := a.line
	after := of.tail
	for after != nil && after.seq > a.seq {
		after = after.prev
	}
	a.prev = after
	if after == nil {
		a.next, of.head = of.head, a
	} else {
		a.next, after.next = after.next, a
	}
	if a.next == nil {
		of.tail = a
	} else {
		a.next.prev = a
	}
	a.listed = true
	l.waiting++
}

func (l *lines) unlist(a *ask) {
	if !a.listed {
		return
	}
	of := a.line
	if a.prev == nil {
		of.head = a.next
	} else {
		a.prev.next = a.next
	}
	if a.next == nil {
		of.tail = a.prev
	} else {
		a.next.prev = a.prev
	}
	a.prev, a.next, a.listed = nil, nil, false
	l.waiting--
}

// oldest calls f with the asks that wait for a queue in order of arrival, until f returns false. f may change the
// stage of the ask it gets.
func (l *lines) oldest(queue string, f func(*ask) bool) {
	of := l.byQueue[queue]
	if len(of) == 1 {
		for a := of[0].head; a != nil; a = a.next {
			if a.stage == waiting && !f(a) {
				return
			}
		}
		return
	}
	heads := make([]*ask, len(of))
	for i, x := range of {
		heads[i] = x.head
	}
	for {
		first := -1
		for i, a := range heads {
			for a != nil && a.stage != waiting {
				a = a.next
			}
			if heads[i] = a; a != nil && (first < 0 || a.seq < heads[first].seq) {
				first = i
			}
		}
		if first < 0 || !f(heads[first]) {
			return
		}
		heads[first] = heads[first].next
	}
}

// mostAsked bounds how many queues are known that clients have asked for: a client may name new ones each time.
const mostAsked = 10 * mostNamed

// askedFor is how long a queue counts as asked for after the last ask.
const askedFor = 10 * time.Minute

// names returns the queues that clients have asked for lately, sorted.
func (l *lines) names() []string {
	now := l.clock.Now()
	for q := range l.byQueue {
		if _, known := l.asked[q]; known || len(l.asked) < mostAsked {
			l.asked[q] = now
		}
	}
	for q, at := range l.asked {
		if now.Sub(at) > askedFor {
			delete(l.asked, q)
		}
	}
	return slices.Sorted(maps.Keys(l.asked))
}
