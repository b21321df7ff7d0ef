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

	"github.com/goworker/goworker/internal/redistest"
	"github.com/goworker/goworker/internal/resque"
)

func TestMasterLockIsSharedByParts(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	c := s.Dial(t)
	config, err := WorkerSettings{Hostname: "localhost"}.configFrom(false, noEnvironment)
	if err != nil {
		t.Fatal(err)
	}
	taken := 0
	m := newMasterLock(config, resque.New(""), func() string { return "localhost:1:a" }, func(string) { taken++ })
	other := newMasterLock(config, resque.New(""), func() string { return "localhost:1:b" }, func(string) {})
	const key = "resque:resque:resque_scheduler_master_lock"
	hold := func(m *masterLock, user string, want bool) {
		t.Helper()
		if held, _, err := m.hold(c, user); held != want || m.held() != want || err != nil {
			t.Errorf("%s: held %v, %v; want %v; %v", user, held, m.held(), want, err)
		}
	}
	release := func(user string, still bool) {
		t.Helper()
		if err := m.release(c, user); err != nil {
			t.Error(err)
		}
		if m.held() != still || (s.Int(t, "EXISTS", key) == 1) != still {
			t.Errorf("after %s released it: held %v, want %v", user, m.held(), still)
		}
	}
	hold(m, "pump", true)
	hold(m, "cron", true)
	hold(other, "pump", false)
	release("pump", true)
	release("pump", true)
	hold(m, "cron", true)
	release("cron", false)
	if taken != 1 {
		t.Errorf("told of it %d times, want once", taken)
	}
	hold(m, "pump", true)
	if err := other.inherit(c, "localhost:1:a"); err != nil {
		t.Error(err)
	}
	hold(other, "pump", true) // the other found this one dead
	if err := other.release(c, "pump"); err != nil {
		t.Error(err)
	}
	hold(m, "pump", true)
	s.Do(t, "SET", key, "ruby:1") // it ran out while we stood still
	hold(m, "pump", false)
	if err := m.release(c, "pump"); err != nil || s.Text(t, "GET", key) != "ruby:1" {
		t.Errorf("Ruby's lock was touched: %v", err)
	}
}

// A release that Redis was not heard of is made up for.
func TestMasterLockIsReleasedAgain(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	c, broken := s.Dial(t), s.Dial(t)
	config, err := WorkerSettings{Hostname: "localhost"}.configFrom(false, noEnvironment)
	if err != nil {
		t.Fatal(err)
	}
	m := newMasterLock(config, resque.New(""), func() string { return "localhost:1:a" }, func(string) {})
	if held, _, err := m.hold(c, "pump"); !held || err != nil {
		t.Fatal(held, err)
	}
	broken.Close()
	if err := m.release(broken, "pump"); err == nil {
		t.Error("it was released over a connection that is closed")
	}
	if err := m.release(c, "pump"); err != nil || m.held() || s.Int(t, "EXISTS", "resque:resque:resque_scheduler_master_lock") != 0 {
		t.Errorf("it is still held, %v; %v", m.held(), err)
	}
}

// stoppedConn stops the daemon as soon as Redis has given it the schedulers' lock, of
// which it does not hear.
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

// Who is stopped while he takes the lock does not keep it.
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

// A part of the daemon that could not give the lock back, because Redis was away when it
// stopped, leaves that to the daemon's leaving.
func TestMasterLockEndsWithTheDaemon(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.start()
	b.idle()
	if held, _, err := b.daemon.master.hold(b.redis.Dial(t), "a part"); !held || err != nil {
		t.Fatal(held, err)
	}
	if err := b.stop(); err != nil {
		t.Error(err)
	}
	b.onlyTotals()
}

// A lock that is none keeps nobody in the fleet.
func TestMasterLockOfWrongType(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.start()
	b.idle()
	b.redis.Do(t, "RPUSH", masterKey, "not a string")
	if _, _, err := b.daemon.master.hold(b.redis.Dial(t), "a part"); err == nil {
		t.Error("it was taken")
	}
	if err := b.stop(); err == nil || !strings.Contains(err.Error(), "WRONGTYPE") {
		t.Errorf("the stop says %v", err)
	}
	b.redis.Do(t, "DEL", masterKey)
	b.onlyTotals()
}
