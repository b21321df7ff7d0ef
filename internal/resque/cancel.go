package resque

import (
	"fmt"
	"strconv"
	"time"

	"github.com/gomodule/redigo/redis"
)

var (
	cancelScript = script("cancel")
	liftScript   = script("lift")
)

// CancelKept is how long a cancel waits for its job to end, from when the job is due.
const CancelKept = 7 * 24 * time.Hour

// KeyOfCancelled is the set of the jobs that no process is to run any longer. The score of an entry is until
// when it is kept, in ms of Redis's clock.
func (s Store) KeyOfCancelled() string { return s.ns + "go:cancelled" }

// CancelledKey is KeyOfCancelled, for Bulk.Lift.
func (s Store) CancelledKey() Key { return zsetKey(s.KeyOfCancelled()) }

// CancelledID is the entry of a job with an id.
func CancelledID(id string) string { return "j:" + id }

// CancelledPlace is the entry of a job by its queue and its id, which only that queue knows.
func CancelledPlace(queue, id string) string { return "p:" + PlaceOf(queue, id) }

// CancelledBoth are CancelledID and CancelledPlace, in one piece of memory.
func CancelledBoth(queue, id string) (byID, byPlace string) {
	both := "j:" + id + "p:" + JobPrefix(queue) + id
	return both[:2+len(id)], both[2+len(id):]
}

// CancelledTicket is the entry of a job by the process and the ticket under which that has it.
func CancelledTicket(process string, ticket int64) string {
	return fmt.Sprintf("t:%s:%d", process, ticket)
}

// Cancelled says what a cancel found.
type Cancelled struct {
	State string // in the document of the job, before; "": it has none
	Over  bool   // the job has ended, and nothing was written
	Known bool   // it was cancelled before
}

// Cancel cancels the job with an id, unless its document says that it has ended. It does not look whether
// there is such a job.
func (s Store) Cancel(c redis.Conn, id string) (found Cancelled, err error) {
	a := s.CancelCall(id)
	what, state, err := s.cancelled(c, a)
	return Cancelled{State: state, Over: what == "over", Known: what == "known"}, err
}

// CancelCall is the call of cancel.lua, or of the same in a step of an operation, for a job by its id.
func (s Store) CancelCall(id string) (a Call) {
	a.Key(s.KeyOfCancelled())
	s.documentKeys(&a, id)
	a.Arg("id", CancelledID(id), CancelKept.Milliseconds())
	return a
}

// CancelPlace is Cancel of the job with an id in a queue. Its document is named by both.
func (s Store) CancelPlace(c redis.Conn, queue, id string) (found Cancelled, err error) {
	var a Call
	a.Key(s.KeyOfCancelled())
	s.documentKeys(&a, PlaceOf(queue, id))
	a.Arg("id", CancelledPlace(queue, id), CancelKept.Milliseconds())
	what, state, err := s.cancelled(c, a)
	return Cancelled{State: state, Over: what == "over", Known: what == "known"}, err
}

// KeepCancelled keeps the cancel of a job for longer if the job is due later. One that was taken back, or whose job
// has ended, stays so.
func (s Store) KeepCancelled(c redis.Conn, id string, due time.Time) error {
	a := s.KeepCall(id, due)
	_, _, err := s.cancelled(c, a)
	return err
}

// KeepCall is the call of cancel.lua, or of the same in a step of an operation, that keeps a cancel for longer.
func (s Store) KeepCall(id string, due time.Time) (a Call) {
	a.Key(s.KeyOfCancelled())
	a.Arg("keep", CancelledID(id), CancelKept.Milliseconds(), due.UnixMilli())
	return a
}

// CancelTicket cancels the job that a process has under a ticket, and reports whether it has it.
func (s Store) CancelTicket(c redis.Conn, process string, ticket int64) (there bool, err error) {
	a := s.TicketCall(process, ticket)
	what, _, err := s.cancelled(c, a)
	return what != "none", err
}

// TicketCall is the call of cancel.lua, or of the same in a step of an operation, for a job that a process has under a ticket.
func (s Store) TicketCall(process string, ticket int64) (a Call) {
	a.Key(s.KeyOfCancelled())
	a.Key(s.inflight(process))
	a.Arg("ticket", CancelledTicket(process, ticket), CancelKept.Milliseconds(), ticket)
	return a
}

func (s Store) cancelled(c redis.Conn, a Call) (what, state string, err error) {
	answer, err := redis.Strings(a.Do(c, cancelScript))
	if err == nil && len(answer) != 2 {
		err = ErrAnswer
	}
	if err != nil {
		return "", "", s.nameCancelled(c, err)
	}
	return answer[0], answer[1], nil
}

// nameCancelled explains an error, and names the key if that is the set.
func (s Store) nameCancelled(c redis.Conn, err error) error {
	if IsWrongType(err) {
		if _, set := c.Do("ZCARD", s.KeyOfCancelled()); IsWrongType(set) {
			return &KeyTypeError{Key: s.KeyOfCancelled(), Want: "sorted set", Err: err}
		}
	}
	return Explain(err)
}

// documentKeys adds the keys of what becomes of a job.
func (s Store) documentKeys(a *Call, id string) {
	a.Key(s.KeyOfResult(id))
	a.Key(s.KeyOfProgress(id))
	a.Key(s.KeyOfJobLogs(id))
}

// LiftCall is the call of lift.lua, or of the same in a step of an operation.
func (s Store) LiftCall(id string) (a Call) {
	a.Key(s.KeyOfCancelled())
	s.documentKeys(&a, id)
	a.Arg(CancelledID(id), CancelKept.Milliseconds())
	return a
}

// LiftCancel takes the cancel of a job back, and reports whether there was one.
func (s Store) LiftCancel(c redis.Conn, id string) (lifted bool, err error) {
	a := s.LiftCall(id)
	if lifted, err = redis.Bool(a.Do(c, liftScript)); err != nil {
		err = s.nameCancelled(c, err)
	}
	return lifted, err
}

// ForgetCancel removes the entry of a job without a document, and reports whether it was there. A job
// that ends takes its entry along.
func (s Store) ForgetCancel(c redis.Conn, id string) (there bool, err error) {
	if there, err = redis.Bool(c.Do("ZREM", s.KeyOfCancelled(), CancelledID(id))); err != nil {
		err = s.nameCancelled(c, err)
	}
	return there, err
}

// ReadCancelled returns the entries that are kept for longest: at most so many. more says that there are
// others.
func (s Store) ReadCancelled(c redis.Conn, most int) (entries []string, more bool, err error) {
	entries, err = redis.Strings(c.Do("ZRANGE", s.KeyOfCancelled(), -most-1, -1))
	if err != nil {
		if IsWrongType(err) {
			err = &KeyTypeError{Key: s.KeyOfCancelled(), Want: "sorted set", Err: err}
		}
		return nil, false, fmt.Errorf("reading which jobs were cancelled: %w", Explain(err))
	}
	if more = len(entries) > most; more {
		entries = entries[1:]
	}
	return entries, more, nil
}

// CancelledEntry is an entry of the jobs that were cancelled: that of CancelledID, CancelledPlace or CancelledTicket.
type CancelledEntry struct {
	Entry string
	Until time.Time // by Redis's clock
}

// ListCancelled returns the entries that are kept for longest, these first: at most so many. more says that there are others.
func (s Store) ListCancelled(c redis.Conn, most int) (entries []CancelledEntry, more bool, err error) {
	texts, err := redis.Strings(c.Do("ZRANGE", s.KeyOfCancelled(), 0, most, "REV", "WITHSCORES"))
	if err != nil {
		return nil, false, fmt.Errorf("reading which jobs were cancelled: %w", s.nameCancelled(c, err))
	}
	for n := 0; n+1 < len(texts) && len(entries) < most; n += 2 {
		score, _ := strconv.ParseFloat(texts[n+1], 64)
		entries = append(entries, CancelledEntry{texts[n], time.UnixMilli(int64(score))})
	}
	return entries, len(texts) > 2*most, nil
}

// AreCancelled returns those of some entries that are there.
func (s Store) AreCancelled(c redis.Conn, entries []string) (there []string, err error) {
	b := Batch{Conn: c}
	for _, e := range entries {
		b.Send("ZSCORE", s.KeyOfCancelled(), e)
	}
	scores, err := b.Receive()
	for i := 0; err == nil && i < len(scores); i++ {
		var score any
		if score, err = Answer(scores[i]); err == nil && score != nil {
			there = append(there, entries[i])
		}
	}
	if err != nil {
		return nil, fmt.Errorf("asking which jobs were cancelled: %w", Explain(err))
	}
	return there, nil
}

// Uncancelled removes entries. It is soft: one that stays is of a job that has ended.
func (s Store) Uncancelled(entries ...string) Effect {
	args := make([]any, len(entries))
	for i, e := range entries {
		args[i] = e
	}
	return Command("ZREM", s.CancelledKey(), args...).Soft()
}
