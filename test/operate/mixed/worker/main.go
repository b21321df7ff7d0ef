// Command worker is a daemon for tests of releases side by side. It uses only what the older release has, too: the test builds
// it in the sources of both.
package main

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/goworker/goworker"
)

// main works the queue of its second argument on the Redis of its first, under the hostname of its third.
func main() {
	d := goworker.New(goworker.WorkerSettings{
		URI: os.Args[1], QueuesString: os.Args[2], Hostname: os.Args[3], Concurrency: 3, ShutdownTimeout: 2 * time.Second,
		Logger: slog.New(slog.NewTextHandler(os.Stderr, nil)),
	})
	note := func(key string, n int) error {
		c, err := d.GetConn()
		if err != nil {
			return err
		}
		defer d.PutConn(c)
		_, err = c.Do("HINCRBY", "book:"+key, os.Args[3], n)
		return err
	}
	ran := func(id string) error {
		c, err := d.GetConn()
		if err != nil {
			return err
		}
		defer d.PutConn(c)
		_, err = c.Do("HINCRBY", "book:ran", id, 1)
		return err
	}
	d.Register("Note", func(id string) error {
		time.Sleep(10 * time.Millisecond)
		if err := note("by", 1); err != nil {
			return err
		}
		return ran(id)
	})
	d.Register("Hold", func(ctx context.Context, id string) error {
		if err := note("holds", 1); err != nil {
			return err
		}
		<-ctx.Done()
		return ctx.Err()
	})
	first := func(id string) (bool, error) {
		c, err := d.GetConn()
		if err != nil {
			return false, err
		}
		defer d.PutConn(c)
		return redis.Bool(c.Do("HSETNX", "book:tried", id, 1))
	}
	d.Register("Flaky", func(id string) error { // its first run fails
		if is, err := first(id); is || err != nil {
			return errors.Join(err, errors.New("the first run fails"))
		}
		return ran(id)
	}, goworker.Retry(3, goworker.Delays{3 * time.Second}))
	d.Register("Stuck", func(ctx context.Context, id string) error { // its first run never ends
		if is, err := first(id); is || err != nil {
			<-ctx.Done()
			return ctx.Err()
		}
		return ran(id)
	})
	d.Register("Limited", func(id string) error {
		if err := note("running", 1); err != nil {
			return err
		}
		time.Sleep(30 * time.Millisecond)
		if err := note("running", -1); err != nil {
			return err
		}
		return ran(id)
	}, goworker.MaxRunning(1))
	if err := d.Work(); err != nil {
		os.Exit(1)
	}
}
