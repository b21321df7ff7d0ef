// Package delayedbridge connects goworker with delayed, the task queue of Python and Go: keakon/delayed and
// yizhisec/go-delayed. Only a program that imports it links it.
//
// A bridge takes the tasks of one of delayed's queues that are for Go, and makes jobs of them, which have goworker's retries,
// limits, time limits, failures and results:
//
//	goworker.RegisterFunc(mail.Send) // under its path, as delayed names it
//	daemon.AddPart(delayedbridge.Part(daemon, delayedbridge.Queue{Name: "mail"}))
//
// The daemon must work the queue that the jobs go to: goworker.MessagePack("mail"), unless Queue.To names another.
//
// Enqueue puts tasks into queues that workers of delayed work, in Python or Go:
//
//	err := delayedbridge.Enqueue(ctx, client, "reports",
//		delayedbridge.PyTask("app.reports:build", []any{2026}, map[string]any{"format": "pdf"}))
//
// Each task runs at least once: whichever process is killed at whatever moment. Workers of delayed may go on to work the
// same queues beside bridges. The keys of delayed have no namespace, so a Cluster and the minimal ACL are refused with a sentence.
package delayedbridge

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/goworker/goworker"
	"github.com/goworker/goworker/internal/neighbor"
	"github.com/goworker/goworker/internal/prefix"
	"github.com/goworker/goworker/internal/resque"
	"github.com/goworker/goworker/internal/resque/delayedwire"
)

// DefaultAhead is how many jobs may wait in the queue of a bridge, if Queue.Ahead is 0.
const DefaultAhead = 1000

// Queue says which queue of delayed a bridge works, and where its jobs go.
type Queue struct {
	// Name is the name of delayed's queue, which is the key of its tasks too. It must be given. Its tasks
	// are for Go: a Python task in it becomes a failure, unless its name "module:function" is registered, or an alias of
	// a registered function, and it has no arguments by name.
	Name string

	// To is the queue that the jobs go to. "" is goworker.MessagePack(Name), which Ruby's workers do not see. The workers of a
	// daemon must work it.
	To string

	// Ahead is how many jobs may wait in To before the bridge leaves further tasks where they are, for workers of
	// delayed and for later; 0 is DefaultAhead. While To is paused, or no worker takes its jobs, no more than these are taken.
	Ahead int
}

// Part returns a bridge as a part of the daemon: give it to AddPart. It uses one connection beside the daemon's. Several bridges, of
// several processes too, may work a queue. ExitOnComplete does not wait for tasks that no bridge has taken.
//
// Which functions the daemon knows, and their parameters, tell what the bytes of a task mean. A task for a path that is not registered
// becomes a job, and a failure: its arguments are then taken as they look. Bytes that are no task become a failure.
//
// Its Start returns an error if Redis is a Cluster, or does not permit what the bridge does; see the page From delayed. Later
// the bridge waits for Redis, as the daemon does.
//
// Once a minute the bridge does what delayed's sweeper does: it brings back the tasks of workers of delayed that have
// died, and makes the notifications that are missing.
func Part(d *goworker.Daemon, q Queue) goworker.Part {
	b := &bridge{client: d.Client(), queue: q, wire: delayedwire.Queue(q.Name)}
	return goworker.Part{
		Name: "delayedbridge:" + q.Name, Requires: []string{"poller"},
		Start: func(ctx context.Context) error { return prefix.Of(b.start(ctx)) },
		Stop: func(ctx context.Context) error {
			b.stop(ctx)
			return nil
		},
	}
}

// Sweeper returns a part that does for queues of delayed what delayed's sweeper does, and nothing else: once a minute it brings
// back the tasks of workers that have died, and makes the notifications that are missing. It is for queues of
// Python tasks; a bridge is the sweeper of its own queue. Any number of sweepers may run.
func Sweeper(d *goworker.Daemon, queues ...string) goworker.Part {
	s := &sweeper{client: d.Client(), queues: queues}
	return goworker.Part{
		Name:  "delayedbridge.Sweeper",
		Start: func(ctx context.Context) error { return prefix.Of(s.start(ctx)) },
		Stop: func(ctx context.Context) error {
			s.loop.Stop(ctx)
			return nil
		},
	}
}

// Enqueue puts tasks into a queue of delayed, whose workers are Python's or Go's: a worker takes every task for one of its own
// language. Tasks of up to 4 MiB together are added in one step.
//
// The error says which task cannot be packed: then none was added. After an error about Redis it says how many tasks
// were added for certain; it is unknown whether the others were, if the connection broke. With
// WorkerSettings.WaitReplicas it waits for the replicas, as Client.Enqueue does, and may return goworker.ErrTooFewReplicas.
func Enqueue(ctx context.Context, c *goworker.Client, queue string, tasks ...Task) error {
	if queue == "" {
		return prefix.Of(errors.New("the queue of delayed has no name; name it"))
	}
	packed := make([][]byte, len(tasks))
	for i, t := range tasks {
		switch {
		case t.err != nil:
			return prefix.Of(t.err)
		case t.data == nil:
			return prefix.Of(fmt.Errorf("task %d is empty; make it with PyTask or GoTask", i+1))
		}
		packed[i] = t.data
	}
	var n neighbor.Neighbor
	if err := goworker.Beside(&n, c); err != nil {
		return prefix.Of(err)
	}
	err := n.Do(ctx, func(store resque.Store, conn redis.Conn) error {
		added, err := delayedwire.Queue(queue).Add(conn, packed...)
		if err != nil && added > 0 {
			err = fmt.Errorf("%d of the %d tasks were added: %w", added, len(packed), err)
		}
		if err != nil || added == 0 {
			return err
		}
		return store.AwaitReplicas(conn, &resque.ReplicasError{To: "queue " + queue + " of delayed", Jobs: added})
	})
	return prefix.Of(err)
}

// Times of a bridge.
const (
	waitTasks   = time.Second           // for a notification; delayed's own default
	waitRoom    = 50 * time.Millisecond // while the queue of the jobs is full
	waitRelease = time.Second           // while a process of an older release must not see the jobs
	mendEvery   = time.Minute           // as delayed's sweeper
)
