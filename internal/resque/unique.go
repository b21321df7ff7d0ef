package resque

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/goworker/goworker/internal/clock"
)

// Hold says how long a job holds its lock.
type Hold string

const (
	HoldDone  Hold = "done"  // until the job is done, or has failed for good
	HoldStart Hold = "start" // until the job's handler is about to run
	HoldTime  Hold = "time"  // for a time, whatever becomes of the job
)

// ProvenFor is how long a lock counts as held after its job was last seen: as long as a dead
// process counts as living.
const ProvenFor = 8 * time.Second

// KeyOfLock is the lock of a unique job: a hash with one field, the id of the job that holds it.
// The holder releases it with an HDEL, which cannot touch another job's lock and may be repeated.
// The field's value is
//
//	hold, since, when the job was last seen, where, member
//
// separated by blanks, times in ms. Where is the ticket@process it was seen under, or empty.
// Member has the form of a member of go:schedule: it is what a look for the job needs.
func (s Store) KeyOfLock(name string) string { return s.ns + lockSpace + name }
func (s Store) lockRest() string             { return s.ns + "go:unique-rest" }

// refusals is how many jobs a lock has refused for its holder: a string, the number and the holder's id. Its name begins as that of the
// lock, so that producers who may use locks may count.
func (s Store) refusals(name string) string { return s.ns + lockSpace + name + refusedEnd }

const (
	lockSpace  = "go:unique:"
	refusedEnd = ":refused"
)

// LockName names a lock by what is to be unique: a job's class and arguments as
// Encode writes them in the Plain style, or a key of the program's.
func LockName(payload []byte, key string) string {
	if key != "" {
		return Digest([]byte("=" + key)) // no payload begins like this
	}
	return Digest(payload)
}

// Lock is the lock that a job is to have, and what its taking needs to know of the job.
type Lock struct {
	Name    string // see LockName
	ID      string // in the payload's "id"
	Hold    Hold   // in the payload's "unique", unless it is HoldTime; see LockField
	Most    time.Duration
	Queue   string
	At      time.Time // zero: now
	Now     time.Time // before At; zero: this machine's
	Replace bool      // take the lock from a holder that still waits

	refused string // the key of the count of refusals, which begins with that of the lock; "": Named has not made it
}

// Named returns the lock with its name, which LockName would make, and its keys.
func (s Store) Named(l Lock, payload []byte, key string) Lock {
	sum := sha256.Sum256(payload)
	if key != "" {
		sum = sha256.Sum256([]byte("=" + key))
	}
	text := append(append(make([]byte, 0, 128), s.ns...), lockSpace...)
	from := len(text)
	text = hex.AppendEncode(text, sum[:digestBytes])
	to := len(text)
	l.refused = string(append(text, refusedEnd...))
	l.Name = l.refused[from:to]
	return l
}

// LockField is the value of the top-level "unique": hold:lock:ms, or without the last part for the
// usual TTL. From it the process that runs the job knows its lock.
func LockField(hold Hold, lock string, most time.Duration) string {
	return string(AppendLockField(nil, hold, lock, most))
}

// AppendLockField appends what LockField returns. Of a lock that LockName has named it is what JSON has between quotes.
func AppendLockField(dst []byte, hold Hold, lock string, most time.Duration) []byte {
	dst = append(append(append(dst, hold...), ':'), lock...)
	if most > 0 {
		dst = strconv.AppendInt(append(dst, ':'), most.Milliseconds(), 10)
	}
	return dst
}

// ParseLock reads what LockField wrote. most is 0 for the usual TTL. Any other text
// is no lock.
func ParseLock(text string) (hold Hold, lock string, most time.Duration) {
	name, rest, _ := strings.Cut(text, ":")
	lock, last, _ := strings.Cut(rest, ":")
	if hold = Hold(name); hold != HoldDone && hold != HoldStart || lock == "" {
		return "", "", 0
	}
	if last == "" { // an error of strconv costs memory, and most locks say nothing
		return hold, lock, 0
	}
	if ms, err := strconv.ParseInt(last, 10, 64); err == nil && ms > 0 && ms <= math.MaxInt64/int64(time.Millisecond) {
		most = time.Duration(ms) * time.Millisecond
	}
	return hold, lock, most
}

// Release releases a job's lock, if the job has it.
func (s Store) Release(lock, id string) Effect { return s.Released(lock, id)[0] }

// Released is Release as a list of one, which is one piece of memory.
func (s Store) Released(lock, id string) []Effect {
	return oneRow("HDEL", hashKey(s.KeyOfLock(lock)), id)
}

// Unlock is Release before the job's end.
func (s Store) Unlock(c redis.Conn, lock, id string) error {
	_, err := c.Do("HDEL", s.KeyOfLock(lock), id)
	if err != nil {
		return fmt.Errorf("giving up the lock of job %s: %w", id, Explain(err))
	}
	return nil
}

// Unique gives a job a lock with its push. If another job holds the lock, the job is not pushed, and its
// Result is a *Duplicate. With Replace it takes the place of a holder that still waits.
//
// If the holder was not seen for ProvenFor, it is looked for first. If it is nowhere, because it ran
// elsewhere or was removed, it loses the lock.
func (s Store) Unique(l Lock) Guarded {
	if l.Now.IsZero() {
		l.Now = clock.System.Now()
	}
	return Guarded{lock: &claim{store: s, Lock: l}}
}

// claim is a job that wants a lock.
type claim struct {
	store Store
	Lock
	tries     int
	now       int64   // Redis's, in ms, when it named the holder
	holder    *Holder // nil: none was named
	replacing bool    // the next try, or the last one, is to replace the holder
}

// mostTries is how often a job asks for a lock while other processes are faster.
const mostTries = 10

// left is Left of the job.
func (c *claim) left(conn redis.Conn, answer string) (v Verdict, err error) {
	switch {
	case !c.replacing:
		now, holder := parseHeld(answer)
		c.now, c.holder = now, &holder
		if c.tries++; c.Replace && c.tries <= mostTries {
			c.replacing = true
			return Verdict{Again: &Guarded{Effects: c.replaces(), Placed: true}, Replaces: c.holder.ID}, nil
		}
	case answer != "gone":
		c.replacing = false // the lock has changed hands
		return c.again(), nil
	}
	c.replacing = false
	held := Verdict{Why: &Duplicate{ID: c.holder.ID, Queue: c.holder.Queue, Since: c.holder.Since}}
	if c.holder.hold == string(HoldTime) || c.now-c.holder.seen < ProvenFor.Milliseconds() || c.tries > mostTries {
		return held, nil
	}
	stays, err := c.store.findHolder(conn, c.Lock, c.holder)
	switch {
	case err != nil:
		return v, fmt.Errorf("looking for job %s, which holds the lock: %w", c.holder.ID, err)
	case stays:
		return held, nil
	}
	return c.again(), nil
}

// again is to take the lock, which needs no Effects.
func (c *claim) again() Verdict { return Verdict{Again: new(Guarded)} }

func (c *claim) later() bool { return !c.At.IsZero() }

// most is the TTL of the lock.
func (c *claim) most() int64 {
	if c.later() && c.Hold != HoldTime {
		return withWait(c.Most, c.At.Sub(c.Now)).Milliseconds()
	}
	return c.Most.Milliseconds()
}

// take takes the lock, if it is free. The value of a lock is read by its proof.
func (c *claim) take() Effect {
	replace := ""
	if c.Replace {
		replace = "1"
	}
	lock, refused := c.keys()
	return lockVerb.Effect([]Key{anyKey(lock), anyKey(refused)}, c.ID, string(c.Hold), c.most(), replace, ProvenFor.Milliseconds())
}

// keys returns those of the lock and of its count of refusals.
func (c *claim) keys() (lock, refused string) {
	if refused = c.refused; refused == "" {
		refused = c.store.refusals(c.Name)
	}
	return strings.TrimSuffix(refused, refusedEnd), refused
}

// replace puts the job in the holder's place, if the holder still waits.
func (c *claim) replace() Effect {
	s, h := c.store, c.holder
	target, due := s.QueueKey(c.Queue), ""
	if c.later() {
		target, due = s.ScheduleKey(), strconv.FormatInt(StampOf(c.At).MS, 10)
	}
	keys := []Key{anyKey(s.KeyOfLock(c.Name)), s.NamesKey(c.Queue), s.ScheduleKey(), s.QueueKey(h.Queue), target, anyKey(s.refusals(c.Name))}
	return replaceVerb.Effect(keys, c.ID, string(c.Hold), c.most(), due, c.Queue, len(JobPrefix(c.Queue)),
		h.ID, h.said, len(h.said)-len(h.member), h.prefix)
}

// replaces is replace, with what the document of the holder says then. A job of the same id has a new document.
func (c *claim) replaces() []Effect {
	h := c.holder
	if h.ID == c.ID {
		return []Effect{c.replace()}
	}
	return append([]Effect{c.replace()}, c.store.documentGone([]byte(h.member[h.prefix:]))...)
}

// withWait is the TTL of a lock whose job has to wait first.
func withWait(most, wait time.Duration) time.Duration {
	return most + min(max(wait, 0), math.MaxInt64-most)
}

// LockMoved keeps a job's lock, as part of a commit, when the job goes on as another payload: in its
// queue or, until a time, in the schedule. now is Redis's. The lock's TTL becomes most. A lock that
// had expired is taken again, unless another job has it by now.
func (s Store) LockMoved(lock, id string, now, at time.Time, most time.Duration, queue string, payload []byte) Effect {
	ms := strconv.FormatInt(now.UnixMilli(), 10)
	said := string(HoldDone) + " " + ms + " " + ms + "  " + JobPrefix(queue) + string(payload)
	return effect("hold", hashKey(s.KeyOfLock(lock)), id, said, withWait(most, at.Sub(now)).Milliseconds())
}
