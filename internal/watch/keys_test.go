package watch

import (
	"errors"
	"log/slog"
	"slices"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/goworker/goworker/internal/clock"
	"github.com/goworker/goworker/internal/lanes"
	"github.com/goworker/goworker/internal/outcome"
	"github.com/goworker/goworker/internal/part"
	"github.com/goworker/goworker/internal/queues"
	"github.com/goworker/goworker/internal/redistest"
	"github.com/goworker/goworker/internal/resque"
)

// keysBundle is an Order that watches two keys.
type keysBundle struct {
	*Order
	t    *testing.T
	conn redis.Conn
	busy bool
	read []string // keys, in order
	err  error    // that Read returns
}

func testKeys(t *testing.T, tracking bool) *keysBundle {
	t.Helper()
	spec, err := queues.Parse([]string{"work"})
	if err != nil {
		t.Fatal(err)
	}
	s := redistest.Start(t)
	b := &keysBundle{t: t, conn: s.Dial(t)}
	base := part.Base{Log: slog.New(slog.DiscardHandler), Clock: clock.System, Store: resque.New("")}
	if tracking {
		if err := base.Store.Track(b.conn, s.Dial(t)); err != nil {
			t.Fatal(err)
		}
	}
	watched := func(key string) outcome.Watched {
		return outcome.Watched{Key: key, Read: func(c redis.Conn) error {
			b.read = append(b.read, key)
			if _, err := c.Do("GET", key); err != nil {
				return err
			}
			return b.err
		}}
	}
	b.Order = New(base, lanes.New(base, noLimits{}, func(f func()) { f() }, func() {}), Options{
		List: List{Queues: spec, Order: queues.Strict}, Interval: time.Minute,
		Peers: func() int { return 1 }, Waits: func(string) bool { return false },
		Watched: []outcome.Watched{watched("resque:go:a"), watched("resque:go:b")}, Busy: func() bool { return b.busy },
	})
	b.Connected(tracking)
	return b
}

// reads has the keys read that are due, and compares them with these.
func (b *keysBundle) reads(now time.Time, keys ...string) {
	b.t.Helper()
	b.read = nil
	if err := b.Read(b.conn, now); err != nil {
		b.t.Fatal(err)
	}
	if !slices.Equal(b.read, keys) {
		b.t.Errorf("read %q, want %q", b.read, keys)
	}
}

func TestKeysAreReadWhenTheyChange(t *testing.T) {
	t.Parallel()
	b, now := testKeys(t, true), time.Now()
	after := func(d time.Duration) time.Time { return now.Add(d) }
	b.reads(now, "resque:go:a", "resque:go:b")
	b.busy = true
	b.reads(after(time.Hour))
	b.Changed([]string{"work", resque.KeyChanged + "resque:go:b", resque.KeyChanged + "resque:go:c"}, false)
	b.reads(now, "resque:go:b")
	if len(b.changed) != 1 {
		t.Errorf("queues that changed: %v", b.changed)
	}
	b.Changed(nil, true)
	b.reads(now, "resque:go:a", "resque:go:b")

	key := resque.New("").TextKey("a")
	commit := func(e ...resque.Effect) *outcome.Commit {
		return &outcome.Commit{Ended: resque.Ended{Effects: e}}
	}
	b.Ended(new(outcome.Job), commit(resque.Command("SET", resque.New("").TextKey("c"), 1)), true)
	b.Ended(new(outcome.Job), commit(resque.Guard("GET", key, "")), true)
	b.Ended(new(outcome.Job), commit(resque.Command("SET", key, 1)), false)
	b.reads(now)
	b.Ended(new(outcome.Job), commit(resque.Command("SET", key, 1).Soft()), true)
	b.reads(now, "resque:go:a")
	b.Answered(new(resque.Exchange), resque.Exchanged{Wrote: []string{"resque:failed", "resque:go:b"}}, now)
	b.reads(now, "resque:go:b")

	b.err = errors.New("WRONGTYPE")
	b.Changed([]string{resque.KeyChanged + "resque:go:a"}, false)
	b.reads(now, "resque:go:a")
	b.err = nil
	if at := b.keys.next(); !at.Equal(after(time.Minute)) {
		t.Errorf("read again at %s", at)
	}
	b.reads(after(59 * time.Second))
	b.reads(after(time.Minute), "resque:go:a")
	b.reads(after(time.Hour))
}

func TestKeysAreReadByTimeUntracked(t *testing.T) {
	t.Parallel()
	b, now := testKeys(t, false), time.Now()
	b.reads(now, "resque:go:a", "resque:go:b")
	b.reads(now.Add(59 * time.Second))
	b.busy = true
	b.reads(now.Add(999 * time.Millisecond))
	if at := b.Next(false); at.After(now.Add(time.Second)) {
		t.Errorf("the poller wakes after %s", at.Sub(now))
	}
	b.reads(now.Add(time.Second), "resque:go:a", "resque:go:b")
	b.busy = false
	b.reads(now.Add(time.Minute))
	b.reads(now.Add(61*time.Second), "resque:go:a", "resque:go:b")
}

// An error of the connection is the poller's, which dials another. That reads the keys.
func TestKeysOnBrokenConnection(t *testing.T) {
	t.Parallel()
	b, now := testKeys(t, true), time.Now()
	whole := b.conn
	b.conn = redistest.Start(t).Dial(t)
	_ = b.conn.Close()
	if err := b.Read(b.conn, now); err == nil {
		t.Error("no error")
	}
	b.conn = whole
	b.Connected(true)
	b.reads(now, "resque:go:a", "resque:go:b")
}
