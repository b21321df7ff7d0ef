package resque

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/gomodule/redigo/redis"
)

// This file reads the locks of unique jobs for an operator.

// HeldLock is a lock and the job that holds it.
type HeldLock struct {
	Name string // see LockName
	Holder
	Hold    Hold
	Seen    time.Time     // when a look last saw the job, by Redis's clock
	Where   string        // the ticket@process it was seen under, or ""
	Payload []byte        // of the job; nil where the value has no form we know
	Left    time.Duration // until the lock falls; 0: Redis did not say
	Refused int64         // how many jobs were refused for this holder
}

// ScanLocks reads a page of the locks, in no order, and returns the cursor of the next one. Both cursors are "0" at the
// ends. A lock that is there all the time is not missed, and may be returned twice. It is a walk through the whole keyspace.
func (s Store) ScanLocks(c redis.Conn, cursor string) (locks []HeldLock, next string, err error) {
	names, next, err := s.ScanLockNames(c, cursor)
	if err == nil {
		locks, err = s.ReadLocks(c, names)
	}
	return locks, next, err
}

// ScanLockNames is ScanLocks for the names of the locks alone.
func (s Store) ScanLockNames(c redis.Conn, cursor string) (names []string, next string, err error) {
	r, err := redis.Values(c.Do("SCAN", cursor, "MATCH", EscapeGlob(s.KeyOfLock(""))+"*", "COUNT", 1000))
	if err == nil && len(r) != 2 {
		err = ErrAnswer
	}
	var keys []string
	if err == nil {
		if next, err = redis.String(r[0], nil); err == nil {
			keys, err = redis.Strings(r[1], nil)
		}
	}
	if err != nil {
		return nil, "", fmt.Errorf("looking for locks: %w", Explain(err))
	}
	for _, key := range keys {
		if name := strings.TrimPrefix(key, s.KeyOfLock("")); !strings.HasSuffix(name, refusedEnd) {
			names = append(names, name)
		}
	}
	return names, next, nil
}

// ReadLock returns the lock of a name, and whether a job holds it.
func (s Store) ReadLock(c redis.Conn, name string) (l HeldLock, held bool, err error) {
	locks, err := s.ReadLocks(c, []string{name})
	if err != nil || len(locks) == 0 {
		return l, false, err
	}
	return locks[0], true, nil
}

// ReadLocks reads locks by their names. It leaves out those that nothing holds, and keys that are no locks.
func (s Store) ReadLocks(c redis.Conn, names []string) (locks []HeldLock, err error) {
	if len(names) == 0 {
		return nil, nil
	}
	b := Batch{Conn: c}
	for _, name := range names {
		b.Send("HGETALL", s.KeyOfLock(name))
		b.Send("PTTL", s.KeyOfLock(name))
		b.Send("GET", s.refusals(name))
	}
	replies, err := b.Receive()
	if err != nil {
		return nil, fmt.Errorf("reading locks: %w", err)
	}
	for n, name := range names {
		fields, err := redis.Strings(Answer(replies[3*n]))
		if err != nil || len(fields) < 2 {
			continue
		}
		l := HeldLock{Name: name, Holder: parseHolder(fields[0], fields[1])}
		l.Hold, l.Where = Hold(l.hold), l.where
		if l.member != "" {
			l.Seen, l.Payload = time.UnixMilli(l.seen), []byte(l.member[l.prefix:])
		}
		if ms, err := redis.Int64(Answer(replies[3*n+1])); err == nil && ms > 0 { // a user who may not ask
			l.Left = time.Duration(ms) * time.Millisecond
		}
		if text, err := redis.String(Answer(replies[3*n+2])); err == nil {
			l.Refused = refusedFor(l.ID, text)
		}
		locks = append(locks, l)
	}
	return locks, nil
}

// refusedFor reads how many jobs a lock has refused for a holder.
func refusedFor(id, text string) int64 {
	number, holder, _ := strings.Cut(text, " ")
	n, err := strconv.ParseInt(number, 10, 64)
	if err != nil || holder != id {
		return 0
	}
	return n
}

// SeekHolder looks for the job that holds a lock and returns where it is: one of the constants Holder…. With release the lock of a job
// that is nowhere is released in the same step; without it nothing is written.
func (s Store) SeekHolder(c redis.Conn, l HeldLock, release bool) (where string, err error) {
	where, err = s.seekHolder(c, l.Name, &l.Holder, 0, !release)
	if err != nil {
		return "", fmt.Errorf("looking for job %s, which holds the lock: %w", l.ID, Explain(err))
	}
	return where, nil
}

// ReleaseLock takes a lock from a job, wherever the job is, and reports whether the job had it.
func (s Store) ReleaseLock(c redis.Conn, name, id string) (bool, error) {
	released, err := redis.Bool(c.Do("HDEL", s.KeyOfLock(name), id))
	if err != nil {
		return false, fmt.Errorf("releasing the lock of job %s: %w", id, Explain(err))
	}
	return released, nil
}
