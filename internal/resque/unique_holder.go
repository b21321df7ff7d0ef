package resque

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/gomodule/redigo/redis"
)

// This file finds out whether the holder of a lock still exists.

var holderScript = script("holder")

// Holder is the job that has a lock.
type Holder struct {
	ID    string
	Queue string
	Since time.Time // by Redis's clock

	said   string // the field
	hold   string
	seen   int64 // ms
	where  string
	member string
	prefix int // of member before the payload
}

// Duplicate says that a job was not pushed because another holds its lock.
type Duplicate struct {
	ID    string // the holder's
	Queue string
	Since time.Time // by Redis's clock
}

func (d *Duplicate) Error() string {
	return fmt.Sprintf("job %s in queue %s has had its lock since %s", d.ID, d.Queue, d.Since.UTC().Format(time.RFC3339))
}

// parseHeld reads what the proof of the verb lock says: Redis's time in ms and the holder.
func parseHeld(text string) (now int64, h Holder) {
	time, rest, _ := strings.Cut(text, " ")
	digits, rest, _ := strings.Cut(rest, " ")
	now, _ = strconv.ParseInt(time, 10, 64)
	n, _ := strconv.Atoi(digits)
	n = min(max(n, 0), len(rest))
	return now, parseHolder(rest[:n], rest[n:])
}

// parseHolder reads a field of a lock. Text that we did not write means a job that is nowhere.
func parseHolder(id, said string) Holder {
	h := Holder{ID: id, said: said}
	parts := strings.SplitN(said, " ", 5)
	if len(parts) < 5 {
		return h
	}
	queue, payload, ok := CutPrefix([]byte(parts[4]))
	if !ok {
		return h
	}
	since, _ := strconv.ParseInt(parts[1], 10, 64)
	h.Queue, h.Since = queue, time.UnixMilli(since)
	h.hold, h.where, h.member = parts[0], parts[3], parts[4]
	h.seen, _ = strconv.ParseInt(parts[2], 10, 64)
	h.prefix = len(h.member) - len(payload)
	return h
}

// Where the job that has a lock was found.
const (
	HolderNowhere = "nowhere"
	HolderChanged = "changed" // another job has the lock by now, or none
	HolderResting = "resting" // it was not looked for: a look of late took Redis long
	HolderMoving  = "moving"  // processes and lanes came and went all the while

	HolderDelayed = "schedule"
	HolderClient  = "client" // which holds it over HTTP
	HolderProcess = "process"
	HolderQueued  = "queue"
	HolderInLane  = "lane"
)

// findHolder reports whether a holder is anywhere, and takes its lock if it is not.
func (s Store) findHolder(c redis.Conn, j Lock, h *Holder) (stays bool, err error) {
	renew := j.Most // the TTL of the job that wants the lock, unless that lock is HoldTime
	if j.Hold == HoldTime {
		renew = 0
	}
	where, err := s.seekHolder(c, j.Name, h, renew, false)
	return err == nil && where != HolderNowhere && where != HolderChanged, err
}

// seekHolder looks for a holder. If it is nowhere, it loses its lock, unless this is a look only. Else a look notes
// where it was seen, and with renew the lock has that TTL once the job is due.
func (s Store) seekHolder(c redis.Conn, lock string, h *Holder, renew time.Duration, look bool) (where string, err error) {
	value := h.hold + " " + strconv.FormatInt(h.Since.UnixMilli(), 10)
	if look {
		value = ""
	}
	lanes := make(laneNames)
	for range 10 { // again if there are processes or lanes we did not know
		processes, err := redis.Strings(c.Do("ZRANGE", s.processes(), 0, -1))
		if err != nil {
			return "", err
		}
		if resting, err := s.readLanes(c, h.Queue, lanes); resting || err != nil {
			return HolderResting, err
		}
		var a Call
		a.Key(s.KeyOfLock(lock))
		a.Key(s.lockRest())
		a.Key(s.processes())
		a.Key(s.KeyOfSchedule())
		a.Key(s.KeyOfQueue(h.Queue))
		a.Key(s.lanes())
		a.Key(s.KeyOfLeased())
		a.Arg(h.ID, h.said, len(h.said)-len(h.member), h.prefix, renew.Milliseconds(), value, h.where)
		a.Arg(len(processes))
		for _, p := range processes {
			a.Arg(p, a.Key(s.inflight(p)))
		}
		a.Arg(len(lanes))
		for l := range lanes {
			a.Arg(l.member(), a.Key(s.turns(l)))
		}
		for l, names := range lanes {
			for own := range names {
				a.Arg(l.member(), own, a.Key(s.lane(Lane{l.Queue, l.Shared, own})))
			}
		}
		where, err := redis.String(a.Do(c, holderScript))
		if err != nil || where != HolderChanged {
			return where, err
		}
		if now, err := redis.String(c.Do("HGET", s.KeyOfLock(lock), h.ID)); err != nil || now != h.said {
			return HolderChanged, ignoreNil(err)
		}
	}
	return HolderMoving, nil
}

// laneNames are lanes of a queue, by the limits they share.
type laneNames map[Lanes]map[string]bool

// readLanes adds the lanes of the queue. During a rest it reads none.
func (s Store) readLanes(c redis.Conn, queue string, known laneNames) (resting bool, err error) {
	sets, err := s.lanesOf(c, queue)
	if err != nil || len(sets) == 0 {
		return false, err
	}
	if resting, err = redis.Bool(c.Do("EXISTS", s.lockRest())); resting || err != nil {
		return resting, err
	}
	for _, l := range sets {
		names, err := redis.Strings(c.Do("ZRANGE", s.turns(l), 0, -1))
		if err != nil {
			return false, err
		}
		if known[l] == nil {
			known[l] = make(map[string]bool, len(names))
		}
		for _, own := range names {
			known[l][own] = true
		}
	}
	return false, nil
}

func ignoreNil(err error) error {
	if errors.Is(err, redis.ErrNil) {
		return nil
	}
	return err
}
