package link

import (
	"context"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/goworker/goworker/internal/clock"
	"github.com/goworker/goworker/internal/conn"
	"github.com/goworker/goworker/internal/part"
	"github.com/goworker/goworker/internal/redistest"
	"github.com/goworker/goworker/internal/resque"
)

// ticking is a clock whose timers all fire when the test sends a time.
type ticking struct {
	clock.Clock
	ticks chan time.Time
}

func (c ticking) NewTimer(time.Duration) clock.Timer { return c }

func (c ticking) C() <-chan time.Time { return c.ticks }

func (ticking) Stop() bool { return true }

func (ticking) Reset(time.Duration) bool { return true }

// An idle link is pinged each second time that a PING is due: its answer says that the connection lives. One that a message woke is not.
func TestLinkSparesPings(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	d := dialerFunc(func(ctx context.Context) (redis.Conn, error) {
		to, err := conn.NewDialer(ctx, conn.Config{URI: s.URI()}, nil)
		if err != nil {
			return nil, err
		}
		return to.Dial(ctx)
	})
	b := part.Base{Store: resque.New(""), Dialer: d, Clock: ticking{clock.System, make(chan time.Time)}}
	var l *Link
	redistest.Eventually(t, time.Minute, "a link tracks changes", func() bool {
		var err error
		if l, err = Dial(t.Context(), b, true, time.Minute, make(chan struct{}, 1), make(chan Reply, 1), nil, "resque:go:key"); err != nil {
			t.Fatal(err)
		}
		if l.Wake == nil {
			l.Shut()
		}
		return l.Wake != nil
	})
	t.Cleanup(l.Shut)
	m := s.Monitor(t)
	pings := func() (n int) {
		for _, c := range m.Commands() {
			if c[0] == "PING" {
				n++
			}
		}
		return n
	}
	tick := func() { // returns when it was dealt with: then a command is due, because there was none
		b.Clock.(ticking).ticks <- time.Time{}
		redistest.Eventually(t, time.Minute, "the link is to be proven", l.Prove)
	}
	heard := func(what string) { redistest.Eventually(t, time.Minute, what, l.heard.Load) }
	for pings() == 0 { // it may have heard something while it was dialed
		tick()
	}
	heard("the answer to a PING comes")
	before := pings()
	for range 3 {
		tick()
		tick()
		heard("the answer to the next PING comes")
	}
	if n := pings() - before; n != 3 {
		t.Errorf("of 6 times that a PING was due it was sent %d times", n)
	}
	before = pings()
	for range 3 {
		tick()
		if err := b.Store.Arm(l.Conn); err != nil {
			t.Fatal(err)
		}
		if _, err := l.Conn.Do("GET", "resque:go:key"); err != nil {
			t.Fatal(err)
		}
		s.Do(t, "SET", "resque:go:key", "1")
		heard("the change comes")
	}
	tick()
	if n := pings() - before; n != 0 {
		t.Errorf("while messages come %d PINGs were sent", n)
	}
}
