package goworker

import (
	"errors"
	"fmt"

	"github.com/gomodule/redigo/redis"

	"github.com/goworker/goworker/internal/queues"
	"github.com/goworker/goworker/internal/resque"
)

// PauseQueue has no process of the fleet take jobs from a queue until ResumeQueue. Those
// that were taken run. Processes hear of it at once where Redis can tell them, else
// within their interval. Ruby's workers do not know of it: for them there is the key
// pause-all-workers, which stops everybody. A pattern or an exclusion, as lists of queues
// have them, is refused: name each queue.
func (d *Daemon) PauseQueue(queue string) error {
	if err := d.usable(); err != nil {
		return err
	}
	if queue == "" {
		return errNoQueueToPause
	}
	if !queues.PlainName(queue) {
		return fmt.Errorf("goworker: %q is not one queue but a pattern or an exclusion, by which nothing can be paused; pause each queue by its name", queue)
	}
	return d.withConn(func(s resque.Store, c redis.Conn) error { return s.PauseQueue(c, queue) })
}

// ResumeQueue ends PauseQueue. A pattern or an exclusion is refused, unless it is among
// the PausedQueues as it stands.
func (d *Daemon) ResumeQueue(queue string) error {
	if err := d.usable(); err != nil {
		return err
	}
	if queue == "" {
		return errNoQueueToPause
	}
	resumed, err := query(d, func(s resque.Store, c redis.Conn) (bool, error) { return s.ResumeQueue(c, queue) })
	if err == nil && !resumed && !queues.PlainName(queue) {
		err = fmt.Errorf("goworker: %q is not one queue but a pattern or an exclusion, and nothing is paused by it; resume each queue by its name", queue)
	}
	return err
}

var errNoQueueToPause = errors.New("goworker: the queue to pause or resume has no name; give it one")

// PausedQueues returns the names of the queues that are paused, sorted.
func (d *Daemon) PausedQueues() ([]string, error) { return query(d, resque.Store.PausedQueues) }

// PauseQueue is Daemon.PauseQueue of the default daemon.
func PauseQueue(queue string) error { return std().PauseQueue(queue) }

// ResumeQueue is Daemon.ResumeQueue of the default daemon.
func ResumeQueue(queue string) error { return std().ResumeQueue(queue) }

// PausedQueues is Daemon.PausedQueues of the default daemon.
func PausedQueues() ([]string, error) { return std().PausedQueues() }
