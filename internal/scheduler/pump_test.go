package scheduler

import (
	"errors"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/goworker/goworker/internal/part"
	"github.com/goworker/goworker/internal/redistest"
	"github.com/goworker/goworker/internal/resque"
)

const soon = 10 * time.Second

var nothingDue = resque.Due{Own: resque.Never, Plain: resque.Never, Hints: resque.Never}

func startPump(t *testing.T, b part.Base, c PumpConfig) *Pump {
	t.Helper()
	fleet := &testFleet{self: "localhost:1:a"}
	p := NewPump(b, c, NewLock(b, LockConfig{}, fleet), fleet)
	if err := p.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Stop(t.Context()); err != nil {
			t.Error(err)
		}
	})
	return p
}

func delay(t *testing.T, s *redistest.Server, at time.Time) {
	t.Helper()
	s.Do(t, "ZADD", "resque:go:schedule", at.UnixMilli(), `3:low{"class":"Note","args":[],"id":"x"}`)
}

// A pump that leads moves jobs at their times, and one that does not only if they are overdue.
func TestPumpLeads(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	length := func() int { return s.Int(t, "LLEN", "resque:queue:low") }
	p := startPump(t, testBase(s), PumpConfig{Tracking: true, Interval: time.Hour})
	delay(t, s, time.Now())
	p.Answered(false, resque.Due{Own: -time.Second, Plain: resque.Never, Hints: resque.Never})
	time.Sleep(100 * time.Millisecond) // nothing is to come
	if n := length(); n != 0 {
		t.Errorf("it moved %d jobs that are for the leader", n)
	}
	p.Answered(false, resque.Due{Own: -2 * time.Second, Plain: resque.Never, Hints: resque.Never})
	redistest.Eventually(t, soon, "the overdue job is moved", func() bool { return length() == 1 })
	p.Answered(true, nothingDue)
	delay(t, s, time.Now().Add(50*time.Millisecond))
	redistest.Eventually(t, soon, "the job is moved at its time", func() bool { return length() == 2 })
}

// A wake-up that means no change costs no command: a link signals, too, that it has lived idle.
func TestPumpIdleSignals(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	p := startPump(t, testBase(s), PumpConfig{Tracking: true, Interval: time.Hour})
	monitor := s.Monitor(t)
	commands := func() [][]string { // but for those that prove the connection when its time has come
		return slices.DeleteFunc(monitor.Commands(), func(c []string) bool { return c[0] == "PING" })
	}
	sent := func() int { return len(commands()) }
	p.Answered(true, nothingDue)
	redistest.Eventually(t, soon, "it looks", func() bool { return sent() > 0 })
	for before := -1; before != sent(); time.Sleep(100 * time.Millisecond) {
		before = sent()
	}
	before := sent()
	for range 5 {
		p.loop.Wake()
		time.Sleep(2 * quiet)
	}
	if n := sent() - before; n > 0 {
		t.Errorf("it sends %q", commands()[before:])
	}
	p.Poke()
	redistest.Eventually(t, soon, "it looks when it is poked", func() bool { return sent() > before })
}

// A turn that failed is taken again, also by a pump that does not lead.
func TestPumpTriesAgain(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	b := testBase(s)
	var dials atomic.Int64
	b.Dialer = testDialer(func() (redis.Conn, error) {
		if dials.Add(1) < 3 {
			return nil, errors.New("no Redis")
		}
		return redis.DialURL(s.URI())
	})
	p := startPump(t, b, PumpConfig{Interval: time.Hour})
	delay(t, s, time.Now())
	p.Poke()
	redistest.Eventually(t, soon, "the job is moved", func() bool { return s.Int(t, "LLEN", "resque:queue:low") == 1 })
}
