package resque

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/goworker/goworker/internal/clock"
)

var lockScripts = map[string]*redis.Script{"unique": script("unique"), "replace": script("replace")}

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
func (s Store) KeyOfLock(name string) string { return s.ns + "go:unique:" + name }
func (s Store) lockRest() string             { return s.ns + "go:unique-rest" }

// LockName names a lock by what is to be unique: a job's class and arguments as
// Encode writes them in the Plain style, or a key of the program's.
func LockName(payload []byte, key string) string {
	if key != "" {
		return Digest([]byte("=" + key)) // no payload begins like this
	}
	return Digest(payload)
}

// UniqueJob is a job that is to have a lock.
type UniqueJob struct {
	Lock    string // see LockName
	ID      string // in the payload's "id"
	Hold    Hold   // in the payload's "unique", unless it is HoldTime; see LockField
	Most    time.Duration
	Queue   string
	Payload []byte
	At      time.Time // not after now: now
	Replace bool      // take the lock from a holder that still waits
}

// LockField is the value of the top-level "unique": hold:lock:ms, or without the last part for the
// usual TTL. From it the process that runs the job knows its lock.
func LockField(hold Hold, lock string, most time.Duration) string {
	field := string(hold) + ":" + lock
	if most > 0 {
		field += ":" + strconv.FormatInt(most.Milliseconds(), 10)
	}
	return field
}

// ParseLock reads what LockField wrote. most is 0 for the usual TTL. Any other text
// is no lock.
func ParseLock(text string) (hold Hold, lock string, most time.Duration) {
	name, rest, _ := strings.Cut(text, ":")
	lock, last, _ := strings.Cut(rest, ":")
	if hold = Hold(name); hold != HoldDone && hold != HoldStart || lock == "" {
		return "", "", 0
	}
	if ms, err := strconv.ParseInt(last, 10, 64); err == nil && ms > 0 && ms <= math.MaxInt64/int64(time.Millisecond) {
		most = time.Duration(ms) * time.Millisecond
	}
	return hold, lock, most
}

// Release releases a job's lock, if the job has it.
func (s Store) Release(lock, id string) Effect { return effect("HDEL", hashKey(s.KeyOfLock(lock)), id) }

// Unlock is Release before the job's end.
func (s Store) Unlock(c redis.Conn, lock, id string) error {
	_, err := c.Do("HDEL", s.KeyOfLock(lock), id)
	if err != nil {
		return fmt.Errorf("giving up the lock of job %s: %w", id, Explain(err))
	}
	return nil
}

// EnqueueUnique enqueues a job under its lock. If another job holds the lock, it returns the
// holder and does nothing. With Replace it removes a holder that still waits and returns the
// holder's id.
//
// If the holder was not seen for ProvenFor, EnqueueUnique looks for it first. If the holder is
// nowhere, because it ran elsewhere or was removed, it loses the lock.
func (s Store) EnqueueUnique(c redis.Conn, j UniqueJob) (holder *Holder, replaced string, err error) {
	if j.Queue == "" {
		return nil, "", errNoQueue
	}
	if !j.At.After(clock.System.Now()) {
		j.At = time.Time{}
	}
	for range 10 { // each time another process was faster
		now, held, err := s.takeLock(c, j)
		if err != nil || len(held) == 0 {
			return nil, "", err
		}
		holder = &held[0]
		if j.Replace {
			done, err := s.replaceHolder(c, j, holder)
			if done {
				return nil, holder.ID, err
			}
			if err != nil {
				return nil, "", err
			}
		}
		if holder.hold == string(HoldTime) || now-holder.seen < ProvenFor.Milliseconds() {
			return holder, "", nil
		}
		stays, err := s.findHolder(c, j, holder)
		if err != nil {
			return nil, "", fmt.Errorf("looking for job %s, which holds the lock: %w", holder.ID, Explain(err))
		}
		if stays {
			return holder, "", nil
		}
	}
	return holder, "", nil
}

// takeLock enqueues the job, or returns the holder of the lock and Redis's time.
func (s Store) takeLock(c redis.Conn, j UniqueJob) (now int64, held []Holder, err error) {
	var a Call
	a.Key(s.KeyOfLock(j.Lock))
	a.Key(s.KeyOfQueues())
	a.Key(s.target(j))
	a.Arg(s.lockArgs(j)...)
	reply, err := s.evalPush(c, "unique", &a, j.Queue)
	answer, _ := redis.Strings(reply, nil)
	if len(answer) == 0 {
		return 0, nil, s.pushError(j, err)
	}
	now, _ = strconv.ParseInt(answer[0], 10, 64)
	for i := 1; i+1 < len(answer); i += 2 {
		held = append(held, parseHolder(answer[i], answer[i+1]))
	}
	if len(held) > 0 {
		err = nil // about replicas, which have nothing to wait for
	}
	return now, held, err
}

// replaceHolder puts the job in the holder's place, if the holder still waits.
func (s Store) replaceHolder(c redis.Conn, j UniqueJob, h *Holder) (bool, error) {
	var a Call
	a.Key(s.KeyOfLock(j.Lock))
	a.Key(s.KeyOfQueues())
	a.Key(s.KeyOfSchedule())
	a.Key(s.KeyOfQueue(h.Queue))
	a.Key(s.target(j))
	a.Arg(s.lockArgs(j)...)
	a.Arg(h.ID, h.said, len(h.said)-len(h.member), h.prefix)
	reply, err := s.evalPush(c, "replace", &a, j.Queue)
	if _, done := reply.([]any); done {
		return true, err
	}
	if answer, _ := redis.String(reply, nil); answer == "" {
		return false, s.pushError(j, err)
	}
	return false, nil
}

// target is the key the job is put into.
func (s Store) target(j UniqueJob) string {
	if j.later() {
		return s.KeyOfSchedule()
	}
	return s.KeyOfQueue(j.Queue)
}

// lockArgs are the arguments of unique.lua and replace.lua about the job.
func (s Store) lockArgs(j UniqueJob) []any {
	member := JobPrefix(j.Queue) + string(j.Payload)
	most := j.Most
	if !j.later() {
		return []any{j.ID, string(j.Hold), " " + member, most.Milliseconds(), "", j.Queue, j.Payload}
	}
	if j.Hold != HoldTime {
		most = withWait(most, clock.Until(clock.System, j.At))
	}
	return []any{j.ID, string(j.Hold), " " + member, most.Milliseconds(), StampOf(j.At).MS, "", member}
}

func (j UniqueJob) later() bool { return !j.At.IsZero() }

// withWait is the TTL of a lock whose job has to wait first.
func withWait(most, wait time.Duration) time.Duration {
	return most + min(max(wait, 0), math.MaxInt64-most)
}

// evalPush runs a script that enqueues, and waits for the replicas as Push does. With a
// *ReplicasError there is a reply too.
func (s Store) evalPush(c redis.Conn, name string, a *Call, queue string) (any, error) {
	if s.replicas == 0 {
		return a.Do(c, lockScripts[name])
	}
	few := &ReplicasError{To: "queue " + queue, Jobs: 1, Wanted: s.replicas}
	args := append([]any{lockScripts[name].Hash()}, a.Args()...)
	reply, err := s.pushReplicated(c, "EVALSHA", args, few)
	if isNoScript(err) {
		args[0] = scriptText(name)
		reply, err = s.pushReplicated(c, "EVAL", args, few)
	}
	return reply, err
}

func (s Store) pushError(j UniqueJob, err error) error {
	if err == nil {
		err = ErrAnswer
	}
	return fmt.Errorf("pushing a unique job to queue %s: %w", j.Queue, Explain(err))
}

// LockMoved keeps a job's lock, as part of a commit, when the job goes on as another payload: in its
// queue or, until a time, in the schedule. now is Redis's. The lock's TTL becomes most. A lock that
// had expired is taken again, unless another job has it by now.
func (s Store) LockMoved(lock, id string, now, at time.Time, most time.Duration, queue string, payload []byte) Effect {
	ms := strconv.FormatInt(now.UnixMilli(), 10)
	said := string(HoldDone) + " " + ms + " " + ms + "  " + JobPrefix(queue) + string(payload)
	return effect("hold", hashKey(s.KeyOfLock(lock)), id, said, withWait(most, at.Sub(now)).Milliseconds())
}
