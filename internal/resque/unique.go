package resque

import (
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/gomodule/redigo/redis"
)

var (
	holderScript = script("holder")
	lockScripts  = map[string]*redis.Script{"unique": script("unique"), "replace": script("replace")}
)

// Hold says until when a job holds its lock.
type Hold string

const (
	HoldDone  Hold = "done"  // until it is done, or has failed for good
	HoldStart Hold = "start" // until its handler is about to run
	HoldTime  Hold = "time"  // for a time, whatever becomes of the job
)

// ProvenFor is how long a lock is believed to have its job after that was seen somewhere:
// as long as a dead process is believed to live.
const ProvenFor = 8 * time.Second

// A lock is a hash whose fields are the ids of the jobs that hold it: one, but for a job
// that came back from elsewhere while another held it. So a job gives it up with an HDEL,
// which touches nobody else's and may be repeated. What a field says is
//
//	hold, since, when the job was last seen, where, member
//
// parted by blanks, times in ms. Where is ticket@process it was seen under, = and the list
// beside its queue in which it was put (with %20 for a blank), or nothing. Member is what a
// member of go:schedule is, and with it whatever is needed to look for the job.

func (s Store) lock(name string) string { return s.ns + "go:unique:" + name }
func (s Store) lockRest() string        { return s.ns + "go:unique-rest" }

// LockName names a lock by what is to be unique: a job's class and arguments as
// EncodePayload writes them in the Plain style, or a key of the program's.
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
	Replace bool      // a holder that still waits makes room
}

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

// LockField is the top-level "unique" by which whoever runs a job knows its lock.
func LockField(hold Hold, lock string) string { return string(hold) + ":" + lock }

// ParseLock reads what LockField wrote. Other texts are no lock.
func ParseLock(text string) (hold Hold, lock string) {
	name, lock, _ := strings.Cut(text, ":")
	if hold := Hold(name); (hold == HoldDone || hold == HoldStart) && lock != "" {
		return hold, lock
	}
	return "", ""
}

// Unlock gives up a job's lock, if it has it.
func (s Store) Unlock(c redis.Conn, lock, id string) error {
	_, err := c.Do("HDEL", s.lock(lock), id)
	if err != nil {
		return fmt.Errorf("giving up the lock of job %s: %w", id, explain(err))
	}
	return nil
}

// EnqueueUnique enqueues a job under its lock. Where another job holds that, it returns the
// holder and nothing was done; with Replace and a holder that waits, the holder is gone
// and its id returned.
//
// A holder that was not seen for ProvenFor is looked for first, and if it is nowhere the
// lock is taken from it: it ran elsewhere, or somebody removed it.
func (s Store) EnqueueUnique(c redis.Conn, j UniqueJob) (holder *Holder, replaced string, err error) {
	if j.Queue == "" {
		return nil, "", errNoQueue
	}
	if !j.At.After(time.Now()) {
		j.At = time.Time{}
	}
	for range 10 { // each time somebody else was faster
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
			return nil, "", fmt.Errorf("looking for job %s, which holds the lock: %w", holder.ID, explain(err))
		}
		if stays {
			return holder, "", nil
		}
	}
	return holder, "", nil
}

// takeLock enqueues the job, or returns who holds the lock and what time it is.
func (s Store) takeLock(c redis.Conn, j UniqueJob) (now int64, held []Holder, err error) {
	var a call
	a.key(s.lock(j.Lock))
	a.key(s.queues())
	a.key(s.target(j))
	a.arg(s.lockArgs(j)...)
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

// replaceHolder puts the job in the holder's place, if that still waits.
func (s Store) replaceHolder(c redis.Conn, j UniqueJob, h *Holder) (bool, error) {
	var a call
	a.key(s.lock(j.Lock))
	a.key(s.queues())
	a.key(s.schedule())
	a.key(s.queue(h.Queue))
	a.key(s.target(j))
	a.arg(s.lockArgs(j)...)
	a.arg(h.ID, h.said, len(h.said)-len(h.member), h.prefix)
	reply, err := s.evalPush(c, "replace", &a, j.Queue)
	if _, done := reply.([]any); done {
		return true, err
	}
	if answer, _ := redis.String(reply, nil); answer == "" {
		return false, s.pushError(j, err)
	}
	return false, nil
}

// findHolder reports whether a holder is anywhere, and takes its lock if it is not.
func (s Store) findHolder(c redis.Conn, j UniqueJob, h *Holder) (stays bool, err error) {
	lanes := make(laneNames)
	for range 10 { // each time there are processes or lanes that were not known
		processes, err := redis.Strings(c.Do("ZRANGE", s.processes(), 0, -1))
		if err != nil {
			return false, err
		}
		if resting, err := s.readLanes(c, h.Queue, lanes); resting || err != nil {
			return true, err
		}
		var a call
		a.key(s.lock(j.Lock))
		a.key(s.lockRest())
		a.key(s.processes())
		a.key(s.schedule())
		a.key(s.queue(h.Queue))
		a.key(s.aside(h))
		a.key(s.lanes())
		renew := j.Most // by whoever wants it next, unless that was told of a time only
		if j.Hold == HoldTime {
			renew = 0
		}
		a.arg(h.ID, h.said, len(h.said)-len(h.member), h.prefix, renew.Milliseconds(),
			h.hold+" "+strconv.FormatInt(h.Since.UnixMilli(), 10), h.where)
		a.arg(len(processes))
		for _, p := range processes {
			a.arg(p, a.key(s.inflight(p)))
		}
		a.arg(len(lanes))
		for l := range lanes {
			a.arg(l.member(), a.key(s.turns(l)))
		}
		for l, names := range lanes {
			for own := range names {
				a.arg(l.member(), own, a.key(s.lane(Lane{l.Queue, l.Shared, own})))
			}
		}
		where, err := redis.String(a.do(c, holderScript))
		if err != nil {
			return false, err
		}
		switch where {
		case "nowhere":
			return false, nil
		case "changed":
			if now, err := redis.String(c.Do("HGET", s.lock(j.Lock), h.ID)); err != nil || now != h.said {
				return false, ignoreNil(err)
			}
			continue
		}
		return true, nil
	}
	return true, nil
}

// laneNames are lanes of a queue, by what they share with others.
type laneNames map[Lanes]map[string]bool

// readLanes adds the lanes there are. While all rest it reads none.
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

// target is where a job is put.
func (s Store) target(j UniqueJob) string {
	if j.later() {
		return s.schedule()
	}
	return s.queue(j.Queue)
}

// lockArgs are what unique.lua and replace.lua are told of the job.
func (s Store) lockArgs(j UniqueJob) []any {
	member := recordPrefix(j.Queue) + string(j.Payload)
	most := j.Most
	if !j.later() {
		return []any{j.ID, string(j.Hold), " " + member, most.Milliseconds(), "", j.Queue, j.Payload}
	}
	if j.Hold != HoldTime {
		most += time.Until(j.At)
	}
	return []any{j.ID, string(j.Hold), " " + member, most.Milliseconds(), stampOf(j.At).ms, "", member}
}

func (j UniqueJob) later() bool { return !j.At.IsZero() }

// evalPush runs a script that enqueues, and waits for the replicas as Push does. With a
// *ReplicasError there is a reply too.
func (s Store) evalPush(c redis.Conn, name string, a *call, queue string) (any, error) {
	if s.replicas == 0 {
		return a.do(c, lockScripts[name])
	}
	few := &ReplicasError{To: "queue " + queue, Jobs: 1, Wanted: s.replicas}
	args := append([]any{lockScripts[name].Hash()}, a.args()...)
	reply, err := s.pushReplicated(c, "EVALSHA", args, few)
	if isNoScript(err) {
		args[0] = scriptText(name)
		reply, err = s.pushReplicated(c, "EVAL", args, few)
	}
	return reply, err
}

func (s Store) pushError(j UniqueJob, err error) error {
	if err == nil {
		err = errAnswer
	}
	return fmt.Errorf("pushing a unique job to queue %s: %w", j.Queue, explain(err))
}

// parseHolder reads a field of a lock. One that is not ours is of a job that is nowhere.
func parseHolder(id, said string) Holder {
	h := Holder{ID: id, said: said}
	parts := strings.SplitN(said, " ", 5)
	if len(parts) < 5 {
		return h
	}
	queue, payload, ok := parseRecord([]byte(parts[4]))
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

// Unlocked gives up a job's lock with a commit, if it has it.
func (s Store) Unlocked(lock, id string) Effect { return effect("HDEL", s.lock(lock), id) }

// LockMoved tells a lock with a commit that its job goes on as another payload, in its
// queue or the schedule, or in a list: its key without namespace, or "". now is Redis's.
func (s Store) LockMoved(lock, id string, hold Hold, now time.Time, queue string, payload []byte, list string) Effect {
	ms := strconv.FormatInt(now.UnixMilli(), 10)
	if list != "" {
		list = "=" + url.PathEscape(list)
	}
	return effect("HSET", s.lock(lock), id, string(hold)+" "+ms+" "+ms+" "+list+" "+recordPrefix(queue)+string(payload))
}

// aside is the key of the list beside its queue in which a holder may be, or its queue.
func (s Store) aside(h *Holder) string {
	if escaped, ok := strings.CutPrefix(h.where, "="); ok {
		if name, err := url.PathUnescape(escaped); err == nil {
			return s.ns + name
		}
	}
	return s.queue(h.Queue)
}
