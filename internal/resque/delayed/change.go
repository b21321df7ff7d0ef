package delayed

import (
	"bytes"
	"errors"
	"fmt"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/goworker/goworker/internal/clock"
	"github.com/goworker/goworker/internal/payload"
	"github.com/goworker/goworker/internal/resque"
)

var clearScript = resque.LoadScript(scriptFiles, "clear")

// changeLooks bounds how many elements one script compares in the lists of seconds to find
// its jobs: Redis serves no other client meanwhile.
const changeLooks = 1_000_000

// changeTogether is how many jobs one script changes.
const changeTogether = 500

// To is where jobs go in a schedule or out of it. The zero To leaves each at its time: what was forgotten removes no job.
type To struct {
	Nowhere bool      // they are removed
	Queue   bool      // their own queues, now
	Head    bool      // of these
	As      []byte    // of Queue: the payload as which a job of our own schedule goes there, with its lock; nil: its own
	Later   bool      // until At
	At      time.Time // of Later; the zero time is long over
	Now     time.Time // of Later: a job that is due before is due now. The zero time: the clock's
	Named   string    // another queue; each keeps its time. Of our own schedule only; see SwapCall
}

// put adds a job of resque-scheduler's to a call.
func (u *undelaying) put(d Job, to To) {
	u.add(d.second, string(d.Raw), "")
	switch {
	case to.Queue:
		u.toQueue(d.Queue, d.Payload, to.Head)
	case to.Later:
		u.toTime(resque.StampOf(to.At))
	case to.Nowhere:
		u.nowhere()
	default:
		u.toTime(resque.StampOf(d.At))
	}
}

// put adds a job of our own schedule to a call.
func (u *unscheduling) put(d Job, to To) {
	switch {
	case to.Queue:
		u.toQueueAs(d, to)
	case to.Later:
		when := resque.StampOf(to.At)
		u.toTime(d.Raw, when, d.movedTo(to))
	case to.Named != "":
		lock, _ := d.lock()
		u.toTime(d.Raw, resque.StampOf(d.At), moved{resque.JobPrefix(to.Named) + string(d.Payload), lock})
	case to.Nowhere:
		u.nowhere(d)
	default:
		u.toTime(d.Raw, resque.StampOf(d.At), moved{})
	}
}

// PlainCall is the call of undelay.lua, or of the same in a step of an operation, for listed jobs of resque-scheduler's.
func (s Store) PlainCall(jobs []Job, to To) resque.Call {
	u := undelaying{Store: s}
	u.start(nil)
	for _, d := range jobs {
		u.put(d, to)
	}
	return u.Call
}

// OwnCall is the call of unschedule.lua, or of the same in a step of an operation, for listed jobs of our own schedule.
func (s Store) OwnCall(jobs []Job, to To) resque.Call {
	u := unscheduling{Store: s}
	u.start()
	for _, d := range jobs {
		u.put(d, to)
	}
	return u.Call
}

// Take removes listed jobs from the schedules, and returns which of them were there. A unique job gives up its lock.
func (s Store) Take(c redis.Conn, jobs []Job) ([]bool, error) {
	return s.change(c, jobs, To{Nowhere: true})
}

// Enqueue puts listed jobs, of which none is an entry that is no job, to the heads or tails of their
// queues and returns which were there.
func (s Store) Enqueue(c redis.Conn, jobs []Job, head bool) ([]bool, error) {
	return s.change(c, jobs, To{Queue: true, Head: head})
}

// Redelay delays listed jobs to another time and returns which of them were there.
func (s Store) Redelay(c redis.Conn, jobs []Job, at time.Time) ([]bool, error) {
	return s.change(c, jobs, To{Later: true, At: at})
}

// moved is the member of our schedule as which a job goes on.
type moved struct {
	member string // "": unchanged
	lock   string // the lock of a unique job; "": it has none
}

// movedTo returns what a job becomes that is delayed to another time, or runs now if that is past.
func (d Job) movedTo(to To) moved {
	as := d.PayloadAt(to)
	if d.Plain() || bytes.Equal(as, d.Payload) {
		return moved{}
	}
	lock, _ := d.lock()
	return moved{resque.JobPrefix(d.Queue) + string(as), lock}
}

// PayloadAt is the payload as which a job goes on that is delayed. If the job expires, it still expires that long after it is due.
// resque-scheduler's schedule has no jobs that expire.
func (d Job) PayloadAt(to To) []byte {
	p, err := payload.Parse(d.Payload)
	if err != nil || p.ExpiresAt <= 0 || d.Plain() || !to.Later {
		return d.Payload
	}
	now := to.Now
	if now.IsZero() {
		now = clock.System.Now()
	}
	expires := min(p.ExpiresAt, resque.LastSecond*1000) + max(resque.StampOf(to.At).MS, now.UnixMilli()) - d.At.UnixMilli()
	if expires = max(expires, 1); expires == p.ExpiresAt {
		return d.Payload
	}
	as, err := payload.SetFields(d.Payload, resque.ExpiresAt(expires))
	if err != nil {
		return d.Payload
	}
	return as
}

// change changes listed jobs, and returns which of them were there.
func (s Store) change(c redis.Conn, jobs []Job, to To) (there []bool, err error) {
	there = make([]bool, len(jobs))
	for at := 0; at < len(jobs); {
		n, err := s.Changeable(c, jobs[at:min(len(jobs), at+changeTogether)])
		if err != nil {
			return there, err
		}
		plain, own := undelaying{Store: s}, unscheduling{Store: s}
		plain.start(nil)
		own.start()
		var ofPlain, ofOwn []int
		for i, d := range jobs[at : at+n] {
			if d.Plain() {
				plain.put(d, to)
				ofPlain = append(ofPlain, at+i)
			} else {
				own.put(d, to)
				ofOwn = append(ofOwn, at+i)
			}
		}
		at += n
		for _, part := range []struct {
			do   func(redis.Conn) (changed, error)
			jobs []int
		}{{plain.do, ofPlain}, {own.do, ofOwn}} {
			answer, err := part.do(c)
			for _, number := range answer.there {
				if number > 0 && number <= len(part.jobs) {
					there[part.jobs[number-1]] = true
				}
			}
			for _, b := range answer.broken {
				err = errors.Join(err, resque.Explain(redis.Error(b.Reason)))
			}
			if err != nil {
				return there, err
			}
		}
	}
	return there, nil
}

// Changeable returns how many of the jobs one script may change, by the lengths of their
// lists.
func (s Store) Changeable(c redis.Conn, jobs []Job) (int, error) {
	sizes, lists := &resque.Batch{Conn: c}, make(map[string]int)
	for _, d := range jobs {
		if _, asked := lists[d.second]; d.Plain() && !asked {
			lists[d.second] = len(lists)
			sizes.Send("LLEN", s.store.KeyOfSecond(d.second))
		}
	}
	if len(lists) == 0 {
		return len(jobs), nil
	}
	replies, err := sizes.Receive()
	if err != nil {
		return 0, err
	}
	looks := 0
	for n, d := range jobs {
		if d.Plain() {
			size, _ := redis.Int(resque.Answer(replies[lists[d.second]])) // of another type: the script reports it
			if looks += size; looks > changeLooks && n > 0 {
				return n, nil
			}
		}
	}
	return len(jobs), nil
}

// Clear removes all delayed jobs of both schedules.
func (s Store) Clear(c redis.Conn) error {
	if _, err := c.Do("DEL", s.store.KeyOfSchedule(), s.store.KeyOfHints()); err != nil {
		return fmt.Errorf("removing all delayed jobs: %w", resque.Explain(err))
	}
	for {
		seconds, err := redis.Strings(c.Do("ZRANGE", s.store.KeyOfSeconds(), 0, pageSize-1))
		for _, second := range seconds {
			if err == nil {
				err = s.clearSecond(c, second)
			}
		}
		if err != nil {
			return fmt.Errorf("removing all delayed jobs: %w", resque.Explain(err))
		}
		if len(seconds) < pageSize {
			return nil
		}
	}
}

// clearSecond removes as many jobs of a second as there were when it began.
func (s Store) clearSecond(c redis.Conn, second string) error {
	left, err := redis.Int(c.Do("LLEN", s.store.KeyOfSecond(second)))
	if err != nil {
		return err
	}
	for {
		items, err := redis.Strings(c.Do("LRANGE", s.store.KeyOfSecond(second), 0, pageSize-1))
		if err != nil {
			return err
		}
		var a resque.Call
		a.Key(s.store.KeyOfSeconds())
		a.Key(s.store.KeyOfSecond(second))
		for _, item := range items {
			a.Key(s.store.KeyOfJobSeconds(item))
		}
		a.Arg(second, len(s.store.KeyOfJobSeconds("")))
		removed, err := redis.Int(a.Do(c, clearScript))
		if left -= removed; err != nil || left <= 0 || len(items) == 0 {
			return err
		}
	}
}

// undelaying collects jobs to remove from resque-scheduler's seconds in one step.
type undelaying struct {
	Store
	resque.Call
	numbers map[string]int
}

// start begins a call. With a lock the script does nothing unless the lock is held. Without one it
// does not ask, as Ruby's remove_delayed.
func (u *undelaying) start(lock *resque.MasterLock) {
	u.Key(u.store.KeyOfSeconds())
	u.Key(u.store.KeyOfHints())
	u.Key(u.store.KeyOfQueues())
	if lock != nil {
		u.Key(lock.Key())
		u.Arg(lock.Holder)
	} else {
		u.Key(u.store.KeyOfSeconds()) // any key; the script does not read it
		u.Arg("")
	}
	u.Arg(len(u.store.KeyOfJobSeconds("")), resque.HintItemBytes, resque.HintListItems)
	u.numbers = map[string]int{u.store.KeyOfQueues(): 3}
}

func (u *undelaying) keyOf(name string) int {
	if u.numbers[name] == 0 {
		u.numbers[name] = u.Key(name)
	}
	return u.numbers[name]
}

// add names a job and, if it was found by a hint, that hint. Exactly one of the
// methods below must follow.
func (u *undelaying) add(second, item, hint string) {
	u.Arg(u.keyOf(u.store.KeyOfSecond(second)), second, u.keyOf(u.store.KeyOfJobSeconds(item)), hint)
}

func (u *undelaying) nowhere() { u.Arg(0, "", "", "") }

func (u *undelaying) toQueue(queue string, payload []byte, head bool) {
	u.Arg(end(u.keyOf(u.store.KeyOfQueue(queue)), head), queue, payload, u.keyOf(u.store.KeyOfNames(queue)))
}

// end is the number of a list's key, negative for its head.
func end(key int, head bool) int {
	if head {
		return -key
	}
	return key
}

func (u *undelaying) toTime(at resque.Stamp) {
	u.Arg(u.keyOf(u.store.KeyOfSecond(at.Second())), "", at.Second(), at.Hint())
}

// do changes the jobs. Without the lock it finds -1.
func (u *undelaying) do(c redis.Conn) (changed, error) {
	if u.Values() == 4 {
		return changed{}, nil
	}
	return changedAnswer(u.Call.Do(c, undelayScript))
}

// unscheduling collects jobs to remove from our own schedule in one step.
type unscheduling struct {
	Store
	resque.Call
}

func (u *unscheduling) start() {
	u.Key(u.store.KeyOfSchedule())
	u.Key(u.store.KeyOfQueues())
	u.Key(u.store.KeyOfFailureLists())
}

func (u *unscheduling) nowhere(d Job) {
	if lock, id := d.lock(); lock != "" {
		u.Arg(d.Raw, 0, u.Key(u.store.KeyOfLock(lock)), id, "")
		return
	}
	u.Arg(d.Raw, 0, 0, "", "")
}

// lock returns the lock that a unique job has, and its id.
func (d Job) lock() (lock, id string) {
	p, err := payload.Parse(d.Payload)
	if err == nil {
		_, lock, _ = resque.ParseLock(p.Unique)
	}
	return lock, p.ID
}

func (u *unscheduling) toQueue(member []byte, queue string, payload []byte, head bool) {
	u.Arg(member, end(u.Key(u.store.KeyOfQueue(queue)), head), u.names(queue), queue, payload)
}

// toQueueAs is toQueue for a job that may have other bytes there, by which its lock knows it.
func (u *unscheduling) toQueueAs(d Job, to To) {
	as := d.Payload
	if to.As != nil {
		as = to.As
	}
	lock := ""
	if !bytes.Equal(as, d.Payload) {
		lock, _ = d.lock()
	}
	if lock == "" {
		u.toQueue(d.Raw, d.Queue, as, to.Head)
		return
	}
	u.Arg(d.Raw, end(u.Key(u.store.KeyOfQueue(d.Queue)), to.Head), fmt.Sprint(u.names(d.Queue), " ", u.Key(u.store.KeyOfLock(lock))), d.Queue, as)
}

// names is the number of the key of the names to which that of a queue belongs.
func (u *unscheduling) names(queue string) int {
	if key := u.store.KeyOfNames(queue); key != u.store.KeyOfQueues() {
		return u.Key(key)
	}
	return 2
}

func (u *unscheduling) toTime(member []byte, at resque.Stamp, as moved) {
	lock := 0
	if as.lock != "" {
		lock = u.Key(u.store.KeyOfLock(as.lock))
	}
	u.Arg(member, 0, lock, as.member, at.MS)
}

func (u *unscheduling) toFailures(member []byte, queue string, record []byte, multi bool) {
	list, name := u.store.FailureListFor(queue, multi)
	u.Arg(member, u.Key(list), 3, name, record)
}

func (u *unscheduling) do(c redis.Conn) (changed, error) {
	if u.Values() == 0 {
		return changed{}, nil
	}
	return changedAnswer(u.Call.Do(c, unscheduleScript))
}

// changed is what a script did: how many of its jobs were there, their numbers from 1, and the keys that
// Redis refused.
type changed struct {
	found  int
	there  []int
	broken []resque.KeyError
}

func changedAnswer(reply any, err error) (out changed, _ error) {
	r, err := redis.Values(reply, err)
	if err == nil && len(r) != 3 {
		err = resque.ErrAnswer
	}
	if err != nil {
		return out, fmt.Errorf("changing delayed jobs: %w", resque.Explain(err))
	}
	out.found, _ = redis.Int(r[0], nil)
	texts, _ := redis.Strings(r[1], nil)
	for i := 0; i+1 < len(texts); i += 2 {
		out.broken = append(out.broken, resque.KeyError{Key: texts[i], Reason: texts[i+1]})
	}
	out.there, _ = redis.Ints(r[2], nil)
	return out, nil
}
