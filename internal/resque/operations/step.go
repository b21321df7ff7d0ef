package operations

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/goworker/goworker/internal/pattern"
	"github.com/goworker/goworker/internal/resque"
)

// Kind is what the changes of a step are.
type Kind struct{ script *resque.Script }

func kind(name string) Kind { return Kind{resque.LoadScript(scriptFiles, name)} }

// The kinds of steps, and whose calls their changes are.
var (
	Move    = kind("move")    // resque.Store.MoveCall
	Retry   = kind("retry")   // failures.Store.RetryCall
	Remove  = kind("remove")  // failures.Store.RemoveCall
	Own     = kind("own")     // delayed.Store.OwnCall
	Plain   = kind("plain")   // delayed.Store.PlainCall
	Swap    = kind("swap")    // delayed.Store.SwapCall
	Cancel  = kind("cancel")  // resque.Store.CancelCall, KeepCall, TicketCall
	Lift    = kind("lift")    // resque.Store.LiftCall
	Clear   = kind("clear")   // ClearCall
	Sift    = kind("sift")    // SiftCall
	Restore = kind("restore") // RestoreCall
	Delay   = kind("delay")   // DelayCall
	Unretry = kind("unretry") // UnretryCall
	Rest    = kind("rest")    // none
)

// Where a job goes in the bin is the first byte of what is kept of it.
const (
	First = "<" // the head of the list in the bin
	Last  = ">" // its tail
	Ended = "!" // the list of jobs that have ended
)

// EndedName is the name in the bin of the list of removed jobs whose features have not heard of it yet.
const EndedName = "ended"

// Step is a step of an operation.
type Step struct {
	ID, Runner string
	Number     int64
	Cursor     string // where the search is that found its jobs
	Bin        string // the name of the list in the bin
	Back       bool   // it takes back
	Looked     int64
	Refused    int64 // jobs that were not tried, because they cannot be changed
	Why        string
	Changes    []Change
}

// Change is a call, and what is kept of each of its jobs.
type Change struct {
	Call resque.Call
	Kept []string
}

// Stepped is what a step did.
type Stepped struct {
	Changed int64
	Answers []Answer      // one for each change
	Took    time.Duration // of Redis, other clients' commands in between
}

// Answer is the answer to one change.
type Answer struct {
	Jobs    []int  // the numbers of the jobs that were changed, from 1; negative: not looked for
	Refused string // why none was
}

// ErrLate is returned for a step that was done before: its answer was lost.
var ErrLate = fmt.Errorf("the step was done before")

// Do makes a step. The error is ErrLost, ErrStopped or ErrLate if it was not made.
func (s Store) Do(c redis.Conn, kind Kind, step Step) (out Stepped, err error) {
	var a resque.Call
	a.Key(s.OperationKey(step.ID).String())
	a.Key(s.OperatingKey().String())
	a.Key(s.BinKey(step.ID, step.Bin).String())
	a.Key(s.BinKey(step.ID, EndedName).String())
	field := "done"
	if step.Back {
		field = "back"
	}
	a.Arg(step.ID, step.Runner, strconv.FormatInt(step.Number, 10), step.Cursor, Lease.Milliseconds(), Kept.Milliseconds(), BinKept.Milliseconds(),
		step.Bin, field, step.Looked, step.Refused, step.Why, len(step.Changes))
	for _, change := range step.Changes {
		keys, values := change.Call.Parts()
		for _, key := range keys {
			a.Key(key.(string))
		}
		a.Arg(len(keys), len(values), len(change.Kept))
	}
	for _, change := range step.Changes {
		for _, kept := range change.Kept {
			a.Arg(kept)
		}
	}
	for _, change := range step.Changes {
		_, values := change.Call.Parts()
		a.Arg(values...)
	}
	b := resque.Batch{Conn: c}
	b.Send("TIME")
	b.Eval(kind.script, a)
	b.Send("TIME")
	replies, err := b.Receive()
	var answer []any
	if err == nil {
		answer, err = redis.Values(resque.Answer(replies[1]))
	}
	if err != nil {
		return out, fmt.Errorf("a step of operation %s: %w", step.ID, resque.ExplainIn(kind.script.Text(), err))
	}
	out.Took = between(replies[0], replies[2])
	if out, err = stepped(kind.script.Text(), answer, out, len(step.Changes)); err != nil {
		err = fmt.Errorf("a step of operation %s: %w", step.ID, err)
	}
	return out, err
}

// place begins an error of Redis 6 that a script has caught.
var place = pattern.New(`^@?user_script: ?\d+: -?`)

// plain is the text of an error that a script has caught, as Redis would have sent it.
func plain(text string) string { return strings.TrimPrefix(place.ReplaceAllString(text, ""), "-") }

// between is the time between two answers of TIME.
func between(from, to any) time.Duration {
	var at [2]time.Duration
	for n, reply := range []any{from, to} {
		parts, err := redis.Int64s(resque.Answer(reply))
		if err != nil || len(parts) != 2 {
			return 0
		}
		at[n] = time.Duration(parts[0])*time.Second + time.Duration(parts[1])*time.Microsecond
	}
	return at[1] - at[0]
}

func stepped(script string, answer []any, out Stepped, changes int) (Stepped, error) {
	if len(answer) == 0 {
		return out, resque.ErrAnswer
	}
	switch word, _ := redis.String(answer[0], nil); word {
	case "late":
		return out, ErrLate
	case "refused":
		why, _ := redis.String(answer[1], nil)
		key, _ := redis.String(answer[2], nil)
		if key != "" {
			return out, fmt.Errorf("key %s: %w", key, resque.Explain(redis.Error(why)))
		}
		return out, resque.ExplainIn(script, redis.Error(plain(why)))
	case "ok":
	default:
		return out, refusal([]string{word})
	}
	if len(answer) != changes+2 {
		return out, resque.ErrAnswer
	}
	out.Changed, _ = redis.Int64(answer[1], nil)
	for _, of := range answer[2:] {
		if why, ok := of.([]byte); ok {
			out.Answers = append(out.Answers, Answer{Refused: plain(string(why))})
			continue
		}
		jobs, err := redis.Ints(of, nil)
		if err != nil {
			return out, resque.ErrAnswer
		}
		out.Answers = append(out.Answers, Answer{Jobs: jobs})
	}
	return out, nil
}

// ClearCall is a change that puts lists of a queue into the bin: its own, and lanes. With gone, which are all its sets of lanes, the
// name of the queue leaves the queues once no job is left.
func (s Store) ClearCall(id, queue string, own bool, lanes []resque.Lane, gone []resque.Lanes) (a resque.Call) {
	a.Key(s.KeyOfNames(queue))
	a.Key(s.KeyOfLanes())
	name := ""
	if len(gone) > 0 {
		name = queue
	}
	a.Arg(BinKept.Milliseconds(), name)
	if own {
		a.Key(s.KeyOfQueue(queue))
		a.Key(s.BinKey(id, QueueName(queue)).String())
		a.Key(s.KeyOfTurns(resque.Lanes{Queue: queue}))
		a.Arg(QueueName(queue), "", "")
	}
	for _, l := range lanes {
		name := LaneName(l)
		a.Key(s.KeyOfLane(l))
		a.Key(s.BinKey(id, name).String())
		a.Key(s.KeyOfTurns(l.Lanes()))
		a.Arg(name, l.Own, l.Lanes().Member())
	}
	if len(gone) > 0 {
		a.Key(s.KeyOfQueue(queue))
	}
	for _, set := range gone {
		a.Key(s.KeyOfTurns(set))
	}
	return a
}

// SiftCall is a change that takes jobs out of a list in the bin. They go nowhere, and unique ones give up their locks.
func (s Store) SiftCall(id, name string, jobs []resque.Move) resque.Call {
	return s.MoveOutCall(s.BinKey(id, name), jobs)
}

// RestoreCall is a change that puts jobs of a list in the bin back. It may put all back at once.
func (s Store) RestoreCall(id, name string) (a resque.Call, ok bool) {
	p, ok := ParseName(name)
	if !ok {
		return a, false
	}
	lane := resque.Lane{Queue: p.Queue}
	list, end, queue, own, member := "", "head", p.Queue, "", ""
	switch p.Kind {
	case QueuePlace:
		list = s.KeyOfQueue(p.Queue)
	case LanePlace:
		lane = p.Lane
		list, own, member = s.KeyOfLane(lane), lane.Own, lane.Lanes().Member()
	case FailedPlace:
		list, end, queue = s.KeyOfFailures(p.List), "tail", ""
	default:
		return a, false
	}
	a.Key(s.BinKey(id, name).String())
	a.Key(list)
	a.Key(s.KeyOfNames(lane.Queue))
	a.Key(s.KeyOfLanes())
	a.Key(s.KeyOfTurns(lane.Lanes()))
	a.Arg(end, restoredTogether, name, queue, own, member)
	return a, true
}

// restoredTogether is how many jobs go back in one step where the list cannot take its old name.
const restoredTogether = 500

// Delayed is a delayed job in the bin.
type Delayed struct {
	Lies []byte // as it lies there
	Time string // ms; of resque-scheduler the second
	Text []byte // member or item
}

// DelayedEntry is how a delayed job lies in the bin.
func DelayedEntry(time string, text []byte) string { return time + " " + string(text) }

// ParseDelayed reads a delayed job in the bin.
func ParseDelayed(lies []byte) (d Delayed, ok bool) {
	for i, b := range lies {
		if b == ' ' {
			return Delayed{lies, string(lies[:i]), lies[i+1:]}, i > 0
		}
	}
	return d, false
}

// DelayCall is a change that puts delayed jobs back, which are the first of their list in the bin.
func (s Store) DelayCall(id, name string, plain bool, jobs []Delayed) (a resque.Call) {
	a.Key(s.BinKey(id, name).String())
	a.Key(s.KeyOfSchedule())
	a.Key(s.KeyOfSeconds())
	a.Arg(name)
	for _, d := range jobs {
		bucket, stamps := 0, 0
		if plain {
			bucket, stamps = a.Key(s.KeyOfSecond(d.Time)), a.Key(s.KeyOfJobSeconds(string(d.Text)))
		}
		a.Arg(d.Lies, d.Time, d.Text, bucket, stamps)
	}
	return a
}

// UnretryCall is a change that takes back the retry of a failure: its record was at an index, and its job is in a list.
func (s Store) UnretryCall(list string, index int64, record, before []byte, from resque.Lane, lane bool, at int64, job []byte) (a resque.Call) {
	a.Key(s.KeyOfFailures(list))
	if lane {
		a.Key(s.KeyOfLane(from))
	} else {
		a.Key(s.KeyOfQueue(from.Queue))
	}
	if d, ok := resque.DocumentChangeOf(job); ok {
		a.Key(s.KeyOfResult(d.Name))
	}
	a.Arg(index, record, before, at, job)
	return a
}

// Or returns another kind if this is none.
func (k Kind) Or(other Kind) Kind {
	if k.script == nil {
		return other
	}
	return k
}
