package operations

import (
	"strings"

	"github.com/goworker/goworker/internal/resque"
)

// Kinds of places that jobs came from.
const (
	QueuePlace  = "queue"
	LanePlace   = "lane"
	OwnPlace    = "own"   // our schedule of delayed jobs
	PlainPlace  = "plain" // resque-scheduler's
	FailedPlace = "failed"
)

// Place is where jobs came from, as the name of their list in the bin says.
type Place struct {
	Kind  string
	Queue string // of a queue or lane
	Lane  resque.Lane
	List  string // of failures
	Went  bool   // the jobs went elsewhere, and the list says which they were
}

// QueueName is the name in the bin of the list of a queue.
func QueueName(queue string) string { return QueuePlace + ":" + queue }

// LaneName is the name in the bin of the list of a lane.
func LaneName(l resque.Lane) string {
	return LanePlace + ":" + resque.JobPrefix(l.Queue) + resque.JobPrefix(l.Shared) + l.Own
}

// FailedName is the name in the bin of a failure list.
func FailedName(list string) string { return FailedPlace + ":" + list }

// wentMark begins the name of a list in the bin that says which jobs went elsewhere.
const wentMark = "went:"

// WentName is the name in the bin of a list that says which jobs went elsewhere from a place.
func WentName(place string) string { return wentMark + place }

// CancelledName is the name in the bin of the list of the jobs that were cancelled.
const CancelledName = wentMark + "cancelled"

// ParseName reads the name of a list in the bin; ok is false for one that does not name a place.
func ParseName(name string) (p Place, ok bool) {
	name, p.Went = strings.CutPrefix(name, wentMark)
	kind, rest, _ := strings.Cut(name, ":")
	switch p.Kind = kind; kind {
	case QueuePlace:
		p.Queue = rest
		return p, rest != ""
	case LanePlace:
		p.Lane, ok = resque.ParseLane([]byte(rest))
		p.Queue = p.Lane.Queue
		return p, ok
	case FailedPlace:
		p.List = rest
		return p, rest != ""
	case OwnPlace, PlainPlace:
		return p, rest == ""
	}
	return p, false
}

// String names the place for people.
func (p Place) String() string {
	switch p.Kind {
	case QueuePlace:
		return "queue " + p.Queue
	case LanePlace:
		return "a lane of queue " + p.Queue
	case FailedPlace:
		return "failure list " + p.List
	case OwnPlace:
		return "goworker's schedule"
	}
	return "resque-scheduler's schedule"
}
