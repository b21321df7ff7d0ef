package goworker

import (
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/goworker/goworker/internal/resque"
)

// push is withConn for a single atomic push. While Redis answers that another
// server takes it now, or soon will, which is to say that nothing was done, f runs
// again: a fail-over or a slot that moves is over in seconds. That is tried for
// as long as connecting may take. An error after which the jobs may be there is
// returned at once.
func (d *Daemon) push(f func(s resque.Store, c redis.Conn) error) error {
	client, err := d.init(false)
	if err != nil {
		return err
	}
	giveUp := time.Now().Add(client.config.client().dial.options().ConnectTimeout)
	var retry backoff
	for {
		err := d.withConn(f)
		wait := retry.next()
		if err == nil || !elsewhere(err) || time.Now().Add(wait).After(giveUp) {
			return err
		}
		time.Sleep(wait)
	}
}

// store is what writes and reads the keys. Its pushes wait for replicas as long as
// the connection may wait for an answer, at most.
func (c config) store() resque.Store {
	within := min(ReplicaWait, c.client().dial.options().ReadTimeout/2)
	return resque.New(c.namespace).Replicated(c.waitReplicas, within)
}
