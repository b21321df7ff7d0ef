package goworker_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/goworker/goworker"
	"github.com/goworker/goworker/internal/daemontest"
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
	takes := slices.Contains(args, any(daemontest.RubyLock)) && slices.Contains(args, any(int(resque.MasterLockTTL.Seconds())))
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
	b := daemontest.Setup(t, func(s *goworker.WorkerSettings) { s.URI = strings.Replace(s.URI, "redis", "stopped", 1) })
	b.Daemon.RegisterDialer("stopped", func(_ context.Context, uri string, _ goworker.DialOptions) (goworker.Dialer, error) {
		return goworker.DialerFunc(func(context.Context) (redis.Conn, error) {
			c, err := redis.DialURL(strings.Replace(uri, "stopped", "redis", 1))
			if err != nil {
				return nil, err
			}
			return stoppedConn{c.(redis.ConnWithTimeout), func() { b.Cancel() }, &stops}, nil
		}), nil
	})
	shared := daemontest.EverySecond("ticks")
	shared.Shared = true
	b.Schedule("shared", shared)
	b.Start()
	b.Eventually("it is stopped", stops.Load)
	if err := b.Wait(); err != nil {
		t.Error(err)
	}
	if holder := b.Redis.Text(t, "GET", daemontest.RubyLock); holder != "" {
		t.Errorf("%s has left and holds the lock", holder)
	}
}

// If a part of the daemon could not release the lock, because Redis was away when it stopped, the
// daemon releases it when it leaves the fleet.
func TestMasterLockEndsWithTheDaemon(t *testing.T) {
	t.Parallel()
	b := daemontest.Setup(t)
	b.Start()
	b.Idle()
	if held, err := goworker.HoldMasterLock(b.Daemon, b.Redis.Dial(t), "a part"); !held || err != nil {
		t.Fatal(held, err)
	}
	if err := b.Stop(); err != nil {
		t.Error(err)
	}
	b.OnlyTotals()
}

// A key of the wrong type in place of the lock does not keep a daemon in the fleet.
func TestMasterLockOfWrongType(t *testing.T) {
	t.Parallel()
	b := daemontest.Setup(t)
	b.Start()
	b.Idle()
	b.Redis.Do(t, "RPUSH", daemontest.MasterKey, "not a string")
	if _, err := goworker.HoldMasterLock(b.Daemon, b.Redis.Dial(t), "a part"); err == nil {
		t.Error("it was taken")
	}
	if err := b.Stop(); err == nil || !strings.Contains(err.Error(), "WRONGTYPE") {
		t.Errorf("the stop says %v", err)
	}
	b.Redis.Do(t, "DEL", daemontest.MasterKey)
	b.OnlyTotals()
}
