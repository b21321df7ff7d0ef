package goworker

import (
	"context"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/goworker/goworker/internal/conn"
	"github.com/goworker/goworker/internal/part"
	"github.com/goworker/goworker/internal/resque"
)

// push pushes jobs as one. While Redis answers that another server takes them now,
// or soon will, which is to say that nothing was done, it is tried again: a
// fail-over or a slot that moves is over in seconds. That goes on for as long as
// connecting may take. An error after which the jobs may be there is returned at once.
func (c *client) push(bulk *resque.Bulk) error {
	return c.send(func(conn redis.Conn) error { return c.store.PushBulk(conn, bulk) })
}

// send is push for whatever Redis does as a whole or not at all.
func (c *client) send(do func(redis.Conn) error) error {
	giveUp := time.Now().Add(c.config.dial().Options().ConnectTimeout)
	var retry part.Backoff
	for {
		err := c.sendOnce(do)
		if err == nil || !conn.Elsewhere(err) {
			return err
		}
		wait := retry.Next()
		if time.Now().Add(wait).After(giveUp) {
			return err
		}
		time.Sleep(wait)
	}
}

func (c *client) sendOnce(do func(redis.Conn) error) error {
	lent, err := c.pool.Get(context.Background())
	if err != nil {
		return err
	}
	defer conn.PutBack(lent)
	return do(lent)
}

// store is what writes and reads the keys. Its pushes wait for replicas as long as
// the connection may wait for an answer, at most.
func (c config) store() resque.Store {
	within := min(ReplicaWait, c.dial().Options().ReadTimeout/2)
	return resque.New(c.Namespace).Replicated(c.WaitReplicas, within)
}
