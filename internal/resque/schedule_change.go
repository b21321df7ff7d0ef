package resque

import (
	"fmt"

	"github.com/gomodule/redigo/redis"
)

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

func (u *unscheduling) toTime(member []byte, at stamp) { u.arg(member, 0, 0, "", at.ms) }

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
