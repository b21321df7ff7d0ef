package resque

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/goworker/goworker/internal/payload"
	"github.com/goworker/goworker/internal/queues"
)

var (
	drainListScript     = script("drainlist")
	drainScheduleScript = script("drainschedule")
	drainRemoveScript   = script("drainremove")
	drainOwnScript      = script("drainown")
)

// ErrAlive is returned by the steps of a drain while a process holds a lease: its jobs and lanes
// are in use.
var ErrAlive = errors.New("a process holds a lease")

// Leases returns the leases of all processes in the order in which they run out, and Redis's time.
func (s Store) Leases(c redis.Conn) (leases []Lease, now time.Time, err error) {
	r, err := redis.Strings(c.Do("ZRANGE", s.processes(), 0, -1, "WITHSCORES"))
	if err != nil {
		return nil, now, fmt.Errorf("reading the leases of the fleet: %w", Explain(err))
	}
	for i := 0; i+1 < len(r); i += 2 {
		leases = append(leases, Lease{Process: r[i], Value: r[i+1]})
	}
	now, err = s.Now(c)
	return leases, now, err
}

// Ends returns when the lease runs out, by Redis's clock.
func (l Lease) Ends() time.Time { return time.UnixMilli(l.at()) }

// ReservedJobs returns how many jobs a process's record holds.
func (s Store) ReservedJobs(c redis.Conn, process string) (int, error) {
	fields, err := redis.Strings(c.Do("HKEYS", s.inflight(process)))
	if err != nil {
		return 0, fmt.Errorf("reading the in-flight record of process %s: %w", process, Explain(err))
	}
	return len(parseTickets(fields)), nil
}

// OwnKeys reads one page of the keyspace: our keys, and the cursor of the next page (0: it was
// the last one).
func (s Store) OwnKeys(c redis.Conn, cursor uint64) (keys []OwnKey, next uint64, err error) {
	r, err := redis.Values(c.Do("SCAN", cursor, "MATCH", EscapeGlob(s.ns)+"go:*", "COUNT", 1000))
	if err == nil && len(r) != 2 {
		err = ErrAnswer
	}
	if err == nil {
		next, err = redis.Uint64(r[0], nil)
	}
	if err != nil {
		return nil, 0, fmt.Errorf("looking for the keys of goworker: %w", Explain(err))
	}
	names, err := redis.Strings(r[1], nil)
	for _, name := range names {
		keys = append(keys, s.ownKey(name))
	}
	return keys, next, err
}

// LaneOf returns the lane whose jobs are under a key.
func (s Store) LaneOf(key string) (Lane, bool) { return s.laneOf(key) }

// Turn returns when a lane's turn comes or came, in µs; 0 if it has none.
func (s Store) Turn(c redis.Conn, l Lane) (float64, error) {
	turn, err := redis.Float64(c.Do("ZSCORE", s.turns(l.Lanes()), l.Own))
	if errors.Is(err, redis.ErrNil) {
		err = nil
	}
	if err != nil {
		err = fmt.Errorf("reading the lanes of queue %s: %w", l.Queue, Explain(err))
	}
	return turn, err
}

// ReadLane returns the last jobs of a lane, the very last one first: at most count, without skip
// of them.
func (s Store) ReadLane(c redis.Conn, l Lane, skip, count int) ([][]byte, error) {
	jobs, err := redis.ByteSlices(c.Do("LRANGE", s.lane(l), -skip-count, -skip-1))
	if err != nil {
		return nil, fmt.Errorf("reading a lane of queue %s: %w", l.Queue, Explain(err))
	}
	slices.Reverse(jobs)
	return jobs, nil
}

// DrainLane moves jobs from the tail of a lane to the head of its queue, in the order in which
// ReadLane returned them, and returns how many still were there.
func (s Store) DrainLane(c redis.Conn, l Lane, jobs [][]byte) (int, error) {
	var a Call
	s.drainList(&a, s.lane(l), l.Queue)
	a.Key(s.lanes())
	a.Key(s.turns(l.Lanes()))
	a.Arg("head", l.Queue, l.Lanes().member(), l.Own)
	n, err := drained(&a, c, drainListScript, jobs)
	if err != nil {
		err = fmt.Errorf("moving jobs from a lane to queue %s: %w", l.Queue, err)
	}
	return n, err
}

// ReadKept returns the first of the payloads that were kept for a queue, without skip of them;
// nil if there are no more.
func (s Store) ReadKept(c redis.Conn, queue string, skip int) ([]byte, error) {
	kept, err := redis.Bytes(c.Do("LINDEX", s.kept(queue), skip))
	if errors.Is(err, redis.ErrNil) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading the payloads that were kept for queue %s: %w", queue, Explain(err))
	}
	return kept, nil
}

// DrainKept moves a payload that was kept to the tail of its queue, if it is still there.
func (s Store) DrainKept(c redis.Conn, queue string, kept []byte) (int, error) {
	var a Call
	s.drainList(&a, s.kept(queue), queue)
	a.Arg("tail", queue, "", "")
	n, err := drained(&a, c, drainListScript, [][]byte{kept})
	if err != nil {
		err = fmt.Errorf("moving a payload that was kept to queue %s: %w", queue, err)
	}
	return n, err
}

func (s Store) drainList(a *Call, list, queue string) {
	a.Key(s.processes())
	a.Key(list)
	a.Key(s.KeyOfNames(queue))
	a.Key(s.KeyOfQueue(queue))
}

// OwnQueueOf returns the queue of goworker's own whose list a key is.
func (s Store) OwnQueueOf(key OwnKey) string { return queues.MessagePack + key.Part }

// OwnJob is a job of one of goworker's own queues.
type OwnJob struct {
	Raw  []byte
	JSON []byte
}

// DrainOwn moves the first jobs of one of goworker's own queues to the tail of the queue of the same name that Ruby reads. It
// returns how many still were there.
func (s Store) DrainOwn(c redis.Conn, queue string, jobs []OwnJob) (int, error) {
	var a Call
	a.Key(s.processes())
	a.Key(s.KeyOfQueue(queue))
	a.Key(s.KeyOfQueues())
	a.Key(s.KeyOfRubys(queue))
	a.Arg(queue)
	for _, j := range jobs {
		a.Arg(j.Raw, j.JSON)
	}
	n, err := drained(&a, c, drainOwnScript, nil)
	if err != nil {
		err = fmt.Errorf("moving the jobs of queue %s to where Ruby reads: %w", queue, err)
	}
	return n, err
}

func drained(a *Call, c redis.Conn, of *Script, jobs [][]byte) (int, error) {
	for _, j := range jobs {
		a.Arg(j)
	}
	n, err := redis.Int(a.Do(c, of))
	if err == nil && n < 0 {
		return 0, ErrAlive
	}
	return n, Explain(err)
}

// Scheduled is a member of our own schedule.
type Scheduled struct {
	Member  []byte
	Score   string // ms, as Redis wrote it
	At      Stamp
	Queue   string // "": it names none
	Payload []byte
}

// ReadScheduled returns members of our own schedule in the order of their times: at most count,
// without the first skip.
func (s Store) ReadScheduled(c redis.Conn, skip, count int) ([]Scheduled, error) {
	r, err := redis.ByteSlices(c.Do("ZRANGE", s.KeyOfSchedule(), skip, skip+count-1, "WITHSCORES"))
	if err != nil {
		return nil, fmt.Errorf("reading our schedule of delayed jobs: %w", Explain(err))
	}
	all := make([]Scheduled, 0, len(r)/2)
	for i := 0; i+1 < len(r); i += 2 {
		j := Scheduled{Member: r[i], Score: string(r[i+1])}
		ms, _ := redis.Float64(r[i+1], nil)
		j.At = Stamp{int64(min(max(ms, 0), LastSecond*1000))}
		j.Queue, j.Payload, _ = CutPrefix(r[i])
		all = append(all, j)
	}
	return all, nil
}

// DrainedJob is a job of our own schedule and where it goes.
type DrainedJob struct {
	Scheduled
	Plain []byte // {"class","args"} for resque-scheduler's schedule; nil: the payload goes to its queue
}

// DrainScheduled moves jobs of our own schedule. It returns how many still were there, and the keys
// that Redis refused.
func (s Store) DrainScheduled(c redis.Conn, jobs []DrainedJob, style payload.Style) (moved int, refused []KeyError, err error) {
	var a Call
	a.Key(s.processes())
	a.Key(s.KeyOfSchedule())
	a.Key(s.KeyOfQueues())
	a.Key(s.KeyOfSeconds())
	numbers := make(map[string]int)
	key := func(name string) int {
		if numbers[name] == 0 {
			numbers[name] = a.Key(name)
		}
		return numbers[name]
	}
	for _, j := range jobs {
		if j.Plain == nil {
			a.Arg(j.Member, j.Score, key(s.KeyOfRubys(j.Queue)), j.Queue, payload.JSON(j.Payload), 0)
			continue
		}
		item, second := payload.Item(j.Plain, j.Queue, style), j.At.Second()
		a.Arg(j.Member, j.Score, key(s.KeyOfSecond(second)), second, item, key(s.KeyOfJobSeconds(string(item))))
	}
	r, err := redis.Values(a.Do(c, drainScheduleScript))
	if err == nil && len(r) > 0 {
		if moved, err = redis.Int(r[0], nil); moved < 0 {
			return 0, nil, fmt.Errorf("moving delayed jobs: %w", ErrAlive)
		}
	}
	if err == nil && len(r) != 2 {
		err = ErrAnswer
	}
	if err != nil {
		return 0, nil, fmt.Errorf("moving delayed jobs: %w", Explain(err))
	}
	texts, err := redis.Strings(r[1], nil)
	for i := 0; i+1 < len(texts); i += 2 {
		refused = append(refused, KeyError{Key: texts[i], Reason: texts[i+1]})
	}
	return moved, refused, err
}

// RemoveOwn removes keys of goworker and returns how many there were.
func (s Store) RemoveOwn(c redis.Conn, keys []string) (int, error) {
	var a Call
	a.Key(s.processes())
	for _, k := range keys {
		a.Key(k)
	}
	n, err := drained(&a, c, drainRemoveScript, nil)
	if err != nil {
		err = fmt.Errorf("removing keys of goworker: %w", err)
	}
	return n, err
}

// Unruly is what the fleet agreed on and Ruby does not know.
type Unruly struct {
	Paused          []string          // queues
	PausedSchedules []string          // recurring schedules
	Fired           []string          // recurring schedules that only programs of goworker know
	Limits          map[string]string // limit → its numbers
}

// Unruly reads what the fleet agreed on and Ruby does not know.
func (s Store) Unruly(c redis.Conn) (u Unruly, err error) {
	b := Batch{Conn: c}
	b.Send("SMEMBERS", s.paused())
	b.Send("HKEYS", s.pausedSchedules())
	b.Send("HKEYS", s.ticks())
	b.Send("HKEYS", s.persistentSchedules())
	b.Send("HGETALL", s.limits())
	replies, err := b.Receive()
	var persistent []string
	for i, to := range []*[]string{&u.Paused, &u.PausedSchedules, &u.Fired, &persistent} {
		if err == nil {
			*to, err = redis.Strings(Answer(replies[i]))
		}
		slices.Sort(*to)
	}
	if err == nil {
		u.Limits, err = redis.StringMap(Answer(replies[4]))
	}
	if err != nil {
		return u, fmt.Errorf("reading what is paused, scheduled and limited: %w", Explain(err))
	}
	u.Fired = slices.DeleteFunc(u.Fired, func(name string) bool { return slices.Contains(persistent, name) })
	return u, nil
}
