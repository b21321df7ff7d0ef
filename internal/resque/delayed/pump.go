package delayed

import (
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/goworker/goworker/internal/clock"
	"github.com/goworker/goworker/internal/payload"
	"github.com/goworker/goworker/internal/queues"
	"github.com/goworker/goworker/internal/resque"
)

var (
	pumpScript       = resque.LoadScript(scriptFiles, "pump")
	bucketScript     = resque.LoadScript(scriptFiles, "bucket")
	undelayScript    = resque.LoadScript(scriptFiles, "undelay")
	unscheduleScript = resque.LoadScript(scriptFiles, "unschedule")
)

// Limits of one step of a Pump. Steps of 100, 500 and 2 000 jobs of our schedule moved
// 250 000, 360 000 and 400 000 a second, and blocked every other client of Redis for
// half a millisecond, 1.4 and 5.
const (
	pumpJobs    = 500
	pumpBytes   = 4 << 20
	pumpSeconds = 100
	pumpQueues  = 500
)

// putOff is how long a due job waits if Redis refuses to touch its queue, or its list in the
// schedule: an operator has to repair that key.
const putOff = time.Minute

// Pump moves jobs that are due from the schedules to their queues. Any number of pumps
// may work on the same schedules: a job is moved and removed in one step, so it moves once.
// A Pump is for one goroutine.
type Pump struct {
	Store
	By         string // the process, for failure records
	MultiQueue bool   // file failures as Resque's redis_multi_queue backend does

	queues []string // queues that have had jobs of our schedule
	room   int      // how many jobs of resque-scheduler's to read at once
}

// Moved is what one step of a Pump did.
type Moved struct {
	Jobs   int
	Failed []error // jobs that no worker could run; they are in the failures now
	Broken []resque.KeyError
	More   bool // more may be due: step again
	Lost   bool // another scheduler has the lock
}

func (m *Moved) broken(reply any) {
	texts, _ := redis.Strings(reply, nil)
	for i := 0; i+1 < len(texts); i += 2 {
		m.Broken = append(m.Broken, resque.KeyError{Key: texts[i], Reason: texts[i+1]})
	}
}

// Own moves jobs of our own schedule. The script parses no JSON. It gets the keys of queues, and
// answers with the names of those that were missing.
func (p *Pump) Own(c redis.Conn) (Moved, error) {
	var a resque.Call
	a.Key(p.store.KeyOfSchedule())
	a.Key(p.store.KeyOfNames(""))
	a.Key(p.store.KeyOfNames(queues.MessagePack))
	a.Arg(pumpJobs, pumpBytes, putOff.Milliseconds())
	for _, name := range p.queues {
		a.Key(p.store.KeyOfQueue(name))
		a.Arg(name)
	}
	r, err := redis.Values(a.Do(c, pumpScript))
	if err == nil && len(r) != 5 {
		err = resque.ErrAnswer
	}
	if err != nil {
		return Moved{}, fmt.Errorf("moving delayed jobs to their queues: %w", resque.Explain(err))
	}
	var m Moved
	m.Jobs, _ = redis.Int(r[0], nil)
	m.More, _ = redis.Bool(r[1], nil)
	m.broken(r[3])
	wanted, _ := redis.Strings(r[2], nil)
	slices.Sort(wanted)
	if wanted = slices.Compact(wanted); len(p.queues)+len(wanted) > pumpQueues {
		p.queues = nil
	}
	p.queues = append(p.queues, wanted...)
	if nameless, _ := redis.Bool(r[4], nil); nameless {
		err = p.setAside(c, &m)
	}
	return m, err
}

// setAside files the first member of our schedule as a failure. It does not name its queue:
// another program wrote it.
func (p *Pump) setAside(c redis.Conn, m *Moved) error {
	first, err := redis.ByteSlices(c.Do("ZRANGE", p.store.KeyOfSchedule(), 0, 0))
	if err != nil || len(first) == 0 {
		return err
	}
	if queue, _, ok := resque.CutPrefix(first[0]); ok && queue != "" {
		return nil // another pump has moved it
	}
	why := fmt.Errorf("a delayed job names no queue: %s", payload.Short(first[0]))
	u := unscheduling{Store: p.Store}
	u.start()
	u.toFailures(first[0], failedWithoutQueue, p.failure(failedWithoutQueue, first[0], why), p.MultiQueue)
	out, err := u.do(c)
	m.Broken = append(m.Broken, out.broken...)
	if out.found > 0 {
		m.Failed = append(m.Failed, why)
	}
	if len(out.broken) > 0 { // it must not block the members behind it
		now, err := p.store.Now(c)
		if err != nil {
			return err
		}
		u = unscheduling{Store: p.Store}
		u.start()
		u.toTime(first[0], resque.StampOf(now.Add(putOff)), moved{})
		_, err = u.do(c)
		return err
	}
	return err
}

// failedWithoutQueue is the queue in the failure record of a job that names none.
// With no name at all, Ruby's "retry all" would stop at it.
const failedWithoutQueue = "delayed"

func (p *Pump) failure(queue string, item []byte, why error) []byte {
	return payload.Failure{
		FailedAt: payload.FailedAt(clock.System.Now()), Payload: payload.Invalid(item), Exception: "Resque::InvalidDelayedJob",
		Error: why.Error(), Worker: p.By, Queue: queue,
	}.Encode()
}

// Seconds moves jobs of resque-scheduler's seconds that are over, provided the lock is held.
// Each second is finished before the next begins.
func (p *Pump) Seconds(c redis.Conn, lock resque.MasterLock, now time.Time) (Moved, error) {
	seconds, err := redis.Strings(c.Do("ZRANGEBYSCORE", p.store.KeyOfSeconds(), "-inf", now.Unix(), "LIMIT", 0, pumpSeconds))
	if err != nil || len(seconds) == 0 {
		return Moved{}, err
	}
	more := len(seconds) == pumpSeconds
	sizes := &resque.Batch{Conn: c}
	for _, second := range seconds {
		sizes.Send("LLEN", p.store.KeyOfSecond(second))
	}
	replies, err := sizes.Receive()
	if err != nil {
		return Moved{}, err
	}
	lists, room := &resque.Batch{Conn: c}, max(p.room, 8)
	for i, second := range seconds {
		size, _ := redis.Int(resque.Answer(replies[i])) // of another type: the script reports it
		lists.Send("LRANGE", p.store.KeyOfSecond(second), 0, min(max(size, 1), room)-1)
		if room -= size; room <= 0 {
			seconds, more = seconds[:i+1], true // the rest comes after this second
			break
		}
	}
	if replies, err = lists.Receive(); err != nil {
		return Moved{}, err
	}
	moves, bytes := make([]seconded, len(seconds)), 0
	scripts := &resque.Batch{Conn: c}
	for i, second := range seconds {
		items, _ := redis.ByteSlices(resque.Answer(replies[i]))
		moves[i] = p.move(lock, now, second, items)
		bytes += moves[i].bytes
	}
	// The first call makes sure that Redis knows the script.
	first, err := moves[0].Do(c, bucketScript)
	if refused, ok := err.(redis.Error); ok {
		first, err = refused, nil
	}
	if err != nil {
		return Moved{}, err
	}
	for _, m := range moves[1:] {
		scripts.Send("EVALSHA", append([]any{bucketScript.Hash()}, m.Args()...)...)
	}
	// Next time read as many as Redis may be asked for at once.
	if p.room = min(4*max(p.room, 8), pumpJobs); bytes > pumpBytes {
		p.room = 1
	}
	if replies, err = scripts.Receive(); err != nil {
		return Moved{}, err
	}
	m := Moved{More: more}
	for i, reply := range append([]any{first}, replies...) {
		r, refused := redis.Values(resque.Answer(reply))
		if refused == nil && len(r) != 3 {
			refused = resque.ErrAnswer
		}
		if refused != nil {
			err = fmt.Errorf("moving jobs of resque-scheduler to their queues: %w", resque.Explain(refused))
			continue
		}
		n, _ := redis.Int(r[0], nil)
		lost, _ := redis.Bool(r[1], nil)
		m.Jobs += n
		m.Lost = m.Lost || lost
		m.broken(r[2])
		for at, why := range moves[i].failed {
			if at < n {
				m.Failed = append(m.Failed, why)
			}
		}
	}
	return m, err
}

// seconded are the first jobs of a second as the script gets them.
type seconded struct {
	resque.Call
	bytes  int
	failed map[int]error // those that no worker could run
}

func (p *Pump) move(lock resque.MasterLock, now time.Time, second string, items [][]byte) seconded {
	a := seconded{failed: make(map[int]error)}
	later := strconv.FormatInt(now.Add(putOff).Unix(), 10)
	a.Key(p.store.KeyOfSeconds())
	a.Key(p.store.KeyOfSecond(second))
	a.Key(lock.Key())
	a.Key(p.store.KeyOfQueues())
	a.Key(p.store.KeyOfFailureLists())
	a.Key(p.store.KeyOfSecond(later))
	a.Arg(lock.Holder, second, later, len(p.store.KeyOfJobSeconds("")))
	keys := map[string]int{p.store.KeyOfQueues(): 4}
	key := func(name string) int {
		if keys[name] == 0 {
			keys[name] = a.Key(name)
		}
		return keys[name]
	}
	for i, item := range items {
		a.bytes += len(item)
		stamps := a.Key(p.store.KeyOfJobSeconds(string(item)))
		queue, raw, err := payload.ReadItem(item)
		if err == nil {
			a.Arg(stamps, key(p.store.KeyOfQueue(queue)), key(p.store.KeyOfNames(queue)), queue, raw)
			continue
		}
		if queue == "" {
			queue = failedWithoutQueue
		}
		a.failed[i] = fmt.Errorf("a job delayed to %s cannot be run, since %w: %s", second, err, payload.Short(item))
		list, name := p.store.FailureListFor(queue, p.MultiQueue)
		a.Arg(stamps, key(list), 5, name, p.failure(queue, item, a.failed[i]))
	}
	return a
}

// Hints moves jobs of resque-scheduler's seconds at their milliseconds, provided the
// lock is held.
func (p *Pump) Hints(c redis.Conn, lock resque.MasterLock, now time.Time) (Moved, error) {
	hints, err := redis.Strings(c.Do("ZRANGEBYSCORE", p.store.KeyOfHints(), "-inf", now.UnixMilli(), "LIMIT", 0, pumpJobs))
	if err != nil {
		return Moved{}, fmt.Errorf("reading which delayed jobs are due: %w", resque.Explain(err))
	}
	u := undelaying{Store: p.Store}
	u.start(&lock)
	for _, hint := range hints {
		at, item, ok := parseHint(hint)
		queue, payload, err := payload.ReadItem([]byte(item))
		if !ok || err != nil { // not ours; the job is moved with its second
			if _, err := c.Do("ZREM", p.store.KeyOfHints(), hint); err != nil {
				return Moved{}, err
			}
			continue
		}
		u.add(at.Second(), item, hint)
		u.toQueue(queue, payload, false)
	}
	m := Moved{More: len(hints) == pumpJobs}
	out, err := u.do(c)
	m.Jobs, m.Broken, m.Lost = max(out.found, 0), out.broken, out.found < 0
	return m, err
}

// DropHints removes the hints of seconds that are over: the move of such a second moves
// their jobs.
func (p *Pump) DropHints(c redis.Conn, now time.Time) error {
	_, err := c.Do("ZREMRANGEBYSCORE", p.store.KeyOfHints(), "-inf", now.Unix()*1000)
	return err
}
