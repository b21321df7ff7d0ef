// Package delayedwire knows the keys of the task queues of the libraries delayed (Python) and go-delayed, and has the
// scripts that move tasks from them. These keys have no namespace: a queue named "calc" is the key "calc".
//
// It has nothing to do with delayed jobs: those are in package delayed.
package delayedwire

import (
	"embed"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/goworker/goworker/internal/conn"
	"github.com/goworker/goworker/internal/resque"
)

//go:embed scripts/*.lua
var scriptFiles embed.FS

// Scripts returns the scripts of this package by name.
func Scripts() map[string]string { return resque.ScriptsOf(scriptFiles) }

var (
	takeScript = resque.LoadScript(scriptFiles, "take")
	mendScript = resque.LoadScript(scriptFiles, "mend")
	addScript  = resque.LoadScript(scriptFiles, "add")
)

// Queue is a queue of delayed. It is a value, safe for concurrent use.
type Queue string

func (q Queue) tasks() string         { return string(q) }
func (q Queue) notifications() string { return string(q) + "_noti" }
func (q Queue) inHand() string        { return string(q) + "_processing" }

// Target is where jobs go.
type Target struct {
	Store      resque.Store
	Queue      string
	MultiQueue bool // failures go to the queue's own list
	Most       int  // jobs that may wait in the queue
}

// Move is a task and what it becomes.
type Move struct {
	Task    []byte
	To      []byte // a payload, or a failure record
	Failure bool
}

// Missing stands for as many popped notifications as are missing now: a caller that waited for one and got none takes the tasks
// all the same.
const Missing = -1

// Taken is what a call of Take did and found.
type Taken struct {
	Tasks   int
	Popped  int      // popped notifications that were not used up
	Waiting int      // tasks that are left
	Room    int      // for jobs in the target's queue
	Next    [][]byte // tasks that may be taken now
	InHand  int      // tasks that workers of delayed have in hand
}

// Take moves tasks to the target, up to the first that is no more at the head, and reads at most so many of the next.
func (q Queue) Take(c redis.Conn, to Target, moves []Move, popped, most int) (t Taken, err error) {
	list, member := to.Store.FailureListFor(to.Queue, to.MultiQueue)
	var call resque.Call
	call.Key(q.tasks())
	call.Key(q.notifications())
	call.Key(to.Store.KeyOfQueue(to.Queue))
	call.Key(to.Store.KeyOfNames(to.Queue))
	call.Key(list)
	call.Key(to.Store.KeyOfFailureLists())
	call.Key(q.inHand())
	call.Arg(to.Queue, member, to.Most, popped, most)
	for _, m := range moves {
		kind := "job"
		if m.Failure {
			kind = "failure"
		}
		call.Arg(m.Task, kind, m.To)
	}
	r, err := redis.Values(call.Do(c, takeScript))
	if err == nil && len(r) != 6 {
		err = resque.ErrAnswer
	}
	if err != nil {
		return t, q.explain("taking tasks", err)
	}
	for i, n := range []*int{&t.Tasks, &t.Popped, &t.Waiting, &t.Room} {
		if *n, err = redis.Int(r[i], nil); err != nil {
			return t, q.explain("taking tasks", resque.ErrAnswer)
		}
	}
	if t.InHand, err = redis.Int(r[5], nil); err != nil {
		return t, q.explain("taking tasks", resque.ErrAnswer)
	}
	if t.Next, err = redis.ByteSlices(r[4], nil); err != nil {
		return t, q.explain("taking tasks", resque.ErrAnswer)
	}
	return t, nil
}

// Await waits until there is a notification, pops it, and reports true; after the timeout, in whole seconds, it reports false.
func (q Queue) Await(c redis.Conn, timeout, answer time.Duration) (bool, error) {
	reply, err := redis.DoWithTimeout(c, timeout+answer, "BLPOP", q.notifications(), int(timeout/time.Second))
	return reply != nil && err == nil, q.explain("waiting for tasks", err)
}

// Limits of one call of mend.lua.
const (
	mendWorkers       = 100
	mendNotifications = 5000
)

// Mended is what Mend did.
type Mended struct{ Tasks, Notifications int }

// Mend brings back the tasks of workers of delayed that are dead, and makes the notifications that are missing. It does so in
// pieces: any number may be missing.
func (q Queue) Mend(c redis.Conn) (sum Mended, err error) {
	dead, err := q.dead(c)
	if err != nil {
		return sum, q.explain("looking for dead workers", err)
	}
	for {
		piece := dead[:min(len(dead), mendWorkers)]
		dead = dead[len(piece):]
		var call resque.Call
		call.Key(q.tasks())
		call.Key(q.notifications())
		call.Key(q.inHand())
		call.Arg(mendNotifications)
		for _, h := range piece {
			call.Arg(h.worker, h.task)
		}
		r, err := redis.Ints(call.Do(c, mendScript))
		if err == nil && len(r) != 3 {
			err = resque.ErrAnswer
		}
		if err != nil {
			return sum, q.explain("bringing back tasks", err)
		}
		sum.Tasks, sum.Notifications = sum.Tasks+r[0], sum.Notifications+r[1]
		if len(dead) == 0 && (r[2] <= 0 || r[1] == 0) {
			return sum, nil
		}
	}
}

// hand is a task that a worker of delayed has.
type hand struct{ worker, task string }

// dead returns the tasks in hand of workers that have no key any more. Redis is asked outside the script: so a user that may only
// read the workers' keys is enough.
func (q Queue) dead(c redis.Conn) (dead []hand, err error) {
	hands, err := redis.StringMap(c.Do("HGETALL", q.inHand()))
	if err != nil || len(hands) == 0 {
		return nil, err
	}
	all := make([]hand, 0, len(hands))
	asked := &resque.Batch{Conn: c}
	for worker, task := range hands {
		all = append(all, hand{worker, task})
		asked.Send("EXISTS", worker)
	}
	answers, err := asked.Receive()
	if err != nil {
		return nil, err
	}
	for i, h := range all {
		alive, err := redis.Bool(resque.Answer(answers[i]))
		if err != nil {
			return nil, err
		}
		if !alive {
			dead = append(dead, h)
		}
	}
	return dead, nil
}

// addBytes limits one call of add.lua.
const addBytes = 4 << 20

// Add adds tasks. Those of a call of more than addBytes come in pieces; added says how many are in the queue if there is an error.
func (q Queue) Add(c redis.Conn, tasks ...[]byte) (added int, err error) {
	for added < len(tasks) {
		var call resque.Call
		call.Key(q.tasks())
		call.Key(q.notifications())
		n := 0
		for size := 0; added+n < len(tasks) && (n == 0 || size < addBytes); n++ {
			call.Arg(tasks[added+n])
			size += len(tasks[added+n])
		}
		if _, err := call.Do(c, addScript); err != nil {
			return added, q.explain("adding tasks", err)
		}
		added += n
	}
	return added, nil
}

// Serves returns an error if this Redis is one of a Cluster.
func (q Queue) Serves(c redis.Conn) error {
	info, err := redis.String(c.Do("INFO", "cluster"))
	switch {
	case err != nil && conn.Classify(err) == conn.KindConn:
		return q.explain("looking for tasks", err)
	case strings.Contains(info, "cluster_enabled:1"):
		return q.inCluster()
	}
	return nil
}

func (q Queue) inCluster() error {
	return fmt.Errorf("the queue %s of delayed cannot be on a Redis Cluster: its keys %s, %s and %s and those of its workers have no "+
		"namespace, so they lie on several nodes, and no script reaches them together; use a Redis that is no Cluster",
		q, q.tasks(), q.notifications(), q.inHand())
}

// explain says what Redis refused, and what to do.
func (q Queue) explain(doing string, err error) error {
	if err == nil {
		return nil
	}
	var reply redis.Error
	if errors.As(err, &reply) && strings.HasPrefix(string(reply), "CROSSSLOT") {
		return q.inCluster()
	}
	if conn.Classify(err) == conn.KindNoPerm {
		return fmt.Errorf("%s of the queue %s of delayed: this Redis user lacks a permission. The keys of delayed have no namespace, so the minimal ACL "+
			"does not have them; give the user ~%s ~%s ~%s, %%R~* for the keys of its workers, and +blpop: %w",
			doing, q, q.tasks(), q.notifications(), q.inHand(), err)
	}
	return fmt.Errorf("%s of the queue %s of delayed: %w", doing, q, resque.Explain(err))
}
