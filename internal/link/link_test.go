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
	n := 0
	d := dialerFunc(func(ctx context.Context) (redis.Conn, error) {
		to, err := conn.NewDialer(ctx, conn.Config{URI: servers[n%len(servers)].URI()}, nil)
		if err != nil {
			return nil, err
		}
		n++
		return to.Dial(ctx)
	})
	l, err := Dial(t.Context(), part.Base{Store: resque.New(""), Dialer: d, Clock: clock.System}, true, time.Second, make(chan struct{}, 1), make(chan Reply, 1))
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
	var l *Link
	redistest.Eventually(t, time.Minute, "there is a link that tracks changes", func() (ok bool) {
		var err error
		l, err = linkTo(t, s)
		return err == nil && l.Wake != nil
	})
	for range 2 {
		redistest.Eventually(t, time.Minute, "it is to be proven", l.Prove)
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
