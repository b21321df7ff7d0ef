package goworker

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/goworker/goworker/internal/resque"
)

// stoppedConn stops the daemon when Redis has given it the schedulers' lock, and loses the reply.
type stoppedConn struct {
	redis.ConnWithTimeout
	stop  context.CancelFunc
	stops *atomic.Bool
}

func (c stoppedConn) DoWithTimeout(d time.Duration, command string, args ...any) (any, error) {
	reply, err := c.ConnWithTimeout.DoWithTimeout(d, command, args...)
	takes := slices.Contains(args, any(rubyLock)) && slices.Contains(args, any(int(resque.MasterLockTTL.Seconds())))
	if err != nil || !takes || !c.stops.CompareAndSwap(false, true) {
		return reply, err
	}
	c.stop()
	for c.Err() == nil { // it is closed to end what waits for it
		time.Sleep(time.Millisecond)
	}
	return nil, errors.New("closed")
}

// A daemon that is stopped while it takes the lock does not keep it.
func TestStopAtATickGivesTheLockBack(t *testing.T) {
	t.Parallel()
	var stops atomic.Bool
	b := setup(t, func(s *WorkerSettings) { s.URI = strings.Replace(s.URI, "redis", "stopped", 1) })
	b.daemon.RegisterDialer("stopped", func(_ context.Context, uri string, _ DialOptions) (Dialer, error) {
		return DialerFunc(func(context.Context) (redis.Conn, error) {
			c, err := redis.DialURL(strings.Replace(uri, "stopped", "redis", 1))
			if err != nil {
				return nil, err
			}
			return stoppedConn{c.(redis.ConnWithTimeout), func() { b.cancel() }, &stops}, nil
		}), nil
	})
	shared := everySecond("ticks")
	shared.Shared = true
	b.schedule("shared", shared)
	b.start()
	b.eventually("it is stopped", stops.Load)
	if err := b.wait(); err != nil {
		t.Error(err)
	}
	if holder := b.redis.Text(t, "GET", rubyLock); holder != "" {
		t.Errorf("%s has left and holds the lock", holder)
	}
}

// If a part of the daemon could not release the lock, because Redis was away when it stopped, the
// daemon releases it when it leaves the fleet.
func TestMasterLockEndsWithTheDaemon(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.start()
	b.idle()
	if held, _, err := b.daemon.lock.Hold(b.redis.Dial(t), "a part"); !held || err != nil {
		t.Fatal(held, err)
	}
	if err := b.stop(); err != nil {
		t.Error(err)
	}
	b.onlyTotals()
}

// A key of the wrong type in place of the lock does not keep a daemon in the fleet.
func TestMasterLockOfWrongType(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.start()
	b.idle()
	b.redis.Do(t, "RPUSH", masterKey, "not a string")
	if _, _, err := b.daemon.lock.Hold(b.redis.Dial(t), "a part"); err == nil {
		t.Error("it was taken")
	}
	if err := b.stop(); err == nil || !strings.Contains(err.Error(), "WRONGTYPE") {
		t.Errorf("the stop says %v", err)
	}
	b.redis.Do(t, "DEL", masterKey)
	b.onlyTotals()
}
