package link

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/goworker/goworker/internal/clock"
	"github.com/goworker/goworker/internal/conn"
	"github.com/goworker/goworker/internal/part"
	"github.com/goworker/goworker/internal/redistest"
	"github.com/goworker/goworker/internal/resque"
)

type dialerFunc func(ctx context.Context) (redis.Conn, error)

func (f dialerFunc) Dial(ctx context.Context) (redis.Conn, error) { return f(ctx) }

// linkTo makes a link whose dials go to the servers in turn.
func linkTo(t *testing.T, servers ...*redistest.Server) (*Link, error) {
	t.Helper()
	return linkAt(t, clock.System, time.Second, servers...)
}

// linkAt is linkTo for a link that goes by a clock, and is pinged as often.
func linkAt(t *testing.T, c clock.Clock, pingEvery time.Duration, servers ...*redistest.Server) (*Link, error) {
	t.Helper()
	n := 0
	d := dialerFunc(func(ctx context.Context) (redis.Conn, error) {
		to, err := conn.NewDialer(ctx, conn.Config{URI: servers[n%len(servers)].URI()}, nil)
		if err != nil {
			return nil, err
		}
		n++
		return to.Dial(ctx)
	})
	l, err := Dial(t.Context(), part.Base{Store: resque.New(""), Dialer: d, Clock: c}, true, pingEvery, make(chan struct{}, 1), make(chan Reply, 1), nil)
	if err == nil {
		t.Cleanup(l.Shut)
	}
	return l, err
}

// When the master moves between the two dials of a link, its halves lead to two
// servers, and no change would be notified. The link finds that out, even if the two
// servers use the same number for different connections. It then works
// without tracking and is redialed soon.
func TestLinkToTwoServers(t *testing.T) {
	t.Parallel()
	a, b := redistest.Start(t), redistest.Start(t)
	for range 10 { // so that the numbers of b's connections are those of a's
		a.Dial(t)
		b.Dial(t)
	}
	redistest.Eventually(t, time.Minute, "a link to one server tracks changes", func() bool {
		l, err := linkTo(t, a)
		return err == nil && l.Wake != nil
	})
	l, err := linkTo(t, a, b)
	if err != nil || l.Wake != nil || l.Untracked == nil {
		t.Errorf("two servers: %v, %v; want one that cannot track changes", l.Untracked, err)
	}
}

// A connection that asked nothing between two PINGs is to be proven, once.
func TestLinkIsProven(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	c := ticking{clock.System, make(chan time.Time)}
	var l *Link
	redistest.Eventually(t, time.Minute, "there is a link that tracks changes", func() (ok bool) {
		var err error
		if l, err = linkAt(t, c, time.Minute, s); err == nil && l.Wake == nil {
			l.Shut()
		}
		return err == nil && l.Wake != nil
	})
	for range 2 {
		c.ticks <- time.Time{}
		redistest.Eventually(t, time.Minute, "it is to be proven", l.Prove)
		if l.Prove() {
			t.Error("it is to be proven twice")
		}
	}
}

// A server that is no master says nothing about whether it could track changes.
func TestLinkToReplica(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	s.Do(t, "REPLICAOF", "127.0.0.1", "1")
	if _, err := linkTo(t, s); err == nil || !strings.Contains(err.Error(), "READONLY") {
		t.Errorf("%v", err)
	}
}

// A link hears of the notice on the connection that waits anyway. Without the permission for the channel it hears of
// keys as before.
func TestLinkHearsTheNotice(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	s.Do(t, "ACL", "SETUSER", "deaf", "on", ">secret", "~*", "&__redis__:invalidate", "+@all")
	for _, user := range []string{"default", "deaf"} {
		heard := make(chan string, 10)
		signal := make(chan struct{}, 1)
		uri := s.URI()
		if user == "deaf" {
			uri = "redis://deaf:secret@" + s.Addr
		}
		d := dialerFunc(func(ctx context.Context) (redis.Conn, error) {
			to, err := conn.NewDialer(ctx, conn.Config{URI: uri}, nil)
			if err != nil {
				return nil, err
			}
			return to.Dial(ctx)
		})
		b := part.Base{Store: resque.New(""), Dialer: d, Clock: clock.System}
		var l *Link
		redistest.Eventually(t, time.Minute, "a link tracks changes", func() bool {
			var err error
			if l, err = Dial(t.Context(), b, true, time.Minute, signal, make(chan Reply, 1), func(field string) { heard <- field }, "resque:go:key"); err != nil {
				t.Fatal(err)
			}
			if l.Wake == nil {
				l.Shut()
			}
			return l.Wake != nil
		})
		t.Cleanup(l.Shut)
		if user == "default" {
			redistest.Eventually(t, time.Minute, "Redis has a subscriber", func() bool { return s.Int(t, "PUBLISH", "resque:go:notice", "command") == 1 })
			if field := <-heard; field != "command" {
				t.Errorf("heard of %q", field)
			}
		}
		if err := b.Store.Arm(l.Conn); err != nil {
			t.Fatal(err)
		}
		if _, err := l.Conn.Do("GET", "resque:go:key"); err != nil {
			t.Fatal(err)
		}
		s.Do(t, "SET", "resque:go:key", "1")
		<-signal
		if changed, all, broken := l.Take(); len(changed) != 1 || changed[0] != resque.KeyChanged+"resque:go:key" || all || broken != nil {
			t.Errorf("%s: %q, %v, %v", user, changed, all, broken)
		}
	}
}
