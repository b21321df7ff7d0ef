package delayedbridge

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/goworker/goworker"
	"github.com/goworker/goworker/internal/conn"
	"github.com/goworker/goworker/internal/neighbor"
	"github.com/goworker/goworker/internal/part"
	"github.com/goworker/goworker/internal/payload"
	"github.com/goworker/goworker/internal/queues"
	"github.com/goworker/goworker/internal/resque/delayedwire"
)

// Limits of one step. The number of tasks that are read grows while there are many, and is 1 after large ones: they
// travel twice.
const (
	firstTasks = 8
	mostTasks  = 500
	mostBytes  = 4 << 20
)

// bridge moves tasks of one queue. start makes its fields; after that only the goroutine of the loop uses them.
type bridge struct {
	client *goworker.Client
	queue  Queue
	wire   delayedwire.Queue

	neighbor.Neighbor
	loop   *part.Loop
	line   conn.Line
	every  time.Duration // how often to look where Redis cannot notify; 0: it can
	worker string        // in failure records

	to     delayedwire.Target
	next   [][]byte // tasks that were at the head
	popped int      // notifications that were popped and not used up, or delayedwire.Missing
	most   int      // how many tasks to read
	mendAt time.Time
	told   string // why the bridge waits, as the log says
}

func (b *bridge) start(ctx context.Context) error {
	if b.queue.Name == "" {
		return errors.New("the queue of delayed has no name; set Queue.Name")
	}
	if b.queue.Ahead < 0 {
		return fmt.Errorf("Queue.Ahead of the bridge of %s is %d; it must be positive, or 0 for %d", b.queue.Name, b.queue.Ahead, DefaultAhead)
	}
	if err := goworker.Beside(&b.Neighbor, b.client); err != nil {
		return err
	}
	b.to = delayedwire.Target{Store: b.Store, Queue: b.queue.To, MultiQueue: b.MultiQueue, Most: b.queue.Ahead}
	if b.to.Most == 0 {
		b.to.Most = DefaultAhead
	}
	if b.to.Queue == "" {
		b.to.Queue = goworker.MessagePack(b.queue.Name)
	}
	if err := queues.CheckName(b.to.Queue, b.Store.KeyOfQueue("")); err != nil {
		return fmt.Errorf("Queue.To of the bridge of %s: %w", b.queue.Name, err)
	}
	b.next, b.popped, b.most, b.worker = nil, 0, firstTasks, "delayedbridge:"+b.queue.Name
	b.every, _ = conn.PollInterval(b.Dialer)
	b.line = b.Line(0)
	b.loop = part.NewLoop(b.Base, "delayedbridge", b.turn)
	err := b.line.Do(ctx, func(c redis.Conn) error {
		if err := b.wire.Serves(c); err != nil {
			return err
		}
		if err := b.mend(c); err != nil {
			return err
		}
		_, err := b.wire.Take(c, b.to, nil, 0, 0)
		return err
	})
	if err != nil {
		b.line.Close()
		return err
	}
	if !b.Works(b.to.Queue) {
		b.Log.Warn("this daemon does not work the queue that a bridge of delayed pushes to", "queue", b.to.Queue, "from", b.queue.Name)
	}
	b.loop.Start(ctx)
	return nil
}

// stop stops the loop. It may have popped a notification and not used it up: so the missing ones are made, because workers
// of delayed may go on without a sweeper.
func (b *bridge) stop(ctx context.Context) {
	b.loop.Stop(ctx)
	if err := b.line.Do(ctx, b.mend); err != nil {
		b.Log.Debug("the notifications of a queue of delayed were not made at the stop", "queue", b.queue.Name, "error", err)
	}
	b.line.Close()
}

// turn takes the tasks that the turn before has read. If there are none, it waits for a notification.
func (b *bridge) turn(ctx context.Context) (wait time.Duration, err error) {
	if err := b.Ready(ctx, b.to.Queue); ctx.Err() != nil {
		return 0, err
	} else if err != nil {
		if why := err.Error(); b.told != why {
			b.told = why
			b.Log.Warn("a bridge of delayed waits", "queue", b.queue.Name, "reason", why)
		}
		return waitRelease, nil
	}
	b.told = ""
	err = b.line.Do(ctx, func(c redis.Conn) error {
		if b.line.Renewed() { // a popped notification may have been lost with its answer
			b.next, b.popped = nil, delayedwire.Missing
		}
		if !b.Clock.Now().Before(b.mendAt) {
			if err := b.mend(c); conn.MustRedial(err) {
				return err
			} else if err != nil {
				b.Log.Warn("tasks of dead workers of delayed were not brought back", "queue", b.queue.Name, "error", err)
			}
		}
		wait, err = b.step(c)
		return err
	})
	return wait, err
}

func (b *bridge) step(c redis.Conn) (wait time.Duration, err error) {
	moves, failures := b.moves()
	t, err := b.wire.Take(c, b.to, moves, b.popped, b.most)
	if err != nil {
		b.next, b.popped = nil, delayedwire.Missing
		return 0, err
	}
	for _, err := range failures[:t.Tasks] {
		if err != nil {
			b.Log.Warn("a task of delayed became a failure", "queue", b.queue.Name, "error", err)
		}
	}
	b.Step("delayed:"+b.queue.Name, b.to.Queue, t.Tasks, t.Waiting, t.InHand > 0)
	b.next, b.popped = t.Next, t.Popped
	if len(b.next) > 0 {
		b.grow()
		return 0, nil
	}
	switch {
	case t.Waiting > 0 && t.Room <= 0:
		return waitRoom, nil
	case b.every > 0:
		b.popped = delayedwire.Missing
		return b.every, nil
	}
	b.popped = delayedwire.Missing
	notified, err := b.wire.Await(c, waitTasks, part.ReplyWithin)
	if notified {
		b.popped = 1
	}
	return 0, err
}

// moves returns what becomes of the tasks that were read, and of each that becomes a failure why.
func (b *bridge) moves() (moves []delayedwire.Move, failures []error) {
	for _, task := range b.next {
		to, err := b.job(task)
		switch own := queues.IsOwn(b.to.Queue); {
		case err == nil && own:
			if item, exact := payload.Pack(nil, to); exact {
				to = item
			}
		case err != nil:
			to = payload.Failure{
				FailedAt: payload.FailedAt(b.Clock.Now()), Payload: to, Exception: taskException, Error: err.Error(),
				Worker: b.worker, Queue: b.to.Queue,
			}.Encode()
		}
		moves = append(moves, delayedwire.Move{Task: task, To: to, Failure: err != nil})
		failures = append(failures, err)
	}
	return moves, failures
}

// grow sets how many tasks the next step reads, by the size of those that this one has read.
func (b *bridge) grow() {
	size := 0
	for _, task := range b.next {
		size += len(task)
	}
	switch {
	case size > mostBytes:
		b.most = 1
	case len(b.next) == b.most:
		b.most = min(2*b.most, mostTasks)
	}
}

// mend does what delayed's sweeper does.
func (b *bridge) mend(c redis.Conn) error {
	b.mendAt = b.Clock.Now().Add(mendEvery - rand.N(mendEvery/10)) // bridges of several processes take turns
	return mend(c, b.Log, b.wire)
}
