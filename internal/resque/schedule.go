package resque

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/gomodule/redigo/redis"
)

// There are two schedules of delayed jobs. A plain job waits as resque-scheduler has
// it: in a list for its second, with a set of these seconds, and for each job the set
// of seconds it is delayed to, by which Ruby's tools find it. If such a job is due
// within a second, a hint in one of our keys says when. A job with more than class and
// arguments waits in our own schedule, because Ruby's scheduler would drop the rest.
// Ruby never touches that schedule.

// Limits of the hints. To find an item in a list Redis compares each element, and a
// hint holds a copy of the item.
const (
	HintItemBytes = 16 << 10
	HintListItems = 1000
)

// A Stamp is a time as the schedules store it. Nothing is ever due before its time.
type Stamp struct{ MS int64 }

// LastSecond is the last of the year 9999. Later times become this one: some programs use
// them for a job that is never due, and their milliseconds may exceed 64 bits.
const LastSecond = 253_402_300_799

// StampOf rounds up to a millisecond.
func StampOf(t time.Time) Stamp {
	return Stamp{min(max(t.Unix(), -LastSecond), LastSecond)*1000 + int64((t.Nanosecond()+999_999)/1_000_000)}
}

// Second is the second whose list holds the job, rounded up: Ruby's scheduler knows
// no smaller unit.
func (s Stamp) Second() string { return strconv.FormatInt((s.MS+999)/1000, 10) }

// Hint is the millisecond, or "" for a whole second.
func (s Stamp) Hint() string {
	if s.MS%1000 == 0 {
		return ""
	}
	return strconv.FormatInt(s.MS, 10)
}

// secondsKey is the set of seconds that have delayed jobs.
func (s Store) secondsKey() Key { return zsetKey(s.KeyOfSeconds()) }

// delayRow returns what stands before and behind the jobs in a row of the verb delay: its second and third
// values are their numbers. The items name their queue.
func (s Store) delayRow(c *rowCall, when Stamp) (head, tail []any) {
	second := when.Second()
	head = []any{"delay", 0, 0, c.typed(s.secondsKey()), c.typed(listKey(s.KeyOfSecond(second))), c.typed(zsetKey(s.KeyOfHints()))}
	return head, []any{second, "delayed:" + second, len(s.KeyOfJobSeconds("")), when.Hint(), HintItemBytes, HintListItems}
}

// Due is Redis's time, and how long until the first job of each schedule is due;
// Never if it has none.
type Due struct {
	Now   time.Time
	Own   time.Duration // our own schedule
	Plain time.Duration // resque-scheduler's
	Hints time.Duration // those of its jobs that are due within a second

	Workflows time.Duration // until the sweep is to look at the first workflow
	Groups    time.Duration // until a job is to be made of the first group

	// Leases is until the first lease of a job ends that a client holds. Only a renewal says it; else it is Never. Each call
	// of a client changes the leases, and a connection that tracks what it reads would hear of all.
	Leases time.Duration

	// Asked is when the process asked for all this, by its own clock; zero: that is not known.
	Asked time.Time
}

// Never is later than any job is due.
const Never time.Duration = 1<<63 - 1

// Sooner returns when the first job is due.
func (d Due) Sooner() time.Duration { return min(d.Own, d.Plain, d.Hints) }

var dueScript = script("due")

// dueKeys is how many keys a look at what is due reads, and renewKeys how many a renewal does.
const (
	dueKeys   = 5
	renewKeys = dueKeys + 1
)

// workflows is the index of the workflows that the sweep looks at, as package workflows has it.
func (s Store) workflows() string { return s.own("workflows") }

// groups is the index of the groups of jobs, as package groups has it.
func (s Store) groups() string { return s.own("groups") }

func (s Store) dueKeys(a *Call) {
	a.Key(s.KeyOfSchedule())
	a.Key(s.KeyOfSeconds())
	a.Key(s.KeyOfHints())
	a.Key(s.workflows())
	a.Key(s.groups())
}

// RenewalKeys adds the keys whose first scores a renewal returns, and returns how many they are.
func (s Store) RenewalKeys(a *Call) int {
	s.dueKeys(a)
	a.Key(s.KeyOfLeases())
	return renewKeys
}

// RenewalDue reads the answer of a renewal from Redis's time on: seconds, microseconds, the answers of the cargo, which hears
// them, and these scores. It returns what is behind them. Answers that the cargo cannot read are no error of the renewal.
func RenewalDue(r []any, cargo *Cargo) (due Due, rest []any, err error) {
	if len(r) < 3+renewKeys {
		return Due{}, nil, ErrAnswer
	}
	scores, err := redis.Strings(slices.Concat(r[:2], r[3:3+renewKeys]), nil)
	if err != nil {
		return Due{}, nil, err
	}
	cargo.hear(r[2])
	return parseDue(scores), r[3+renewKeys:], nil
}

// Due reads when the first jobs are due. With arm, on a connection that tracks keys,
// Redis notifies us when that may have changed.
func (s Store) Due(c redis.Conn, arm bool) (Due, error) {
	b := Batch{Conn: c}
	if arm {
		b.Send("CLIENT", "CACHING", "YES")
	}
	var a Call
	s.dueKeys(&a)
	b.Eval(dueScript, a)
	replies, err := b.Receive()
	if err != nil {
		return Due{}, err
	}
	var r []string
	for _, reply := range replies { // the last one counts
		if reply, err = Answer(reply); err == nil {
			r, _ = redis.Strings(reply, nil)
		}
	}
	if err == nil && len(r) != 2+dueKeys {
		err = ErrAnswer
	}
	if err != nil {
		return Due{}, fmt.Errorf("asking when delayed jobs are due: %w", Explain(err))
	}
	return parseDue(r), nil
}

// parseDue reads the time and the first scores of the schedules, and behind them that of the leases, if it is there.
func parseDue(r []string) Due {
	sec, _ := strconv.ParseInt(r[0], 10, 64)
	micro, _ := strconv.ParseInt(r[1], 10, 64)
	now := time.Unix(sec, micro*1000)
	until := func(score string, unit float64) time.Duration {
		at, err := strconv.ParseFloat(score, 64)
		// Whole milliseconds, rounded up, so that a pump that wakes then finds the job due.
		wait := math.Ceil(at*unit - float64(now.UnixMicro())/1000)
		if err != nil || math.IsNaN(wait) || wait > float64(Never/time.Millisecond) {
			return Never
		}
		return time.Duration(max(wait, -1e12)) * time.Millisecond
	}
	due := Due{Now: now, Own: until(r[2], 1), Plain: until(r[3], 1000), Hints: until(r[4], 1), Workflows: until(r[5], 1), Groups: until(r[6], 1), Leases: Never}
	if len(r) > 2+dueKeys {
		due.Leases = until(r[2+dueKeys], 1)
	}
	return due
}
