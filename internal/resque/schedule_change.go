package resque

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/goworker/goworker/internal/payload"
)

var clearScript = script("clear")

// changeLooks bounds how many jobs one script looks at in the lists of seconds, to find
// those that it takes out: Redis serves nobody else meanwhile.
const changeLooks = 1_000_000

// RemoveDelayed takes jobs that were listed out of the schedules and returns how many
// were there still.
func (s Store) RemoveDelayed(c redis.Conn, jobs []Delayed) (int, error) {
	return s.changeDelayed(c, jobs, func(plain *undelaying, own *unscheduling, d Delayed) {
		if d.Plain() {
			plain.nowhere()
		} else {
			own.nowhere(d.Raw)
		}
	})
}

// RunDelayed puts jobs that were listed into their queues now and returns how many were
// there still. One that is no job stays.
func (s Store) RunDelayed(c redis.Conn, jobs []Delayed) (int, error) {
	jobs = slices.DeleteFunc(slices.Clone(jobs), func(d Delayed) bool { return d.Err != nil })
	return s.changeDelayed(c, jobs, func(plain *undelaying, own *unscheduling, d Delayed) {
		if d.Plain() {
			plain.toQueue(d.Queue, d.Payload)
		} else {
			own.toQueue(d.Raw, d.Queue, d.Payload)
		}
	})
}

// Redelay delays jobs that were listed to another time and returns how many were there
// still.
func (s Store) Redelay(c redis.Conn, jobs []Delayed, at time.Time) (int, error) {
	when := stampOf(at)
	return s.changeDelayed(c, jobs, func(plain *undelaying, own *unscheduling, d Delayed) {
		if d.Plain() {
			plain.toTime(when)
		} else {
			own.toTime(d.Raw, when, d.movedTo(when))
		}
	})
}

// moved is another member of our schedule as which a job goes on.
type moved struct {
	member string // "": as the same
	lock   string // the lock to be told, "": it has none
}

// movedTo is what becomes of a job that is delayed to another time, or runs now if that is
// past: if it expires, it does so as long after it is due as before.
func (d Delayed) movedTo(at stamp) moved {
	p, err := payload.Parse(d.Payload)
	if err != nil || p.ExpiresAt <= 0 {
		return moved{}
	}
	expires := min(p.ExpiresAt, lastSecond*1000) + max(at.ms, time.Now().UnixMilli()) - d.At.UnixMilli()
	payload, err := payload.SetFields(d.Payload, ExpiresAt(max(expires, 1)))
	if err != nil || expires == p.ExpiresAt {
		return moved{}
	}
	_, lock, _ := ParseLock(p.Unique)
	return moved{recordPrefix(d.Queue) + string(payload), lock}
}

// changeDelayed does something to jobs that were listed, and returns how many were there
// still.
func (s Store) changeDelayed(c redis.Conn, jobs []Delayed, change func(*undelaying, *unscheduling, Delayed)) (int, error) {
	total := 0
	for len(jobs) > 0 {
		n, err := s.changeable(c, jobs[:min(len(jobs), delayedPage)])
		if err != nil {
			return total, err
		}
		plain, own := undelaying{Store: s}, unscheduling{Store: s}
		plain.start(nil)
		own.start()
		for _, d := range jobs[:n] {
			if d.Plain() {
				plain.add(d.second, string(d.Raw), "")
			}
			change(&plain, &own, d)
		}
		for _, do := range []func(redis.Conn) (int, []KeyError, error){plain.do, own.do} {
			found, broken, err := do(c)
			total += found
			for _, b := range broken {
				err = errors.Join(err, explain(redis.Error(b.Reason)))
			}
			if err != nil {
				return total, err
			}
		}
		jobs = jobs[n:]
	}
	return total, nil
}

// changeable returns how many of the jobs one script may change, by the lengths of the
// lists they lie in.
func (s Store) changeable(c redis.Conn, jobs []Delayed) (int, error) {
	sizes, lists := batch{c: c}, make(map[string]int)
	for _, d := range jobs {
		if _, asked := lists[d.second]; d.Plain() && !asked {
			lists[d.second] = len(lists)
			sizes.send("LLEN", s.bucket(d.second))
		}
	}
	if len(lists) == 0 {
		return len(jobs), nil
	}
	replies, err := sizes.receive()
	if err != nil {
		return 0, err
	}
	looks := 0
	for n, d := range jobs {
		if d.Plain() {
			size, _ := redis.Int(answer(replies[lists[d.second]])) // of another type: the script sees to it
			if looks += size; looks > changeLooks && n > 0 {
				return n, nil
			}
		}
	}
	return len(jobs), nil
}

// ClearDelayed removes all delayed jobs of both schedules.
func (s Store) ClearDelayed(c redis.Conn) error {
	if _, err := c.Do("DEL", s.schedule(), s.precise()); err != nil {
		return fmt.Errorf("removing all delayed jobs: %w", explain(err))
	}
	for {
		seconds, err := redis.Strings(c.Do("ZRANGE", s.delayed(), 0, delayedPage-1))
		for _, second := range seconds {
			if err == nil {
				err = s.clearSecond(c, second)
			}
		}
		if err != nil {
			return fmt.Errorf("removing all delayed jobs: %w", explain(err))
		}
		if len(seconds) < delayedPage {
			return nil
		}
	}
}

// clearSecond removes as many jobs of a second as there were when it began.
func (s Store) clearSecond(c redis.Conn, second string) error {
	left, err := redis.Int(c.Do("LLEN", s.bucket(second)))
	if err != nil {
		return err
	}
	for {
		items, err := redis.Strings(c.Do("LRANGE", s.bucket(second), 0, delayedPage-1))
		if err != nil {
			return err
		}
		var a call
		a.key(s.delayed())
		a.key(s.bucket(second))
		for _, item := range items {
			a.key(s.timestamps(item))
		}
		a.arg(second, len(s.timestamps("")))
		removed, err := redis.Int(a.do(c, clearScript))
		if left -= removed; err != nil || left <= 0 || len(items) == 0 {
			return err
		}
	}
}

// undelaying collects jobs to be taken out of resque-scheduler's seconds, as one.
type undelaying struct {
	Store
	call
	keys map[string]int
}

// start begins a call. With a lock it does nothing unless that is held; without, as
// Ruby's remove_delayed, it does not ask.
func (u *undelaying) start(lock *MasterLock) {
	u.key(u.delayed())
	u.key(u.precise())
	u.key(u.Store.queues())
	if lock != nil {
		u.key(lock.keys[0])
		u.arg(lock.Holder)
	} else {
		u.key(u.delayed()) // any; it is not looked at
		u.arg("")
	}
	u.arg(len(u.timestamps("")), hintItemBytes, hintListItems)
	u.keys = make(map[string]int)
}

func (u *undelaying) keyOf(name string) int {
	if u.keys[name] == 0 {
		u.keys[name] = u.key(name)
	}
	return u.keys[name]
}

// add names a job and the hint by which it was found, if it was. Exactly one of the
// methods below must follow.
func (u *undelaying) add(second, item, hint string) {
	u.arg(u.keyOf(u.bucket(second)), second, u.keyOf(u.timestamps(item)), hint)
}

func (u *undelaying) nowhere() { u.arg(0, "", "", "") }

func (u *undelaying) toQueue(queue string, payload []byte) {
	u.arg(u.keyOf(u.queue(queue)), queue, payload, "")
}

func (u *undelaying) toTime(at stamp) {
	u.arg(u.keyOf(u.bucket(at.second())), "", at.second(), at.hint())
}

// do returns how many of the jobs were there still, or -1 without the lock.
func (u *undelaying) do(c redis.Conn) (found int, broken []KeyError, err error) {
	if len(u.argv) == 4 {
		return 0, nil, nil
	}
	return foundAnswer(u.call.do(c, undelayScript))
}

// unscheduling collects jobs to be taken out of our own schedule, as one.
type unscheduling struct {
	Store
	call
}

func (u *unscheduling) start() {
	u.key(u.schedule())
	u.key(u.Store.queues())
	u.key(u.failedQueues())
}

func (u *unscheduling) nowhere(member []byte) { u.arg(member, 0, 0, "", "") }

func (u *unscheduling) toQueue(member []byte, queue string, payload []byte) {
	u.arg(member, u.key(u.queue(queue)), 2, queue, payload)
}

func (u *unscheduling) toTime(member []byte, at stamp, as moved) {
	lock := 0
	if as.lock != "" {
		lock = u.key(u.Store.lock(as.lock))
	}
	u.arg(member, 0, lock, as.member, at.ms)
}

func (u *unscheduling) toFailures(member []byte, queue string, record []byte, multi bool) {
	list, name := u.failureList(queue, multi)
	u.arg(member, u.key(list), 3, name, record)
}

func (u *unscheduling) do(c redis.Conn) (found int, broken []KeyError, err error) {
	if len(u.argv) == 0 {
		return 0, nil, nil
	}
	return foundAnswer(u.call.do(c, unscheduleScript))
}

func foundAnswer(reply any, err error) (found int, broken []KeyError, _ error) {
	r, err := redis.Values(reply, err)
	if err == nil && len(r) != 2 {
		err = errAnswer
	}
	if err != nil {
		return 0, nil, fmt.Errorf("changing delayed jobs: %w", explain(err))
	}
	found, _ = redis.Int(r[0], nil)
	texts, _ := redis.Strings(r[1], nil)
	for i := 0; i+1 < len(texts); i += 2 {
		broken = append(broken, KeyError{Key: texts[i], Reason: texts[i+1]})
	}
	return found, broken, nil
}
